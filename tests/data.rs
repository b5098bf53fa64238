//! Readers on good, broken and hostile files, and splits that lose nothing.

mod homes;
mod real_data;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use gaia_core::application::Application;
use gaia_core::types::{Clock, Seed, TableRows};
use gaia_data::{
    self, DataError, OwnData, StandIn, hold_out, read_cifar, read_docword, read_idx, read_libsvm,
    read_movielens, read_vocabulary, split, synthetic,
};
use gaia_ml::apps::{AppConfig, RatingGenerator};
use gaia_ml::config::Split;
use gaia_ml::examples::{Ratings, Shape};
use homes::homes;
use proptest::prelude::*;
use real_data::real_data;
use tempfile::TempDir;

#[test]
fn all_formats_of_movielens_say_the_same() {
    let csv = "userId,movieId,rating,timestamp\n7,30,4.5,964982703\n7,10,3,1\n2,30,0.5,2\n";
    let expected = Ratings {
        users: 2,
        items: 2,
        user: vec![0, 1, 1],
        item: vec![1, 0, 1],
        value: vec![0.5, 3.0, 4.5],
    };
    for text in [
        csv.to_owned(),
        csv.replace('\n', "\r\n"),
        format!("\u{feff}{csv}\n"),
        csv.replace("7,", "18446744073709551615,"),
        csv.trim_end().to_owned(),
        csv[csv.find('7').expect("a row")..].to_owned(),
        "7\t30\t4.5\t9\n7\t10\t3\t1\n2\t30\t0.5\t2\n".to_owned(),
        "7::30::4.5::9\n7::10::3::1\n2::30::0.5::2\n".to_owned(),
        "7,30,4.5\n7,10,3\n2,30,0.5\n".to_owned(),
    ] {
        let folder = Folder::new();
        let plain = folder.write("ratings", text.as_bytes());
        let packed = folder.write("packed", &gzip(text.as_bytes()));
        assert_eq!(read_movielens(&plain).expect("good ratings"), expected, "{text:?}");
        assert_eq!(read_movielens(&packed).expect("good ratings"), expected, "{text:?}");
    }
}

#[test]
fn broken_ratings_are_named_with_their_row() {
    let check = |rows: &str, error: &str| {
        let folder = Folder::new();
        let text = format!("userId,movieId,rating,timestamp\n1,1,3.0,9\n{rows}");
        let file = folder.write("ratings.csv", text.as_bytes());
        expect_error(&file, read_movielens(&file), error);
    };
    check("1,2\n", ", row 3: found \"1,2\", expected a rating in the row");
    check("\n1,2\n", ", row 4: found \"1,2\", expected a rating in the row");
    check("x,2,3.0,9\n", ", row 3: found \"x\", expected a user number, 0 to 18446744073709551615");
    check("x,2,3,9\n", "; for names or another header, source = \"csv\" and app.data.columns");
    check(
        "1,-2,3.0,9\n",
        ", row 3: found \"-2\", expected an item number, 0 to 18446744073709551615",
    );
    let large = "18446744073709551616";
    check(&format!("{large},2,3,9\n"), ", row 3: found \"18446744073709551616\", expected a user");
    check("1,2,five,9\n", ", row 3: found \"five\", expected a rating, -1000 to 1000");
    check("1,2,NaN,9\n", ", row 3: found \"NaN\", expected a rating");
    check("1,2,inf,9\n", ", row 3: found \"inf\", expected a rating");
    check("1,2,1e30,9\n", ", row 3: found \"1e30\", expected a rating");
    check("1,2,3,noon\n", ", row 3: found \"noon\", expected a time in whole seconds");
    check(
        "1,2,3,9,9\n",
        ", row 3: found \"1,2,3,9,9\", expected a user, an item, a rating and a time",
    );
    check("1\t2\t3\n", ", row 3: found \"1\\t2\\t3\", expected");
    check("", ": found 1 in all, expected at least 2 ratings");
}

#[test]
fn files_that_cannot_be_ratings_are_refused() {
    let folder = Folder::new();
    let whole = gzip("1,1,3\n2,2,3\n".repeat(500).as_bytes());
    let cut = folder.write("cut.gz", &whole[..whole.len() - 12]);
    expect_error(&cut, read_movielens(&cut), "the end of a cut gzip stream, expected a whole gzip");
    let mut damaged = whole.clone();
    let end = damaged.len() - 6;
    damaged[end] ^= 0xff;
    let damaged = folder.write("damaged.gz", &damaged);
    expect_error(&damaged, read_movielens(&damaged), "broken gzip");
    let trailing = folder.write("trailing.gz", &[&whole[..], b"more"].concat());
    expect_error(&trailing, read_movielens(&trailing), "gzip");
    let empty = folder.write("empty.csv", b"");
    expect_error(&empty, read_movielens(&empty), ": found 0 in all, expected at least 2 ratings");
    let binary = folder.write("binary.csv", &[0xff, 0xfe, 0x00, b'\n']);
    expect_error(&binary, read_movielens(&binary), ", row 1: found \"");
    let endless = folder.write("endless.gz", &gzip(&vec![b'1'; (1 << 24) + 2]));
    expect_error(&endless, read_movielens(&endless), ", row 1: found \"1111111111");
    let missing = folder.path().join("missing.csv");
    expect_error(&missing, read_movielens(&missing), ": cannot be read: ");
    let below = folder.path().join("sub");
    fs::create_dir_all(below.join("sub")).expect("room for a folder");
    expect_error(
        &below,
        read_movielens(&below),
        ": found a folder without files, expected at least",
    );
}

#[test]
fn a_pipe_is_refused_before_it_blocks() {
    let folder = Folder::new();
    let pipe = folder.path().join("ratings.csv");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let expected = ": found a pipe, socket or device, expected a file";
    expect_error(&pipe, read_movielens(&pipe), expected);
}

#[test]
fn libsvm_rows_are_read_with_comments_queries_and_either_pair_of_labels() {
    for (positive, negative) in [("+1", "-1"), ("1", "0"), ("1.0", "-1.0"), ("1", "0.0")] {
        let text = format!(
            "# a comment\n{positive} 1:0.5 4:-2\n\n{negative} qid:3 2:1e-3 # more\n{negative}\n"
        );
        let folder = Folder::new();
        let (train, test) =
            read_libsvm(&folder.write("rows", &gzip(text.as_bytes()))).expect("good");
        assert!(test.is_none());
        assert_eq!(train.width, 4);
        assert_eq!(train.labels, [1.0, -1.0, -1.0]);
        assert_eq!(train.offsets, [0, 2, 3, 3]);
        assert_eq!(train.columns, [0, 3, 1]);
        assert_eq!(train.values, [0.5, -2.0, 1e-3]);
    }
}

#[test]
fn the_test_set_lies_beside_the_training_file() {
    for (train, test) in
        [("a9a", "a9a.t"), ("a9a.gz", "a9a.t.gz"), ("a9a", "a9a.t.gz"), ("a9a.gz", "a9a.t")]
    {
        let folder = Folder::new();
        let write = |name: &str, text: &str| {
            let packed = gzip(text.as_bytes());
            folder.write(name, if name.ends_with("gz") { &packed } else { text.as_bytes() })
        };
        let file = write(train, "+1 1:1\n-1 2:1\n");
        write(test, "-1 9:1\n");
        let (_, test) = read_libsvm(&file).expect("good");
        assert_eq!(test.expect("a test set").width, 9);
    }
}

#[test]
fn broken_libsvm_rows_are_named() {
    let check = |row: &str, error: &str| {
        let folder = Folder::new();
        let file = folder.write("rows", format!("+1 1:1\n-1 2:1\n{row}\n").as_bytes());
        expect_error(&file, read_libsvm(&file), error);
    };
    check("2 1:1", ", row 3: found \"2\", expected a label, +1 or -1 as in the rows before");
    check("0 1:1", ", row 3: found \"0\", expected a label, +1 or -1 as in the rows before");
    check("nan 1:1", ", row 3: found \"nan\", expected a label");
    check("1:1", ", row 3: found \"1:1\", expected a label");
    check("+1 0:1", ", row 3: found \"0:1\", expected an index, 1 to 67108864, before the colon");
    check("+1 4000000000:1", ", row 3: found \"4000000000:1\", expected an index");
    check("+1 99999999999999999999:1", ", row 3: found \"99999999999999999999:1\"");
    check("+1 -3:1", ", row 3: found \"-3:1\", expected an index");
    check("+1 3:1 3:1", ", row 3: found \"3:1\", expected an index above 3");
    check("+1 3:1 2:1", ", row 3: found \"2:1\", expected an index above 3");
    check("+1 3", ", row 3: found \"3\", expected index:value");
    check("+1 3:", ", row 3: found \"3:\", expected a finite value after the colon");
    check("+1 3:inf", ", row 3: found \"3:inf\", expected a finite value");
    check("+1 3:nan", ", row 3: found \"3:nan\", expected a finite value");
    check("+1 3:1e39", ", row 3: found \"3:1e39\", expected a finite value");
    let most = "expected at most 1048576 for 3 entries in all";
    check("+1 67108864:1", &format!(", row 3: found index 67108864, {most}"));
    let folder = Folder::new();
    let file = folder.write("one", b"+1 1:1\n");
    expect_error(&file, read_libsvm(&file), ": found 1 in all, expected at least 2 examples");
}

#[test]
fn a_broken_test_set_is_named_by_its_own_file() {
    let folder = Folder::new();
    let file = folder.write("a9a", b"+1 1:1\n-1 2:1\n");
    let test = folder.write("a9a.t", b"+1 1:1\n+1 x:1\n");
    expect_error(&test, read_libsvm(&file), ", row 2: found \"x:1\", expected an index");

    let test = folder.write("a9a.t", b"# no row\n");
    let error = ": found no example, expected an example of the test set, or no such file";
    expect_error(&test, read_libsvm(&file), error);
}

#[test]
fn counts_of_words_are_read_in_any_order() {
    let good = "5\n4\n6\n1 1 2\n1 4 1\n3 2 1\n3 3 9\n5 1 1\n5 2 1\n";
    let shuffled = "5\n4\n6\n5 2 1\n3 2 1\n1 4 1\n\n3 3 9\n5 1 1\n1 1 2";
    let added = "5\n4\n8\n1 1 1\n5 2 1\n3 2 1\n1 4 1\n3 3 4\n5 1 1\n1 1 1\n3 3 5\n";
    for text in [good, shuffled, added, &good.replace('\n', "\r\n"), &good.replace(' ', "\t ")] {
        let folder = Folder::new();
        for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes())] {
            let read = read_docword(&folder.write("docword", &bytes)).expect("good counts");
            assert_eq!((read.len(), read.vocabulary, read.token_count()), (3, 4, 15));
            assert_eq!(read.offsets, [0, 2, 4, 6]);
            assert_eq!(read.words, [0, 3, 1, 2, 0, 1], "{text:?}");
            assert_eq!(read.counts, [2, 1, 1, 9, 1, 1]);
            assert!(read.tokens(0).eq([0, 0, 3]));
        }
    }
}

#[test]
fn broken_counts_of_words_are_named_with_their_row() {
    let check = |text: &str, error: &str| {
        let folder = Folder::new();
        let file = folder.write("docword", text.as_bytes());
        expect_error(&file, read_docword(&file), error);
    };
    check("", ": found the end of the file, expected the number of documents");
    check("2\n", ": found the end of the file, expected the number of words");
    check("2\n3\n", ": found the end of the file, expected the number of counts");
    check(
        "two\n3\n4\n",
        ", row 1: found \"two\", expected the number of documents, 1 to 4294967295",
    );
    check("0\n3\n4\n", ", row 1: found \"0\", expected the number of documents");
    check("2\n-3\n4\n", ", row 2: found \"-3\", expected the number of words, 1 to 67108864");
    check("2\n99999999999\n4\n", ", row 2: found \"99999999999\", expected the number of words");
    check("2\n3\n1 1 1\n", ", row 3: found \"1 1 1\", expected the number of counts");
    let row = |row: &str, error: &str| check(&format!("2\n3\n2\n1 1 1\n{row}\n"), error);
    row("3 1 1", ", row 5: found \"3\", expected a document, 1 to 2");
    row("0 1 1", ", row 5: found \"0\", expected a document, 1 to 2");
    row("2 4 1", ", row 5: found \"4\", expected a word, 1 to 3");
    row("2 x 1", ", row 5: found \"x\", expected a word, 1 to 3");
    row("2 1 0", ", row 5: found \"0\", expected a count, 1 to 1048576");
    row("2 1 1.5", ", row 5: found \"1.5\", expected a count");
    row("2 1 99999999999999999999", ", row 5: found \"99999999999999999999\", expected a count");
    row("2 1", ", row 5: found \"2 1\", expected a count in the row");
    row("2 1 1 1", ", row 5: found \"2 1 1 1\", expected a document, a word and a count");
    row("2 1 1\n2 2 1", ", row 6: found \"2 2 1\", expected no more than 2 counts, as row 3 says");
    row("", ": found 1 counts, expected 2 of them, as row 3 says");
    row("1 2 1", ": found 1 documents with words, expected at least 2 of them");
}

#[test]
fn vocabularies_have_a_line_for_every_word() {
    let folder = Folder::new();
    for text in ["bush\nkerry\nélan\n", "bush\r\nkerry\r\nélan", "bush\n kerry\nélan\n\n"] {
        let file = folder.write("vocab", &gzip(text.as_bytes()));
        assert_eq!(read_vocabulary(&file, 3).expect("good"), ["bush", "kerry", "élan"]);
    }
    let check = |text: &[u8], error: &str| {
        let file = folder.write("vocab", text);
        expect_error(&file, read_vocabulary(&file, 3), error);
    };
    check(b"a\nb\n", ": found 2 words, expected 3 of them, as there are in the documents");
    check(b"a\nb\nc\nd\n", ", row 4: found \"d\", expected no more than 3 words");
    check(b"a\n\nc\n", ", row 2: found \"\", expected a word");
    check(b"a\n\xff\nc\n", ", row 2: found \"");
    check(b"a\n\x1b[31m\nc\n", ", row 2: found \"\\u{1b}[31m\", expected a word");
}

#[test]
fn idx_folders_are_read_plain_and_packed() {
    for ending in ["", ".gz"] {
        for separator in ["-", "."] {
            let folder = idx_folder(separator, ending, |_, _| {});
            let (train, test) = read_idx(folder.path()).expect("good");
            assert_eq!((train.len(), test.len()), (3, 2));
            let shape = Shape { channels: 1, height: 2, width: 2 };
            assert_eq!((train.shape, test.shape), (shape, shape));
            assert_eq!((train.classes, test.classes), (10, 10));
            assert_eq!(train.labels, [0, 5, 9]);
            let mut features = [0.0; 4];
            train.copy_features(2, &mut features);
            assert_eq!(features, [8.0, 9.0, 10.0, 255.0].map(|byte| byte / 255.0));
        }
    }
}

#[test]
fn broken_idx_files_are_named_with_their_byte() {
    let check = |file: &str, break_it: &dyn Fn(&mut Vec<u8>), error: &str| {
        let folder = idx_folder("-", "", |name, bytes| {
            if name == file {
                break_it(bytes);
            }
        });
        expect_error(&folder.path().join(file), read_idx(folder.path()), error);
    };
    let images = "train-images-idx3-ubyte";
    let labels = "train-labels-idx1-ubyte";
    check(images, &|bytes| bytes.clear(), ", byte 0: found the bytes []");
    check(images, &|bytes| bytes[2] = 0x0d, ", byte 0: found the bytes [00, 00, 0d, 03]");
    check(labels, &|bytes| bytes[3] = 3, ", byte 0: found the bytes [00, 00, 08, 03], expected an");
    check(
        images,
        &|bytes| bytes.truncate(9),
        ", byte 9: found the end of the file, expected the sizes",
    );
    check(
        images,
        &|bytes| bytes.truncate(20),
        ", byte 20: found the end of the file, expected 12 val",
    );
    check(images, &|bytes| bytes.push(0), ", byte 28: found more bytes, expected 12 values");
    check(images, &|bytes| bytes[4..16].fill(0xff), ", byte 4: found dimensions of [4294967295, ");
    check(images, &|bytes| bytes[4] = 0x0f, ", byte 28: found the end of the file, expected 1006");
    check(images, &|bytes| bytes[4..8].fill(0), "more bytes, expected 0 values");
    check(
        images,
        &|bytes| {
            bytes[4..8].fill(0);
            bytes.truncate(16);
        },
        "found 0 images of 4 pixels",
    );
    check(
        labels,
        &|bytes| {
            bytes[7] = 2;
            bytes.pop();
        },
        ", byte 4: found 2 labels, expected as many",
    );
    let test = "t10k-images-idx3-ubyte";
    check(
        test,
        &|bytes| {
            bytes[11] = 1;
            bytes.truncate(20);
        },
        "byte 8: found images of 2 pixels",
    );
    let folder = idx_folder("-", "", |_, _| {});
    fs::remove_file(folder.path().join(labels)).expect("it is there");
    expect_error(&folder.path().join(labels), read_idx(folder.path()), ": found no such file");
    let nowhere = folder.path().join("nowhere");
    expect_error(
        &nowhere,
        read_idx(&nowhere),
        ": found no folder, expected a folder of four IDX files",
    );
}

#[test]
fn cifar_folders_are_read_batch_by_batch() {
    for ending in ["", ".gz"] {
        let folder = cifar_folder(ending, |_, _| {});
        let (train, test) = read_cifar(folder.path()).expect("good");
        let shape = Shape { channels: 3, height: 32, width: 32 };
        assert_eq!((train.shape, test.shape), (shape, shape));
        assert_eq!((train.classes, test.classes), (10, 10));
        assert_eq!(train.labels, [1, 2, 2, 3, 0, 1], "batches 1, 2 and 10 in this order");
        assert_eq!(test.labels, [5, 6]);
        let mut plane = [0.0; 1024];
        train.copy_plane(1, 2, &mut plane);
        let expected = |at: usize| f32::from(((2 + 2048 + at) % 251) as u8) / 255.0;
        assert!((0..1024).all(|at| (plane[at] - expected(at)).abs() < 1e-6));
    }
    let folder = cifar_folder(".gz", |_, _| {});
    folder.write("data_batch_1.bin", &[cifar_record(9), cifar_record(8)].concat());
    let (train, _) = read_cifar(folder.path()).expect("good");
    assert_eq!(train.labels[..2], [9, 8], "the plain file of two");
}

#[test]
fn broken_cifar_files_are_named_with_their_byte() {
    let check = |file: &str, break_it: &dyn Fn(&mut Vec<u8>), error: &str| {
        let folder = cifar_folder("", |name, bytes| {
            if name == file {
                break_it(bytes);
            }
        });
        expect_error(&folder.path().join(file), read_cifar(folder.path()), error);
    };
    let (batch, test) = ("data_batch_2.bin", "test_batch.bin");
    check(batch, &|bytes| bytes[0] = 10, ", byte 0: found class 10, expected a class below 10");
    check(test, &|bytes| bytes[3073] = 255, ", byte 3073: found class 255");
    check(
        batch,
        &|bytes| bytes.clear(),
        ", byte 0: found an empty file, expected at least one image",
    );
    let end =
        ", byte 4000: found the end of the file, expected an image of 3072 bytes after its class";
    check(test, &|bytes| bytes.truncate(4000), end);
    check(batch, &|bytes| bytes.push(3), ", byte 6147: found the end of the file");
    let folder = cifar_folder("", |_, _| {});
    fs::remove_file(folder.path().join(test)).expect("it is there");
    expect_error(&folder.path().join(test), read_cifar(folder.path()), ": found no such file");
    let folder = Folder::new();
    let first = folder.path().join("data_batch_1.bin");
    expect_error(&first, read_cifar(folder.path()), ": found no such file");
    let nowhere = folder.path().join("nowhere");
    let error = ": found no folder, expected a folder of CIFAR-10 batches";
    expect_error(&nowhere, read_cifar(&nowhere), error);
}

#[test]
fn every_image_is_used_as_the_network_sees_it() {
    let folder = cifar_folder("", |_, _| {});
    for kind in ["softmax-regression", "perceptron", "convolutional-network"] {
        let path = folder.path().display();
        let keys = format!("batch = 32\ndata = {{ source = 'cifar', path = '{path}' }}");
        let keys = toml::Deserializer::parse(&keys).expect("TOML");
        let config = AppConfig::deserialize(kind, keys).expect("good keys");
        let app = gaia_data::build(Some(&config), &homes(&[1, 1]), Seed(1)).expect("good files");
        let model = app.initial_model(Seed(1));
        let (_, work) = app.task(0, Seed(1)).iterate(Clock(0), &model).unwrap();
        assert_eq!(work.examples, 3);
        assert!(app.evaluate(&model).unwrap().objective.is_finite(), "{kind}");
    }
}

/// What a coordinator without data chooses a remote model by.
#[test]
fn generated_data_that_stands_in_for_what_others_have_makes_a_model_of_the_same_shape() {
    for (kind, keys) in [
        (
            "matrix-factorization",
            "rank = 3\ndata.synthetic = {users = 60, items = 40, ratings = 900}",
        ),
        ("softmax-regression", "data.synthetic = {classes = 3, features = 7, examples = 90}"),
        ("perceptron", "hidden = [5]\ndata.synthetic = {classes = 3, features = 7, examples = 90}"),
        (
            "convolutional-network",
            "data.synthetic = {classes = 3, channels = 2, side = 12, examples = 90}",
        ),
        ("logistic-regression", "data.synthetic = {features = 50, examples = 90}"),
        ("topic-model", "topics = 3\ndata.synthetic = {vocabulary = 30, documents = 90}"),
    ] {
        let keys = toml::Deserializer::parse(keys).expect("TOML");
        let config = AppConfig::deserialize(kind, keys).expect("good keys");
        let homes = homes(&[1, 1]);
        let data = OwnData::read(Some(&config), &homes, 0..2, Seed(1), None).expect("data");
        let summaries = data.summaries();
        let app = data.into_application(&summaries).expect("an application");

        let StandIn { config, share } =
            gaia_data::stand_in(&config, &summaries, app.layout()).expect("a built-in kind");
        assert!(config.is_generated() && share > 0.99, "{kind}: {share}");
        let other = gaia_data::build(Some(&config), &homes, Seed(2)).expect("an application");
        assert_eq!(app.layout().tables(), other.layout().tables(), "{kind}");
    }
}

#[test]
fn images_too_small_for_their_poolings_are_refused() {
    let folder = idx_folder("-", "", |_, _| {});
    let keys = format!("data = {{ source = 'idx', path = '{}' }}", folder.path().display());
    let keys = toml::Deserializer::parse(&keys).expect("TOML");
    let config = AppConfig::deserialize("convolutional-network", keys).expect("good keys");
    let Err(error) = gaia_data::build(Some(&config), &homes(&[1]), Seed(1)) else {
        panic!("2 × 2 pixels pool once")
    };
    let expected = "app.pool is 2, expected a side that fits 2 times into images of 1×2×2";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn ratings_in_parts_are_the_ratings_of_one_file() {
    let folder = Folder::new();
    let whole = folder.write("whole.csv", b"7,30,4.5\n7,10,3\n2,30,0.5\n9,1,2\n");
    let parts = Folder::new();
    parts.write("part-b.csv", b"userId,movieId,rating\n7,10,3\n9,1,2\n");
    parts.write("part-a.csv.gz", &gzip(b"7\t30\t4.5\n2\t30\t0.5\n"));
    parts.write("_SUCCESS", b"");
    parts.write(".part-a.csv.crc", b"crc");
    fs::create_dir(parts.path().join("older")).expect("room for a folder");

    let expected = read_movielens(&whole).expect("good ratings");
    for path in
        [parts.path().to_owned(), parts.path().join("part-*"), parts.path().join("p*-[ab].*")]
    {
        assert_eq!(read_movielens(&path).expect("good ratings"), expected, "{path:?}");
    }

    let broken = parts.write("part-c.csv", b"1,2,3\n1,2\n");
    expect_error(
        &broken,
        read_movielens(parts.path()),
        ", row 2: found \"1,2\", expected a rating",
    );
}

#[test]
fn a_path_that_names_no_file_is_an_error() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("empty")).expect("room for a folder");
    folder.write("empty/_SUCCESS", b"");
    folder.write("ratings[1].csv", b"1,2,3\n2,2,3\n");
    let check = |path: &str, error: &str| {
        let path = folder.path().join(path);
        expect_error(&path, read_movielens(&path), error);
    };
    check("empty", ": found a folder without files, expected at least one data file in it");
    check("*.tsv", ": found no file that matches, expected a pattern of at least one file");
    check("part-[", ": found a pattern with a mistake (");
    check("part.csv", ": cannot be read: ");

    // A name that exists is no pattern.
    let read = read_movielens(&folder.path().join("ratings[1].csv")).expect("good ratings");
    assert_eq!(read.len(), 2);

    let pattern = folder.path().join("mnist-*");
    let error = ": found no folder that matches, expected a pattern of at least one folder";
    expect_error(&pattern, build_images(&pattern), error);
}

#[test]
fn sparse_examples_in_parts_have_one_test_set_and_one_kind_of_labels() {
    let folder = Folder::new();
    folder.write("a", b"+1 1:1 3:2\n-1 2:1\n");
    folder.write("a.t", b"+1 4:1\n");
    folder.write("b", b"-1 5:0.5\n");
    folder.write("b.t.gz", &gzip(b"-1 1:1\n+1 2:1\n"));

    // A pattern that leaves test files out finds those beside its files.
    for path in [folder.path().to_owned(), folder.path().join("[ab]")] {
        let (train, test) = read_libsvm(&path).expect("good");
        assert_eq!((train.len(), train.width, &train.labels[..]), (3, 5, &[1.0, -1.0, -1.0][..]));
        assert_eq!(test.expect("two test files").labels, [1.0, -1.0, 1.0]);
    }

    folder.write("other.t", b"+1 1:1\n");
    let (_, test) = read_libsvm(folder.path()).expect("good");
    assert_eq!(test.expect("three test files").len(), 4);

    let other = folder.write("c", b"0 1:1\n");
    let error = ", row 1: found \"0\", expected a label, +1 or -1 as in the rows before";
    expect_error(&other, read_libsvm(folder.path()), error);
}

#[test]
fn documents_in_parts_have_the_same_words() {
    let folder = Folder::new();
    let first = folder.write("a", b"2\n3\n2\n1 1 2\n2 3 1\n");
    folder.write("b", b"1\n3\n2\n1 2 5\n1 1 1\n");
    let read = read_docword(folder.path()).expect("good counts");
    let documents: Vec<_> = (0..read.len()).map(|at| read.document(at)).collect();
    let expected: [(&[u32], &[u32]); 3] = [(&[0], &[2]), (&[2], &[1]), (&[0, 1], &[1, 5])];
    assert_eq!(documents, expected);

    let other = folder.write("c", b"1\n4\n1\n1 4 1\n");
    let error = format!(", row 2: found 4, expected 3 words, as in {}", first.display());
    expect_error(&other, read_docword(folder.path()), &error);
}

#[test]
fn images_in_folders_have_the_same_shape() {
    let all = Folder::new();
    let one = idx_folder("-", "", |_, _| {});
    for part in ["part-1", "part-2"] {
        copy_folder(&one, &all.path().join(part));
    }

    let single = read_idx(one.path()).expect("good").0.len();
    let app = build_images(&all.path().join("part-*")).expect("two folders of images");
    let examples = format!("{} examples", 2 * single);
    assert!(app.describe().contains(&examples), "{}", app.describe());

    // Images of another size.
    let third = all.path().join("part-3");
    copy_folder(&one, &third);
    for name in ["train-images-idx3-ubyte", "t10k-images-idx3-ubyte"] {
        let file = third.join(name);
        let mut bytes = fs::read(&file).expect("images");
        bytes[8..16].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 4]);
        fs::write(&file, bytes).expect("room for a small file");
    }
    let first = all.path().join("part-1");
    let error =
        format!(": found images of 4 pixels, expected 1×2×2 pixels, as in {}", first.display());
    expect_error(&third, build_images(&all.path().join("part-*")), &error);
}

#[test]
fn workers_train_on_the_ratings_of_their_own_data_center() {
    let folder = Folder::new();
    let ratings = |users: std::ops::Range<u32>| -> String {
        users.flat_map(|user| (0..10).map(move |item| format!("{user},{item},3\n"))).collect()
    };
    folder.write("dc-0.csv", ratings(0..30).as_bytes());
    folder.write("dc-1.csv", ratings(25..31).as_bytes());

    let path = folder.path().join("{dc}.csv");
    let keys = format!("data = {{ source = 'movielens', path = '{}' }}", path.display());
    let app = build_app("matrix-factorization", &keys, &[2, 1]).expect("two files");
    let described = app.describe();
    assert!(described.contains("31 users × 10 items, 324 ratings and 36 held out"), "{described}");

    let mut visited = Vec::new();
    for (worker, users) in [(0, 0..30), (1, 0..30), (2, 25..31)] {
        let mut task = app.task(worker, Seed(1));
        let model = app.initial_model(Seed(1));
        let mut examples = 0;
        for clock in 0..app.clocks_per_pass() {
            let rows = task.rows(Clock(clock));
            let TableRows::Listed(rows) = &rows.tables[0] else { panic!("rows of users") };
            assert!(rows.iter().all(|user| users.contains(user)), "{worker}: {rows:?}");
            examples += task.iterate(Clock(clock), &model).unwrap().1.examples;
        }
        visited.push(examples);
    }
    assert_eq!(visited, [135, 135, 54]);
}

#[test]
fn an_example_counts_once_wherever_it_is() {
    let folder = Folder::new();
    let rows = |rows: std::ops::Range<u32>| -> String {
        rows.map(|at| format!("{} {}:1 {}:0.5\n", at % 2, 1 + at % 5, 7 + at % 3)).collect()
    };
    let test = b"1 1:1\n0 2:1\n";
    for (name, range) in [("dc-0", 0..40), ("dc-1", 40..43), ("all", 0..43)] {
        folder.write(name, rows(range).as_bytes());
        folder.write(&format!("{name}.t"), test);
    }
    let at = |name: &str| folder.path().join(name).display().to_string();
    let logistic = |name: &str, workers: &[usize]| {
        let keys = format!(
            "optimizer = 'sgd'\nbatch = 64\ndata = {{ source = 'libsvm', path = '{}' }}",
            at(name)
        );
        first_step(&*build_app("logistic-regression", &keys, workers).expect("files"), workers)
    };
    assert_close(&logistic("{dc}", &[2, 1]), &logistic("all", &[1]));

    let images = Folder::new();
    let one = idx_folder("-", "", |_, _| {});
    let other = idx_folder("-", "", |name, bytes| {
        if name.contains("images") {
            bytes[16..].reverse();
        }
    });
    copy_folder(&other, &images.path().join("dc-0"));
    for part in ["part-1", "part-2"] {
        copy_folder(&one, &images.path().join(part));
    }
    let at = |name: &str| images.path().join(name).display().to_string();
    let keys = |data: String| {
        format!("optimizer = 'sgd'\nbatch = 64\ndata = {{ source = 'idx', {data} }}")
    };
    let softmax = |data: String, workers: &[usize]| {
        let app = build_app("softmax-regression", &keys(data), workers).expect("folders");
        first_step(&*app, workers)
    };
    let own = format!("path = '{}', at.dc-1.path = '{}'", at("{dc}"), at("part-*"));
    assert_close(&softmax(own, &[1, 1]), &softmax(format!("path = '{}'", at("*-[012]")), &[1]));
}

#[test]
fn a_data_center_draws_the_same_whichever_others_there_are() {
    let folder = Folder::new();
    for (name, first) in [("dc-0", 0), ("dc-1", 50), ("dc-2", 90)] {
        let rows: String = (first..first + 40).map(|at| format!("1 {}:1\n", at + 1)).collect();
        folder.write(name, rows.as_bytes());
    }
    let path = folder.path().join("{dc}");
    let keys = format!(
        "optimizer = 'sgd'\nbatch = 64\ndata = {{ source = 'libsvm', path = '{}' }}",
        path.display()
    );
    let rows = |others: &[usize]| {
        let app = build_app("logistic-regression", &keys, others).expect("files");
        (0..2).map(|worker| app.task(worker, Seed(1)).rows(Clock(0))).collect::<Vec<_>>()
    };
    assert_eq!(rows(&[2]), rows(&[2, 1]));
    assert_eq!(rows(&[2]), rows(&[2, 3, 1]));
}

#[test]
fn settings_of_data_centers_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    for (name, rows) in
        [("dc-0", "1,1,3\n2,1,3\n"), ("dc-1", "1,1,3\n2,1,3\n"), ("short", "1,1,3\n")]
    {
        folder.write(name, rows.as_bytes());
    }
    folder.write("words-0", b"2\n3\n2\n1 1 2\n2 3 1\n");
    folder.write("words-1", b"2\n4\n2\n1 1 2\n2 3 1\n");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let check = |kind: &str, data: String, error: &str| {
        let Err(found) = build_app(kind, &format!("data = {{ {data} }}"), &[1, 1]) else {
            panic!("{data} was used")
        };
        let found = found.to_string();
        assert!(found.contains(error), "found {found}\nexpected {error}");
    };
    let ratings = |data: String, error: &str| {
        check("matrix-factorization", format!("source = 'movielens', {data}"), error);
    };

    let (own, short) = (at("{dc}"), at("short"));
    ratings(
        format!("path = '{own}', at.tokyo.held_out = 0.2"),
        "app.data.at is a table for `tokyo`, expected a data center: dc-0, dc-1",
    );
    ratings(
        format!("path = '{short}', at.dc-0.held_out = 0.2"),
        "expected data of its own for each data center",
    );
    ratings(
        format!("at.dc-0.path = '{short}'"),
        "app.data.at.dc-1.path is missing, expected the path of its data files",
    );
    ratings(
        format!("path = '{}', at.dc-0.path = '{}'", at("dc-1"), at("dc-1")),
        "expected another path than `dc-0` has: an example counts once",
    );
    ratings(
        format!("path = '{own}', at.dc-1.held_out = 1.5"),
        "app.data.at.dc-1.held_out is 1.5, expected above 0 and below 1",
    );
    ratings(
        format!("path = '{own}', at.dc-1.path = '{short}'"),
        "short: found 1 in all, expected at least 2 ratings",
    );
    ratings(format!("path = '{own}', at.dc-1.path = '{}'", at("*.gz")), "no file that matches");
    check(
        "matrix-factorization",
        format!("path = '{own}'"),
        "expected no path beside source = \"synthetic\", or source = \"movielens\"",
    );

    let data = format!("at.dc-0.path = '{}', at.dc-1.path = '{}'", at("words-0"), at("words-1"));
    check(
        "topic-model",
        format!("source = 'docword', {data}"),
        "the data of dc-1: found documents of 4 words, expected 3 words, as in the data of dc-0",
    );
}

#[test]
fn real_files_are_read_whole() {
    if let Some(file) = real_data("movielens_latest_small/ratings.csv.gz") {
        let ratings = read_movielens(&file).expect("good");
        assert_eq!((ratings.users, ratings.items, ratings.len()), (610, 9724, 100_836));
    }
    if let Some(file) = real_data("uci_kos/docword.kos.txt.gz") {
        let documents = read_docword(&file).expect("good");
        assert_eq!((documents.len(), documents.vocabulary), (3_430, 6_906));
        assert_eq!((documents.words.len(), documents.token_count()), (353_160, 467_714));
    }
    if let Some(folder) = real_data("mnist") {
        let (train, test) = read_idx(&folder).expect("good");
        assert_eq!(
            (train.len(), test.len(), train.width(), train.classes),
            (60_000, 10_000, 784, 10)
        );
    }
    if let Some(file) = real_data("libsvm/a9a.gz") {
        let (train, test) = read_libsvm(&file).expect("good");
        let test = test.expect("a9a.t lies beside it");
        assert_eq!((train.len(), test.len(), train.width), (32_561, 16_281, 123));
    }
}

#[test]
fn users_stay_whole_and_labels_gather_under_full_skew() {
    let groups: Vec<u32> = (0..1000).map(|at| (at * at) % 37 % 10).collect();
    let parts = split(Split::ByUser, 1.0, &groups, 4, Seed(1));
    let held: Vec<Vec<u32>> = parts.iter().map(|part| groups_of(part, &groups)).collect();
    for group in 0..10 {
        assert!(held.iter().filter(|held| held.contains(&group)).count() <= 1);
    }
    let parts = split(Split::ByLabel, 1.0, &groups, 5, Seed(1));
    assert!(parts.iter().all(|part| part.len() == 200));
    let seen: usize = parts.iter().map(|part| groups_of(part, &groups).len()).sum();
    let all = groups_of(&(0..1000).collect::<Vec<_>>(), &groups).len();
    assert!(seen < all + 5, "a cut adds at most one label to a part: {seen} {all}");
}

#[test]
fn half_a_skew_leaves_every_worker_some_of_everything() {
    let groups: Vec<u32> = (0..4000).map(|at| at % 10).collect();
    let parts = split(Split::ByLabel, 0.5, &groups, 10, Seed(1));
    for part in &parts {
        let mut counts = [0; 10];
        part.iter().for_each(|&example| counts[groups[example as usize] as usize] += 1);
        counts.sort_unstable();
        assert!(counts[0] > 5, "{counts:?}");
        assert!(counts[8] + counts[9] > 190, "{counts:?}");
    }
}

#[test]
fn made_up_data_is_the_same_for_the_same_seed() {
    let config = RatingGenerator::default();
    let once = synthetic::ratings(&config, Seed(7));
    assert_eq!(once, synthetic::ratings(&config, Seed(7)));
    assert_ne!(once, synthetic::ratings(&config, Seed(8)));
    assert!(once.user.iter().all(|&user| (user as usize) < config.users));
    assert!(once.item.iter().all(|&item| (item as usize) < config.items));
}

proptest! {
    #[test]
    fn every_example_goes_to_exactly_one_worker(
        groups in prop::collection::vec(0_u32..50, 0..400),
        workers in 1_usize..12,
        skew in 0.0..=1.0_f64,
        seed in any::<u64>(),
    ) {
        for way in [Split::Even, Split::ByUser, Split::ByLabel] {
            let parts = split(way, skew, &groups, workers, Seed(seed));
            prop_assert_eq!(parts.len(), workers);
            prop_assert!(parts.iter().all(|part| part.is_sorted()));
            let mut all: Vec<u32> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..groups.len() as u32));
        }
    }

    #[test]
    fn held_out_examples_are_no_training_examples(
        examples in 0_usize..500,
        share in 0.001..0.999_f64,
        seed in any::<u64>(),
    ) {
        let (train, test) = hold_out(examples, share, Seed(seed));
        prop_assert!(examples < 2 || !(train.is_empty() || test.is_empty()));
        let mut all = [train, test].concat();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..examples as u32));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
        read_all(&gzip(&bytes));
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "[0-9,:.+\\-#\t\n einfqd]{0,200}") {
        read_all(text.as_bytes());
    }

    #[test]
    fn no_damage_to_a_good_file_makes_a_reader_panic(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let rows = "+1 1:0.5 4:-2 7:1\n-1 qid:3 2:1e-3 # more\n";
        for good in [
            "userId,movieId,rating,timestamp\n7,30,4.5,964982703\n7,10,3,1\n".as_bytes().to_vec(),
            rows.as_bytes().to_vec(),
            gzip(rows.as_bytes()),
            b"3\n4\n3\n1 2 3\n2 4 1\n2 1 2\n".to_vec(),
            idx(&[3, 2, 2], &PIXELS),
        ] {
            let mut bytes = good.clone();
            *at.get_mut(&mut bytes) = byte;
            read_all(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            read_all(&bytes);
        }
    }
}

/// Feeds bytes to every reader; whatever they say, they must come back.
fn read_all(bytes: &[u8]) {
    let folder = Folder::new();
    let file = folder.write("train-images-idx3-ubyte", bytes);
    let _ = read_movielens(&file);
    let _ = read_libsvm(&file);
    let _ = read_docword(&file);
    let _ = read_vocabulary(&file, 2);
    folder.write("train-labels-idx1-ubyte", bytes);
    let _ = read_idx(folder.path());
    folder.write("train-images-idx3-ubyte", &idx(&[3, 2, 2], &PIXELS));
    let _ = read_idx(folder.path());
    folder.write("data_batch_1.bin", bytes);
    folder.write("test_batch.bin", &cifar_record(1));
    let _ = read_cifar(folder.path());
}

/// The error must begin with the file and go on with `error`.
/// A classifier of the IDX images in the folders of a path.
fn build_images(path: &Path) -> Result<Arc<dyn Application>, DataError> {
    let keys = format!("data = {{ source = 'idx', path = '{}' }}", path.display());
    build_app("softmax-regression", &keys, &[1, 1])
}

/// An application with some settings over data centers `dc-0` and on.
fn build_app(
    kind: &str,
    keys: &str,
    workers_per_dc: &[usize],
) -> Result<Arc<dyn Application>, DataError> {
    let keys = toml::Deserializer::parse(keys).expect("TOML");
    let config = AppConfig::deserialize(kind, keys).expect("good keys");
    gaia_data::build(Some(&config), &homes(workers_per_dc), Seed(1))
}

/// The sum of the deltas of all workers at the first clock: the values of all tables.
fn first_step(app: &dyn Application, workers_per_dc: &[usize]) -> Vec<f32> {
    let initial = app.initial_model(Seed(1));
    let layout = app.layout();
    let mut sums: Vec<Vec<f32>> =
        layout.table_ids().map(|id| vec![0.0; initial.table(id).len()]).collect();
    for worker in 0..workers_per_dc.iter().sum() {
        let mut task = app.task(worker, Seed(1));
        task.rows(Clock(0));
        let (deltas, _) = task.iterate(Clock(0), &initial).expect("deltas");
        for ((id, table), sums) in layout.table_ids().zip(&deltas.tables).zip(&mut sums) {
            let width = layout.table(id).width;
            let rows = table.rows.iter(layout.table(id).rows);
            for (row, change) in rows.zip(table.values.chunks(width)) {
                let start = row as usize * width;
                for (sum, change) in sums[start..start + width].iter_mut().zip(change) {
                    *sum += change;
                }
            }
        }
    }
    sums.concat()
}

fn assert_close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    let largest = a.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    assert!(largest > 1e-3, "a step");
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= 1e-5 * largest, "{a} and {b}");
    }
}

/// Copies the files of a folder into a new one.
fn copy_folder(from: &Folder, to: &Path) {
    fs::create_dir(to).expect("room for a folder");
    for file in fs::read_dir(from.path()).expect("a folder") {
        let file = file.expect("a file").path();
        fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("room for a small file");
    }
}

fn expect_error<T>(file: &Path, result: Result<T, DataError>, error: &str) {
    let Err(found) = result else { panic!("read without an error, expected {error}") };
    let found = found.to_string();
    let rest = found.strip_prefix(&file.display().to_string()).unwrap_or_else(|| panic!("{found}"));
    assert!(rest.contains(error), "found {found}\nexpected {error}");
    assert!(!rest.ends_with('.'), "{found}");
}

fn groups_of(part: &[u32], groups: &[u32]) -> Vec<u32> {
    let mut held: Vec<u32> = part.iter().map(|&example| groups[example as usize]).collect();
    held.sort_unstable();
    held.dedup();
    held
}

/// A folder of three batches to train on and one to test on, two images each, changed by `break_it`.
fn cifar_folder(ending: &str, break_it: impl Fn(&str, &mut Vec<u8>)) -> Folder {
    let folder = Folder::new();
    for (name, label) in
        [("data_batch_1", 1), ("data_batch_2", 2), ("data_batch_10", 0), ("test_batch", 5)]
    {
        let name = format!("{name}.bin");
        let mut bytes = [cifar_record(label), cifar_record(label + 1)].concat();
        break_it(&name, &mut bytes);
        let bytes = if ending.is_empty() { bytes } else { gzip(&bytes) };
        folder.write(&format!("{name}{ending}"), &bytes);
    }
    folder.write("readme.html", b"what else lies there");
    folder
}

fn cifar_record(label: u8) -> Vec<u8> {
    let pixels = (0..3072).map(|at| ((usize::from(label) + at) % 251) as u8);
    [label].into_iter().chain(pixels).collect()
}

/// A folder of four small IDX files, each changed by `break_it` before it is packed.
fn idx_folder(separator: &str, ending: &str, break_it: impl Fn(&str, &mut Vec<u8>)) -> Folder {
    let folder = Folder::new();
    for (set, examples) in [("train", 3), ("t10k", 2)] {
        let images = idx(&[examples, 2, 2], &PIXELS[..4 * examples as usize]);
        let labels = idx(&[examples], &[0, 5, 9][..examples as usize]);
        for (kind, mut bytes) in [("images", images), ("labels", labels)] {
            let dimensions = if kind == "images" { 3 } else { 1 };
            let name = format!("{set}-{kind}{separator}idx{dimensions}-ubyte");
            break_it(&name, &mut bytes);
            let bytes = if ending.is_empty() { bytes } else { gzip(&bytes) };
            folder.write(&format!("{name}{ending}"), &bytes);
        }
    }
    folder
}

fn idx(dimensions: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dimensions.len() as u8];
    bytes.extend(dimensions.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend_from_slice(values);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writing to memory");
    encoder.finish().expect("writing to memory")
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("room for a temporary folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let file = self.path().join(name);
        fs::write(&file, bytes).expect("room for a small file");
        file
    }
}

const PIXELS: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255];
