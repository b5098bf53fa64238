//! Ratings in columns.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::files::{
    Folder, compressed, dictionary, float32, float64, int16, int64, parquet, text, uint64, views,
};
use super::runs::run;
use super::{build, refuse, trained};
use parquet::basic::{Compression as PageCompression, ZstdLevel};

const KIND: &str = "matrix-factorization";

/// 40 users and 12 items, in no order: users, items, ratings.
fn ratings() -> (Vec<i64>, Vec<i64>, Vec<f32>) {
    let rows = (0..400_i64).map(|at| {
        let (user, item) = ((at * 17) % 40 * 1000 + 7, (at * 29) % 12 + 3);
        (user, item, ((user + 2 * item) % 9) as f32 / 2.0 + 0.5)
    });
    let (mut users, mut items, mut values) = (Vec::new(), Vec::new(), Vec::new());
    rows.for_each(|(user, item, value)| {
        users.push(user);
        items.push(item);
        values.push(value);
    });
    (users, items, values)
}

#[test]
fn the_same_ratings_train_the_same_model_in_every_format() {
    let folder = Folder::new();
    let (users, items, values) = ratings();
    let rows = |separator: &str, row: &dyn Fn(i64, i64, f32) -> [String; 3]| -> String {
        let rows = users.iter().zip(&items).zip(&values);
        rows.map(|((user, item), value)| row(*user, *item, *value).join(separator) + "\n").collect()
    };
    let plain =
        |user: i64, item: i64, value: f32| [user.to_string(), item.to_string(), value.to_string()];
    let quoted = |user: i64, item: i64, value: f32| {
        [format!("{value:?}"), format!("\"{item}\""), format!("\"{user}\"")]
    };

    folder.text("movielens.csv", &rows(",", &plain));
    folder.text("plain.csv", &format!("\u{feff}user,item,rating\n{}", rows(",", &plain)));
    let named = format!("stars;\"what; it is\";who\r\n{}", rows(";", &quoted));
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(named.as_bytes()).unwrap();
    folder.bytes("named.csv.gz", &packed.finish().unwrap());
    let columns = [
        ("other", text(&vec!["x"; users.len()])),
        ("item", int16(items.iter().map(|item| *item as i16))),
        ("rating", float64(values.iter().map(|value| (*value).into()))),
        ("user", uint64(users.iter().map(|user| *user as u64))),
    ];
    for (name, compression) in [
        ("plain", PageCompression::UNCOMPRESSED),
        ("snappy", PageCompression::SNAPPY),
        ("gzip", PageCompression::GZIP(Default::default())),
        ("lz4", PageCompression::LZ4_RAW),
        ("zstd", PageCompression::ZSTD(ZstdLevel::default())),
    ] {
        folder.bytes(&format!("{name}.parquet"), &parquet(&columns, compressed(compression)));
    }

    let model = |source: &str, file: &str, more: &str| {
        let path = folder.at(file);
        let keys = format!("rank = 3\ndata = {{ source = '{source}', path = '{path}'{more} }}");
        let application = build(KIND, &keys, &[2, 1]).unwrap();
        let described = application.describe().replace(&path, "");
        (trained(&*application, 20), described)
    };
    let expected = model("movielens", "movielens.csv", "");
    assert_eq!(model("csv", "plain.csv", ""), expected);
    let named =
        ", columns = { user = 'who', item = 'what; it is', rating = 'stars', separator = ';' }";
    assert_eq!(model("csv", "named.csv.gz", named), expected);
    for name in ["plain", "snappy", "gzip", "lz4", "zstd"] {
        assert_eq!(model("parquet", &format!("{name}.parquet"), ""), expected, "{name}");
    }
}

#[test]
fn users_are_named_by_text_in_any_form_and_a_name_that_is_text_makes_all_text() {
    let folder = Folder::new();
    let users = ["ann", "bob", "cy", "ann"];
    let model = |file: &str, source: &str| {
        let keys =
            format!("rank = 2\ndata = {{ source = '{source}', path = '{}' }}", folder.at(file));
        let application = build(KIND, &keys, &[1]).unwrap();
        assert!(application.describe().contains("3 users × 2 items"), "{}", application.describe());
        trained(&*application, 10)
    };
    let items = || int64([1, 2, 1, 2]);
    let values = || float32([1.0, 2.5, 3.0, 4.0]);
    for (name, users) in
        [("text", text(&users)), ("views", views(&users)), ("dict", dictionary(&users))]
    {
        folder.parquet(name, &[("user", users), ("item", items()), ("rating", values())]);
    }
    let expected = model("text", "parquet");
    assert_eq!(model("views", "parquet"), expected);
    assert_eq!(model("dict", "parquet"), expected);
    folder.text("csv", "user,item,rating\nann,1,1\nbob,2,2.5\ncy,1,3\nann,2,4\n");
    assert_eq!(model("csv", "csv"), expected);

    // "07" is not 7, whichever file it is in, and 7 is the same user in both files.
    std::fs::create_dir(folder.path().join("parts")).unwrap();
    folder.text("parts/a.csv", "user,item,rating\n7,1,1\n8,2,2\n");
    folder.text("parts/b.csv", "user,item,rating\n07,1,1\n7,2,2\n");
    model("parts", "csv");
}

#[test]
fn data_centers_that_name_users_differently_disagree() {
    let folder = Folder::new();
    folder.text("dc-0.csv", "user,item,rating\n1,1,1\n2,2,2\n");
    folder.text("dc-1.csv", "user,item,rating\nann,1,1\nbob,2,2\n");
    let keys = format!("data = {{ source = 'csv', path = '{}' }}", folder.at("{dc}.csv"));
    let error = "the data of dc-1: found users named by text, expected users named by numbers, as in the \
                 data of dc-0";
    refuse(KIND, &keys, &[error]);
}

#[test]
fn one_column_may_be_both_user_and_item() {
    let folder = Folder::new();
    folder.text("csv", "rating,other,who\n1, x,a\n2,y, b\n3,z,a\n");
    folder.parquet(
        "parquet",
        &[
            ("rating", float32([1.0, 2.0, 3.0])),
            ("other", text(&["x"; 3])),
            ("who", text(&["a", "b", "a"])),
        ],
    );
    let model = |source: &str| {
        let columns = "columns = { user = 'who', item = 'who' }";
        let keys =
            format!("data = {{ source = '{source}', path = '{}', {columns} }}", folder.at(source));
        trained(&*build(KIND, &keys, &[1]).unwrap(), 5)
    };
    assert_eq!(model("csv"), model("parquet"));
}

#[test]
fn empty_files_beside_others_are_left_out() {
    let folder = Folder::new();
    folder.text("a.csv", "");
    folder.text("b.csv", "user,item,rating\n");
    folder.text("c.csv", "user,item,rating\n1,1,1\n2,2,2\n");
    let keys = |name: &str| format!("data = {{ source = 'csv', path = '{}' }}", folder.at(name));
    build(KIND, &keys("*.csv"), &[1]).unwrap();
    refuse(KIND, &keys("[ab].csv"), &["found 0 in all, expected at least 2 ratings"]);

    let folder = Folder::new();
    folder.parquet("a.parquet", &[("nothing", text(&[]))]);
    folder.parquet(
        "b.parquet",
        &[("user", int64([1, 2])), ("item", int64([1, 2])), ("rating", float32([1.0, 2.0]))],
    );
    let keys = format!("data = {{ source = 'parquet', path = '{}' }}", folder.at("*"));
    build(KIND, &keys, &[1]).unwrap();
}

#[test]
fn data_centers_train_on_parquet_files_of_their_own() {
    let folder = Folder::new();
    let (users, items, values) = ratings();
    for (at, name) in ["virginia", "ireland", "tokyo"].into_iter().enumerate() {
        let own = |row: &usize| row % 3 == at;
        let rows: Vec<usize> = (0..users.len()).filter(own).collect();
        folder.parquet(
            &format!("{name}.parquet"),
            &[
                ("who", int64(rows.iter().map(|row| users[*row]))),
                ("item", int64(rows.iter().map(|row| items[*row]))),
                ("rating", float32(rows.iter().map(|row| values[*row]))),
            ],
        );
    }
    let data = format!(
        "app.data={{ source = 'parquet', path = '{}', columns.user = 'who' }}",
        folder.at("{dc}.parquet")
    );
    let outcome =
        run(&["app={ kind = 'matrix-factorization', rank = 3 }", &data, "stop.clocks=80"]);
    let first = outcome.summary.objective;
    assert!(first < 1.0, "{first}");
}
