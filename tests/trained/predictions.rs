//! `gaia predict`, of every application.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::{Bench, column};

/// Four images of 2 × 2 pixels in the IDX format, of the classes 0 and 1 by their first pixel.
fn images(count: u8) -> (Vec<u8>, Vec<u8>) {
    let number = |number: u8| [0, 0, 0, number];
    let mut images = [[0, 0, 8, 3], number(count), number(2), number(2)].concat();
    let mut labels = [[0, 0, 8, 1], number(count)].concat();
    for example in 0..count {
        let class = example % 2;
        images.extend([255 * class, example, 255 - example, 7]);
        labels.push(class);
    }
    (images, labels)
}

fn write_images(bench: &Bench, folder: &str) {
    for (set, count) in [("train", 60), ("t10k", 20)] {
        let (images, labels) = images(count);
        bench.write(&format!("{folder}/{set}-images-idx3-ubyte"), images);
        bench.write(&format!("{folder}/{set}-labels-idx1-ubyte"), labels);
    }
}

/// Predicts as csv, and as Parquet with the same contents. Returns the rows.
fn predict(bench: &Bench, model: &str, data: &str) -> Vec<Vec<String>> {
    for out in ["p.csv", "p.parquet"] {
        bench.gaia(&["predict", model, "--data", data, "--out", out]).assert().success();
    }
    let rows = bench.csv("p.csv");
    let file = std::fs::File::open(bench.path("p.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let in_parquet: Vec<Vec<String>> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| {
            let shown = |field: &Field| match field {
                Field::Null => String::new(),
                Field::Long(number) => number.to_string(),
                Field::Float(number) => number.to_string(),
                Field::Str(text) => text.clone(),
                other => panic!("{other:?}"),
            };
            row.unwrap().get_column_iter().map(|(_, field)| shown(field)).collect()
        })
        .collect();
    assert_eq!(rows[1..], in_parquet);
    let names = reader.metadata().file_metadata().schema_descr();
    let names: Vec<String> = names.columns().iter().map(|column| column.name().into()).collect();
    assert_eq!(rows[0], names);
    let files = std::fs::read_dir(bench.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let partial = |name: std::ffi::OsString| name.to_string_lossy().ends_with(".partial");
    assert!(!files.into_iter().any(partial));
    rows
}

#[test]
fn pairs_are_predicted_with_and_without_ratings_and_with_strangers() {
    let bench = Bench::new();
    let rows = (0..40_u64).flat_map(|user| (0..6_u64).map(move |item| (user, item)));
    let rows = rows.map(|(user, item)| format!("{user},{item},{}\n", 1 + (user + item) % 4));
    bench.write("train.csv", rows.collect::<String>());
    let keys = "rank = 2\ndata = { source = \"movielens\", path = \"train.csv\" }";
    let model = bench.train("mf", "matrix-factorization", keys);

    let stranger = u64::MAX;
    bench.write(
        "pairs.csv",
        format!("userId,movieId\n5,3\n{stranger},3\n5,77\n0,0\n{stranger},99\n"),
    );
    let rows = predict(&bench, &model, "pairs.csv");
    assert_eq!(rows[0], ["user", "item", "prediction"]);
    let pairs: Vec<&[String]> = rows[1..].iter().map(|row| &row[..2]).collect();
    let stranger = stranger.to_string();
    assert_eq!(pairs, [["5", "3"], [&*stranger, "3"], ["5", "77"], ["0", "0"], [&*stranger, "99"]]);

    let file = std::fs::read(bench.path(&model)).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    let floats = |name: &str| -> Vec<f32> {
        let data = tensors.tensor(name).unwrap().data().to_vec();
        data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let (mean, items) = (floats("mean")[0], floats("items"));
    let predictions = column(&rows, "prediction");
    let near =
        |one: f64, other: f32| assert!((one - f64::from(other)).abs() < 1e-5, "{one} {other}");
    near(predictions[4], mean);
    // A row has the factors and then the bias.
    near(predictions[1], mean + items[3 * 3 + 2]);

    bench.write("some.csv", "5,3,4.5\n5,4\n");
    let rows = predict(&bench, &model, "some.csv");
    assert_eq!(rows[0], ["user", "item", "rating", "prediction"]);
    assert_eq!((&*rows[1][2], &*rows[2][2]), ("4.5", ""));
    near(predictions[0], rows[1][3].parse().unwrap());
}

#[test]
fn images_have_a_class_and_the_probability_of_each() {
    let bench = Bench::new();
    write_images(&bench, "images");
    let data = "data = { source = \"idx\", path = \"images\" }";
    for (kind, keys) in [
        ("softmax-regression", ""),
        ("perceptron", "hidden = [4]\n"),
        ("convolutional-network", "filters = [2]\nkernel = 1\npool = 1\ngroups = 1\nhidden = []\n"),
    ] {
        let model = bench.train(kind, kind, &format!("{keys}{data}"));
        let rows = predict(&bench, &model, "images");
        assert_eq!(rows[0], ["example", "label", "class", "probability.0", "probability.1"]);
        assert_eq!(rows.len(), 21);
        let (zero, one) = (column(&rows, "probability.0"), column(&rows, "probability.1"));
        let classes = column(&rows, "class");
        for (at, (zero, one)) in zero.iter().zip(&one).enumerate() {
            assert!((zero + one - 1.0).abs() < 1e-5);
            assert_eq!(classes[at] == 1.0, one > zero);
        }
        let hits = classes.iter().zip(column(&rows, "label")).filter(|(one, two)| **one == *two);
        let accuracy = hits.count() as f64 / 20.0;
        let found = bench.json(&["evaluate", &model, "--data", "images"]);
        assert_eq!(found["metric"]["value"], accuracy, "{kind}");
    }
}

#[test]
fn sparse_examples_have_the_probability_of_the_positive_class() {
    let bench = Bench::new();
    let row = |example: u32| {
        let (sign, feature) = if example.is_multiple_of(2) { ('+', 2) } else { ('-', 4) };
        format!("{sign}1 {feature}:1 {}:0.5\n", 5 + example % 3)
    };
    bench.write("train", (0..60).map(row).collect::<String>());
    // The model does not know the feature 90.
    bench.write("given", "-1 2:1 90:7\n+1 4:1\n");
    let keys = "data = { source = \"libsvm\", path = \"train\" }";
    let model = bench.train("lr", "logistic-regression", keys);
    let rows = predict(&bench, &model, "given");
    assert_eq!(rows[0], ["example", "label", "class", "probability"]);
    assert_eq!(
        (column(&rows, "label"), column(&rows, "class")),
        (vec![-1.0, 1.0], vec![1.0, -1.0])
    );
    let probabilities = column(&rows, "probability");
    assert!(probabilities[0] > 0.5 && probabilities[1] < 0.5, "{probabilities:?}");

    bench.write("one", "+1 2:1\n");
    assert_eq!(column(&predict(&bench, &model, "one"), "label"), [1.0]);
    // The rows of the file itself are likely to have trained the model.
    bench.write("given.t", "-1 4:1\n-1 4:1 5:0.5\n-1 2:1\n");
    assert_eq!(column(&predict(&bench, &model, "given"), "label"), [-1.0; 3]);
    bench.write("none", "# nothing\n");
    let output = bench.gaia(&["predict", &model, "--data", "none", "--out", "p.csv"]).output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(said.contains("none: found no row, expected at least one example"), "{said}");
}

#[test]
fn documents_have_the_share_of_each_topic() {
    let bench = Bench::new();
    let documents: String = (1..=30)
        .flat_map(|document| (1..=3).map(move |word| (document, word + 3 * (document % 2))))
        .map(|(document, word)| format!("{document} {word} 4\n"))
        .collect();
    bench.write("docs", format!("30\n6\n90\n{documents}"));
    bench.write("words", "a\nb\nc\nd\ne\nf\n");
    let keys = "topics = 2\nalpha = 0.1\n\
                data = { source = \"docword\", path = \"docs\", vocabulary_path = \"words\" }";
    let model = bench.train("lda", "topic-model", keys);
    let rows = predict(&bench, &model, "docs");
    assert_eq!(rows[0], ["document", "topic", "share.1", "share.2"]);
    assert_eq!(rows.len(), 31);
    let (one, two) = (column(&rows, "share.1"), column(&rows, "share.2"));
    for (at, topic) in column(&rows, "topic").into_iter().enumerate() {
        assert!((one[at] + two[at] - 1.0).abs() < 1e-5);
        assert_eq!(topic == 2.0, two[at] > one[at]);
    }

    // Documents without words are none, but they count. Those of a second file follow all of the first.
    bench.write("given/a", "6\n6\n4\n6 1 4\n1 4 4\n3 1 4\n4 4 4\n");
    bench.write("given/b", "3\n6\n2\n1 1 4\n3 4 4\n");
    let rows = predict(&bench, &model, "given");
    assert_eq!(column(&rows, "document"), [1.0, 3.0, 4.0, 6.0, 7.0, 9.0]);
    let shares: Vec<&[String]> = rows[1..].iter().map(|row| &row[2..]).collect();
    assert_eq!([shares[0], shares[1]], [shares[2], shares[3]], "documents of the same words");
    assert_ne!(shares[0], shares[1]);

    bench.write("one", "2\n6\n1\n2 1 4\n");
    assert_eq!(column(&predict(&bench, &model, "one"), "document"), [2.0]);
}

#[test]
fn a_prediction_that_is_not_finite_is_an_error_with_its_example() {
    let bench = Bench::new();
    let row = |at: u32| if at.is_multiple_of(2) { "a,0.001,-0.001\n" } else { "b,-0.001,0.001\n" };
    bench.write("train.csv", "label,x,y\n".to_owned() + &(0..80).map(row).collect::<String>());
    bench.write("given.csv", "x,y\n0.001,-0.001\n3e38,3e38\n");
    for kind in ["softmax-regression", "logistic-regression"] {
        let model = bench.train(kind, kind, "data = { source = \"csv\", path = \"train.csv\" }");
        let errors = bench.refusal(&["predict", &model, "--data", "given.csv", "--out", "p.csv"]);
        let says = "given.csv: found example 1, of which the model predicts NaN, expected a finite";
        assert!(errors.contains(says), "{kind}:\n{errors}");
        assert!(!bench.path("p.csv").exists());
    }
}

#[test]
fn rows_of_columns_are_predicted_by_the_names_of_their_columns() {
    let bench = Bench::new();
    let row = |at: u32| {
        let (label, x) = if at.is_multiple_of(2) { ("cat", 1.0) } else { ("dog", -1.0) };
        format!("{x},{},{label},{}\n", at % 5, at % 3)
    };
    let rows: String = (0..80).map(row).collect();
    bench.write("train.csv", format!("x,noise,kind,more\n{rows}"));
    // In another order, with a column that the model does not know, and without labels.
    bench.write("given.csv", "id,more,noise,x\n7,0,1,1.0\n8,1,0,-1.0\n");
    bench.write("labelled.csv", "kind,more,noise,x\ncat,0,1,1.0\ndog,1,0,-1.0\ncat,1,1,-1.0\n");
    bench.write("strange.csv", "kind,more,noise,x\ncow,0,1,1.0\ndog,0,1,1.0\n");
    bench.write("short.csv", "kind,more,x\ncat,0,1.0\n");
    for kind in ["softmax-regression", "logistic-regression"] {
        let keys =
            "data = { source = \"csv\", path = \"train.csv\", columns = { label = \"kind\" } }";
        let model = bench.train(kind, kind, keys);
        let rows = predict(&bench, &model, "given.csv");
        assert_eq!(rows[0][..2], ["example", "class"]);
        assert_eq!([&*rows[1][1], &*rows[2][1]], ["cat", "dog"], "{kind}");
        if kind == "softmax-regression" {
            assert_eq!(rows[0][2..], ["probability.cat", "probability.dog"]);
        }

        let rows = predict(&bench, &model, "labelled.csv");
        assert_eq!(rows[0][1..3], ["label", "class"]);
        assert_eq!((&*rows[3][1], &*rows[3][2]), ("cat", "dog"), "{kind}");
        let found = bench.json(&["evaluate", &model, "--data", "labelled.csv"]);
        let accuracy = found["metric"]["value"].as_f64().unwrap();
        assert!((accuracy - 2.0 / 3.0).abs() < 1e-6, "{accuracy}");

        for (data, says) in [
            ("given.csv", "given.csv: found examples without labels, expected a label"),
            ("strange.csv", "strange.csv: found the class \"cow\", expected one of the 2 classes"),
            ("short.csv", "noise"),
        ] {
            let errors = bench.refusal(&["evaluate", &model, "--data", data]);
            assert!(errors.contains(says), "{kind}, {data}:\n{errors}");
        }
    }
}

#[test]
fn pairs_with_names_that_are_text_are_predicted() {
    let bench = Bench::new();
    let rows = (0..30_u32).flat_map(|user| (0..5_u32).map(move |item| (user, item)));
    let rows =
        rows.map(|(user, item)| format!("{},u{user},\"i, {item}\"\n", 1 + (user + item) % 4));
    bench.write("train.csv", "stars,who,what\n".to_owned() + &rows.collect::<String>());
    bench.write("pairs.csv", "what,who\n\"i, 2\",u7\n\"i, 2\",nobody\n");
    let keys = "rank = 2\ndata = { source = \"csv\", path = \"train.csv\", \
                columns = { user = \"who\", item = \"what\", rating = \"stars\" } }";
    let model = bench.train("mf", "matrix-factorization", keys);
    bench.gaia(&["predict", &model, "--data", "pairs.csv", "--out", "p.csv"]).assert().success();
    let text = std::fs::read_to_string(bench.path("p.csv")).unwrap();
    assert!(text.starts_with("user,item,prediction\nu7,\"i, 2\","), "{text}");
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn a_name_is_found_whether_a_file_has_it_as_text_or_as_a_number() {
    let bench = Bench::new();
    let columns = "columns = { user = \"who\", item = \"what\", rating = \"stars\" }";
    let rows = |shown: &dyn Fn(u32) -> String| -> String {
        let pairs = (0..30_u32).flat_map(|user| (0..5_u32).map(move |item| (user, item)));
        let row = |(user, item)| format!("{},{},{item}\n", 1 + (user + item) % 4, shown(user));
        "stars,who,what\n".to_owned() + &pairs.map(row).collect::<String>()
    };
    bench.write("numbers.csv", rows(&|user| (100 + user).to_string()));
    // One name is text, so that all are.
    let mixed = |user: u32| if user == 29 { "A17".into() } else { (100 + user).to_string() };
    bench.write("mixed.csv", rows(&mixed));
    bench.write("known.csv", "who,what\n107,2\n103,4\n");
    bench.write("beside.csv", "who,what\n107,2\n103,4\nguest,4\n0107,2\n");
    for name in ["numbers", "mixed"] {
        let keys =
            format!("rank = 2\ndata = {{ source = \"csv\", path = \"{name}.csv\", {columns} }}");
        let model = bench.train(name, "matrix-factorization", &keys);
        let [known, beside] = ["known.csv", "beside.csv"]
            .map(|given| column(&predict(&bench, &model, given), "prediction"));
        assert_eq!(known, beside[..2], "{name}");
        // `0107` is another name than 107.
        assert_ne!(beside[0], beside[3], "{name}");
    }
}

#[test]
fn labels_are_classes_by_their_names_whatever_form_the_data_has() {
    let bench = Bench::new();
    write_images(&bench, "images");
    // The classes 0 and 1 among others, and the second one alone.
    let pixels = |class: u32, at: u32| format!("{},{at},{},7", 255 * class, 255 - at);
    let row = |at: u32| format!("{},{}\n", pixels(at % 2, at), at % 2);
    bench.write("both.csv", "a,b,c,d,label\n".to_owned() + &(0..60).map(row).collect::<String>());
    let ones: String = (0..10).map(|at| format!("{},1\n", pixels(1, at))).collect();
    bench.write("ones.csv", format!("a,b,c,d,label\n{ones}"));
    bench.write("twos.csv", format!("a,b,c,d,label\n{}", ones.replace(",1\n", ",2\n")));

    let numbered = "data = { source = \"idx\", path = \"images\" }";
    let model = bench.train("numbered", "softmax-regression", numbered);
    let shape = "app.data.columns.shape=[1, 2, 2]";
    let csv = ["--set", "app.data.source=csv", "--set", shape];
    let found = bench.json(&[&["evaluate", &model, "--data", "ones.csv"], &csv[..]].concat());
    assert_eq!(found["metric"]["value"], 1.0, "all are of the class 1");
    let errors = bench.refusal(&[&["evaluate", &model, "--data", "twos.csv"], &csv[..]].concat());
    assert!(errors.contains("twos.csv: found the class \"2\", expected one of the 2"), "{errors}");

    // The other way around: names in the model, and numbers in the data.
    let others = "a,b,c,d,label\n".to_owned() + &(0..60).map(row).collect::<String>();
    bench.write("named.csv", others.replace(",1\n", ",3\n").replace(",0\n", ",1\n"));
    let keys = "data = { source = \"csv\", path = \"named.csv\", columns = { shape = [1, 2, 2] } }";
    let model = bench.train("named", "softmax-regression", keys);
    let errors =
        bench.refusal(&["evaluate", &model, "--data", "images", "--set", "app.data.source=idx"]);
    let says = "images: found the label 0 of example 0, expected one of the 2 classes of \
                named/model.safetensors, `1`, `3`";
    assert!(errors.contains(says), "{errors}");
}

#[test]
fn labels_of_two_classes_are_signs_in_libsvm_files_and_names_in_columns() {
    let bench = Bench::new();
    let row = |at: u32| {
        format!("{}1 {}:1 3:0.5\n", if at.is_multiple_of(2) { '+' } else { '-' }, 1 + at % 2)
    };
    bench.write("train", (0..60).map(row).collect::<String>());
    let keys = "data = { source = \"libsvm\", path = \"train\" }";
    let signs = bench.train("signs", "logistic-regression", keys);
    bench.write("ones.csv", "a,b,c,label\n1,0,0.5,1\n1,0,0.5,1\n");
    bench.write("words.csv", "a,b,c,label\n1,0,0.5,yes\n0,1,0.5,no\n");
    let csv = ["--set", "app.data.source=csv"];
    let found = bench.json(&[&["evaluate", &signs, "--data", "ones.csv"], &csv[..]].concat());
    assert_eq!(found["metric"]["value"], 1.0, "all are positive");
    let errors = bench.refusal(&[&["evaluate", &signs, "--data", "words.csv"], &csv[..]].concat());
    assert!(
        errors.contains("expected one of the 2 classes of signs/model.safetensors, `-1`, `1`"),
        "{errors}"
    );

    let named = |at: u32| format!("{},{},0.5,{}\n", 1 - at % 2, at % 2, 1 - at % 2);
    bench.write("named.csv", "a,b,c,label\n".to_owned() + &(0..60).map(named).collect::<String>());
    let keys = "data = { source = \"csv\", path = \"named.csv\" }";
    let names = bench.train("names", "logistic-regression", keys);
    bench.write("given", "+1 1:1 3:0.5\n+1 1:1 3:0.5\n-1 2:1 3:0.5\n");
    let libsvm = ["--set", "app.data.source=libsvm"];
    let found = bench.json(&[&["evaluate", &names, "--data", "given"], &libsvm[..]].concat());
    assert_eq!(found["metric"]["value"], 1.0);
}

#[test]
fn few_examples_may_have_a_feature_of_any_number() {
    let bench = Bench::new();
    // More features than a few examples may give a new model.
    let row = |at: u32| {
        let (sign, feature) = if at.is_multiple_of(2) { ('+', 1) } else { ('-', 2) };
        let many: String = (0..400).map(|place| format!(" {}:1", 3 + 3000 * place + at)).collect();
        format!("{sign}1 {feature}:1{many}\n")
    };
    bench.write("train", (0..60).map(row).collect::<String>());
    let keys = "data = { source = \"libsvm\", path = \"train\" }";
    let model = bench.train("wide", "logistic-regression", keys);
    bench.write("given", "+1 1:1 1100000:1\n-1 2:1 60000000:1\n");
    assert_eq!(column(&predict(&bench, &model, "given"), "label"), [1.0, -1.0]);

    // A validation set has the features of what it judges.
    bench.write("valid", "+1 1:1 1100000:1\n-1 2:1\n");
    let validated = ["train", "wide.toml", "--set", "evaluate.data=valid"];
    bench.gaia(&validated).args(["--quiet", "--out", "validated"]).assert().success();
}
