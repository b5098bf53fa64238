//! Sizes and names that a run file declares: they shape the model, and data that differs is refused.

use std::collections::BTreeMap;

use gaia_core::application::{Attachment, Names};

use super::files::Folder;
use super::{build, refuse};

const RATINGS: &str = "matrix-factorization";
const DENSE: &str = "softmax-regression";
const SPARSE: &str = "logistic-regression";
const DOCUMENTS: &str = "topic-model";

/// Data of two data centers in one format, with something declared.
fn keys(folder: &Folder, source: &str, declared: &str) -> String {
    let path = folder.at("{dc}.txt");
    format!("data = {{ source = '{source}', path = '{path}', declared = {{ {declared} }} }}")
}

/// The tables of a model by their rows, and what it has beside them.
fn model(kind: &str, keys: &str) -> (Vec<usize>, BTreeMap<String, Attachment>) {
    let application = build(kind, keys, &[1, 1]).unwrap();
    let layout = application.layout();
    let rows = layout.table_ids().map(|id| layout.table(id).rows).collect();
    (rows, application.attachments())
}

#[test]
fn declared_users_and_items_have_rows_whether_they_have_rated_or_not() {
    let folder = Folder::new();
    folder.text("dc-0.txt", "user,item,rating\n3,10,1\n4,11,2\n");
    folder.text("dc-1.txt", "user,item,rating\n5,10,3\n9,12,4\n");

    let agreed = model(RATINGS, &keys(&folder, "csv", ""));
    assert_eq!(agreed.0, [4, 3]);
    let (rows, attachments) = model(RATINGS, &keys(&folder, "csv", "users = [2, 9]"));
    assert_eq!(rows, [8, 3]);
    assert_eq!(attachments["users.names"], Names::Numbers((2..=9).collect()).into());
    assert_eq!(attachments["items.names"], agreed.1["items.names"]);
    assert_eq!(attachments["mean"], agreed.1["mean"]);

    let users = keys(&folder, "csv", "users = [1, 8]");
    let said = "the data of dc-1: found \"9\" among the users, expected numbers 1 to 8, as \
                app.data.declared.users says";
    refuse(RATINGS, &users, &[said]);
    let items = keys(&folder, "csv", "items = [11, 12]");
    refuse(RATINGS, &items, &["the data of dc-0: found \"10\" among the items"]);
    let none = keys(&folder, "csv", "users = [9, 2]");
    refuse(RATINGS, &none, &["app.data.declared.users is [9, 2]", "first and the last number"]);
    let most = keys(&folder, "csv", "users = [0, 2147483647]");
    refuse(RATINGS, &most, &["app.rank is 16", "a model of fewer than"]);

    folder.text("dc-1.txt", "user,item,rating\nann,10,3\nbob,12,4\n");
    folder.text("dc-0.txt", "user,item,rating\ncid,10,3\nbob,12,4\n");
    let users = keys(&folder, "csv", "users = [1, 8]");
    refuse(RATINGS, &users, &["the data of dc-0: found \"bob\" among the users"]);
}

#[test]
fn declared_classes_are_those_of_the_model() {
    let folder = Folder::new();
    for dc in ["dc-0", "dc-1"] {
        folder.text(&format!("{dc}.txt"), "a,b,label\n1,2,elm\n3,4,oak\n");
    }
    let (_, agreed) = model(DENSE, &keys(&folder, "csv", ""));
    assert_eq!(agreed["classes"], Attachment::Integers(vec![2]));
    let declared = "classes = ['oak', 'ash', 'elm'], features = 2";
    let (_, attachments) = model(DENSE, &keys(&folder, "csv", declared));
    assert_eq!(attachments["classes"], Attachment::Integers(vec![3]));
    let names = ["ash", "elm", "oak"].map(str::to_owned).to_vec();
    assert_eq!(attachments["classes.names"], Names::Text(names).into());

    let other = keys(&folder, "csv", "classes = ['ash', 'elm']");
    let said = "the data of dc-0: found the class \"oak\", expected one of `ash`, `elm`, as \
                app.data.declared.classes says";
    refuse(DENSE, &other, &[said]);
    refuse(DENSE, &keys(&folder, "csv", "classes = 3"), &["found the class \"elm\""]);
    let features = keys(&folder, "csv", "features = 3");
    refuse(DENSE, &features, &["dc-0: found examples of 2 features, expected 3, as"]);
    let one = keys(&folder, "csv", "classes = ['ash']");
    refuse(DENSE, &one, &["app.data.declared.classes is a list of 1", "at least 2"]);
    refuse(SPARSE, &keys(&folder, "csv", declared), &["declared.classes is 3 classes"]);

    for dc in ["dc-0", "dc-1"] {
        folder.text(&format!("{dc}.txt"), "a,b,label\n1,2,0\n3,4,1\n");
    }
    let (_, attachments) = model(DENSE, &keys(&folder, "csv", "classes = 4"));
    assert_eq!(attachments["classes"], Attachment::Integers(vec![4]));
}

#[test]
fn declared_features_and_words_are_those_of_the_model() {
    let folder = Folder::new();
    folder.text("dc-0.txt", "+1 1:1 4:2\n-1 2:1\n+1 3:1\n");
    folder.text("dc-1.txt", "-1 1:1 6:2\n+1 2:1\n-1 3:1\n");
    let rows = |declared: &str| model(SPARSE, &keys(&folder, "libsvm", declared)).0[0];
    assert_eq!(rows("features = 9") - rows(""), 3);
    let said = "the data of dc-1: found 6 features, expected 5, as app.data.declared.features says";
    refuse(SPARSE, &keys(&folder, "libsvm", "features = 5"), &[said]);

    for dc in ["dc-0", "dc-1"] {
        folder.text(&format!("{dc}.txt"), "3\n4\n3\n1 1 2\n2 2 1\n3 1 4\n");
    }
    let words = |words| keys(&folder, "docword", &format!("words = {words}"));
    assert!(build(DOCUMENTS, &words(4), &[1, 1]).is_ok());
    let said = "the data of dc-0: found documents of 4 words, expected 5, as";
    refuse(DOCUMENTS, &words(5), &[said]);
    refuse(DOCUMENTS, &words(0), &["app.data.declared.words is 0"]);
}
