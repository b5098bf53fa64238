//! What `gaia evaluate` and `gaia predict` refuse, and how they say so.

use super::{APPS, Bench};

#[test]
fn each_mistake_is_one_error_that_says_where() {
    let bench = Bench::new();
    bench.write("train.csv", "1,1,3\n1,2,4\n2,1,5\n2,2,1\n3,1,2\n3,2,2\n");
    bench.write("pairs.csv", "1,2\n");
    bench.write("empty.csv", "");
    bench.write("words.csv", "1,x,3\n");
    bench.write("words.parquet", "1,x,3\n");
    let keys = "rank = 2\ndata = { source = \"movielens\", path = \"train.csv\" }";
    let model = bench.train("mf", "matrix-factorization", keys);
    let synthetic = bench.train("made", APPS[1].0, APPS[1].1);
    let tables = safetensors::serialize(
        [(
            "users",
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1, 1], &[0; 4])
                .unwrap(),
        )],
        None,
    );
    bench.write("bare.safetensors", tables.unwrap());

    let (evaluate, predict) = ("evaluate", "predict");
    let cases: &[(&[&str], &[&str])] = &[
        (&[evaluate, "none"], &["none: cannot be read"]),
        (&[evaluate, "."], &["found a folder without shards of a model", "expected a file"]),
        (&[evaluate, "train.csv"], &["train.csv: found", "expected a safetensors file"]),
        (
            &[evaluate, "bare.safetensors"],
            &["no description of a run", "that gaia train has written"],
        ),
        (&[evaluate, &model, "--data", "none.csv"], &["--data none.csv", "No such file"]),
        (
            &[evaluate, &model, "--data", "pairs.csv"],
            &["pairs.csv: found user 1 and item 2 without a rating"],
        ),
        (&[evaluate, &model, "--data", "empty.csv"], &["empty.csv: found no row"]),
        (
            &[evaluate, &model, "--data", "words.csv"],
            &["words.csv, row 1: found \"x\"", "an item number"],
        ),
        (
            &[evaluate, &model, "--data", "words.parquet"],
            &["words.parquet, row 1: ", "; app.data.source = \"parquet\" reads files of this name"],
        ),
        (
            &[evaluate, &model, "--set", "app.rank=3"],
            &["`users` with the shape [3, 3] as F32", "[3, 4]"],
        ),
        (&[evaluate, &model, "--set", "app.rnk=3"], &["rnk", "rank"]),
        (
            &[evaluate, &synthetic, "--data", "train.csv"],
            &["no path beside source = \"synthetic\"", "source = \"csv\" for files of this name"],
        ),
        (
            &[predict, &model, "--data", "train.csv", "--out", "p.txt"],
            &["p.txt", "ends in .csv, .csv.gz or .parquet"],
        ),
        (&[predict, &model, "--out", "p.csv"], &["--data <PATH>"]),
    ];
    for (arguments, says) in cases {
        let errors = bench.refusal(arguments);
        for said in *says {
            assert!(errors.contains(said), "{arguments:?} should say {said:?}:\n{errors}");
        }
    }
    let onto_itself = ["predict", &model, "--data", "pairs.csv", "--out", "./pairs.csv"];
    let error = "--out is ./pairs.csv, which --data reads, expected another file";
    assert!(bench.refusal(&onto_itself).contains(error));
    bench.write("parts/a.csv", "1,1\n");
    for (data, out) in [
        ("parts/*.csv", "parts/a.csv"),
        ("parts/*.csv", "parts/new.csv"),
        ("parts", "./parts/new.csv"),
    ] {
        let errors = bench.refusal(&["predict", &model, "--data", data, "--out", out]);
        assert!(errors.contains("which --data reads, expected another file"), "{errors}");
    }
    assert_eq!(std::fs::read_to_string(bench.path("parts/a.csv")).unwrap(), "1,1\n");
    let beside = ["predict", &model, "--data", "parts/*.csv", "--out", "parts/_new.csv"];
    bench.gaia(&beside).assert().success();
    let into_nothing = ["predict", &model, "--data", "pairs.csv", "--out", "none/p.csv"];
    bench.gaia(&into_nothing).assert().code(1);
}

#[test]
fn data_that_has_changed_is_not_taken_for_that_of_the_run() {
    let bench = Bench::new();
    let rows = "1,1,3\n1,2,4\n2,1,5\n2,2,1\n3,1,2\n3,2,2\n";
    bench.write("train.csv", rows);
    let keys = "rank = 2\ndata = { source = \"movielens\", path = \"train.csv\" }";
    let model = bench.train("mf", "matrix-factorization", keys);
    let seeds = ["train", "mf.toml", "--seeds", "2", "--out", "all", "--quiet"];
    let on = [&seeds[..], &["--resume", "auto"]].concat();
    bench.gaia(&seeds).assert().success();
    bench.gaia(&on).assert().success();
    let checkpoints = ["--set", "checkpoint.every=3", "--out", "cut", "--resume", "auto"];
    let cut = [&["train", "mf.toml", "--quiet"][..], &checkpoints].concat();
    bench.gaia(&cut).assert().success();
    std::fs::remove_file(bench.path("cut/summary.json")).unwrap();

    // As many users, items and ratings as before, so that the descriptions are the same.
    bench.write("train.csv", rows.replace("2,1,5", "2,1,4"));
    let said = bench.refusal(&["evaluate", &model]);
    assert!(said.contains("the data of run mf as it is divided now has the digest "), "{said}");
    assert!(said.contains("--data evaluates all of it"), "{said}");
    assert!(bench.json(&["evaluate", &model, "--data", "train.csv"])["objective"].is_f64());
    let said = bench.refusal(&on);
    assert!(said.contains("all/seed-7: trained on data with the digest "), "{said}");
    let said = bench.refusal(&cut);
    assert!(said.contains("is of another run: found hash "), "{said}");

    // An item of another name has the same place among the names.
    bench.write("train.csv", rows.replace(",2,", ",7,"));
    let said = bench.refusal(&["evaluate", &model]);
    assert!(said.contains("has the digest "), "{said}");

    bench.write("train.csv", rows);
    bench.gaia(&on).assert().success();
    bench.gaia(&cut).assert().success();
    assert!(bench.json(&["evaluate", &model])["objective"].is_f64());
}

#[test]
fn classes_that_the_model_does_not_know_are_named() {
    let bench = Bench::new();
    let labels = |classes: u8| -> (Vec<u8>, Vec<u8>) {
        let images = [[0, 0, 8, 3], [0, 0, 0, 20], [0, 0, 0, 1], [0, 0, 0, 1]].concat();
        let labels = [[0, 0, 8, 1], [0, 0, 0, 20]].concat();
        (
            images.into_iter().chain(0..20).collect(),
            labels.into_iter().chain((0..20).map(|at| at % classes)).collect(),
        )
    };
    for (folder, classes) in [("two", 2), ("five", 5)] {
        let (images, labels) = labels(classes);
        for set in ["train", "t10k"] {
            bench.write(&format!("{folder}/{set}-images-idx3-ubyte"), &images);
            bench.write(&format!("{folder}/{set}-labels-idx1-ubyte"), &labels);
        }
    }
    let keys = "data = { source = \"idx\", path = \"two\" }";
    let model = bench.train("two-classes", "softmax-regression", keys);
    let errors = bench.refusal(&["evaluate", &model, "--data", "five"]);
    assert!(
        errors.contains("five: found the label 2 of example 2, expected one of the 2 classes"),
        "{errors}"
    );
}

#[test]
fn a_model_of_other_users_is_no_initial_model() {
    let bench = Bench::new();
    for (name, first) in [("one", 1), ("other", 2)] {
        let rows = (first..first + 20)
            .flat_map(|user| (0..3).map(move |item| format!("{user},{item},3\n")));
        bench.write(&format!("{name}.csv"), rows.collect::<String>());
        let keys = format!("rank = 2\ndata = {{ source = \"movielens\", path = \"{name}.csv\" }}");
        bench.train(name, "matrix-factorization", &keys);
    }
    let arguments = ["check", "other.toml", "--init", "one/model.safetensors"];
    let errors = bench.refusal(&arguments);
    assert!(errors.contains("found 1 at place 0 of `users.names`, expected 2"), "{errors}");
    bench.gaia(&["check", "one.toml", "--init", "one/model.safetensors"]).assert().success();
}
