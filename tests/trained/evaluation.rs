//! `gaia evaluate`.

use super::real_data::real_data;
use super::{APPS, Bench, column};

#[test]
fn a_model_is_as_good_on_the_data_of_its_run_as_at_the_end_of_the_run() {
    let bench = Bench::new();
    for (kind, keys) in APPS {
        let model = bench.train(kind, kind, keys);
        let found = bench.json(&["evaluate", &model]);
        let trained = &found["trained"];
        assert_eq!(found["objective"], trained["objective"], "{kind}");
        assert_eq!(found["metric"], trained["metric"], "{kind}");
        assert_eq!((&trained["run"], &trained["clock"]), (&kind.into(), &6.into()));
    }
}

#[test]
fn other_ratings_are_judged_as_their_predictions_are() {
    let bench = Bench::new();
    let ratings = |users: std::ops::Range<u64>| -> String {
        let row = |user: u64, item: u64| format!("{user},{item},{}\n", 1 + (user * item) % 5);
        let rows = users.flat_map(|user| (0..8).map(move |item| row(user, 3 * item)));
        "userId,movieId,rating\n".to_owned() + &rows.collect::<String>()
    };
    bench.write("train.csv", ratings(1..30));
    bench.write("other.csv", ratings(20..40));
    let keys = "rank = 2\ndata = { source = \"movielens\", path = \"train.csv\" }";
    let model = bench.train("mf", "matrix-factorization", keys);

    let found = bench.json(&["evaluate", &model, "--data", "other.csv"]);
    bench.gaia(&["predict", &model, "--data", "other.csv", "--out", "p.csv"]).assert().success();
    let rows = bench.csv("p.csv");
    let (ratings, predictions) = (column(&rows, "rating"), column(&rows, "prediction"));
    let squares = ratings.iter().zip(&predictions).map(|(one, other)| (one - other).powi(2));
    let rmse = (squares.sum::<f64>() / ratings.len() as f64).sqrt();
    let value = found["metric"]["value"].as_f64().unwrap();
    assert!((rmse - value).abs() < 1e-6, "{rmse} {value}");
    assert_eq!(ratings.len(), 160);
}

#[test]
fn a_terminal_shows_the_figures_beside_those_of_the_run() {
    let bench = Bench::new();
    let (kind, keys) = APPS[0];
    let model = bench.train("first", kind, keys);
    let output = bench.gaia(&["evaluate", &model]).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    for said in ["first/model.safetensors: clock 6 of first", "  data ", "  objective ", "  rmse "]
    {
        assert!(text.contains(said), "{said:?} in\n{text}");
    }
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn real_digits_are_judged_by_their_test_files() {
    let Some(data) = real_data("mnist") else { return };
    let bench = Bench::new();
    let keys = format!("data = {{ source = \"idx\", path = {data:?} }}");
    let model = bench.train("digits", "softmax-regression", &keys);
    let own = bench.json(&["evaluate", &model]);
    let given = bench.json(&["evaluate", &model, "--data", data.to_str().unwrap()]);
    assert_eq!(own["metric"], given["metric"], "both are over the test files");
    assert_ne!(own["objective"], given["objective"]);
}
