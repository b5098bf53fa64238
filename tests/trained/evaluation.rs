//! `gaia evaluate`.

use super::real_data::real_data;
use super::{APPS, Bench, RUN, column};

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

/// What a model pays for its rows is in the unit of the ratings that trained it. In that of the ratings that it is given the
/// objective over some of them would have nothing to do with that over all.
#[test]
fn the_objective_over_all_ratings_is_the_mean_of_those_over_their_parts() {
    let bench = Bench::new();
    let ratings = |values: &[u64]| -> (String, f64) {
        let rated = (0..30_u64).flat_map(|user| (0..8_u64).map(move |item| (user, item)));
        let rated = rated.map(|(user, item)| (user, item, [1, 100][(user + item) as usize % 2]));
        let rows: Vec<String> = rated
            .filter(|(_, _, value)| values.contains(value))
            .map(|(user, item, value)| format!("{user},{item},{value}\n"))
            .collect();
        (format!("userId,movieId,rating\n{}", rows.concat()), rows.len() as f64)
    };
    let parts = [("all.csv", &[1, 100][..]), ("low.csv", &[1]), ("high.csv", &[100])];
    let counts = parts.map(|(file, values)| {
        let (text, count) = ratings(values);
        bench.write(file, text);
        count
    });
    let keys = "rank = 2\ndata = { source = \"movielens\", path = \"all.csv\" }";
    let model = bench.train("mf", "matrix-factorization", keys);

    let [all, low, high] = parts.map(|(file, _)| {
        let found = bench.json(&["evaluate", &model, "--data", file]);
        found["objective"].as_f64().unwrap()
    });
    let mean = (low * counts[1] + high * counts[2]) / counts[0];
    assert!((all / mean - 1.0).abs() < 1e-6, "{all} and {mean}");
}

#[test]
fn given_examples_are_all_judged_however_few_judged_the_run() {
    let bench = Bench::new();
    let row = |at: u32| format!("{},{},{}\n", at % 2, at % 7, (at * at) % 11);
    bench.write("points.csv", "label,x,y\n".to_owned() + &(0..60).map(row).collect::<String>());
    let data = "data = { source = \"csv\", path = \"points.csv\" }";
    for (kind, keys) in [("softmax-regression", ""), ("perceptron", "hidden = [4]\n")] {
        let objective = |name: &str, more: &str| {
            let model =
                bench.train(&format!("{name}-{kind}"), kind, &format!("{keys}{more}{data}"));
            bench.json(&["evaluate", &model, "--data", "points.csv"])["objective"].clone()
        };
        let few = objective("few", "evaluate_examples = 5\n");
        assert_eq!(few, objective("all", ""), "{kind}");
    }
}

/// Times in seconds are too large for sums of their squares, and years too far from zero beside their spread: both are
/// learnt by default, and the model knows how to read others.
#[test]
fn times_and_years_are_learnt_judged_and_learnt_on_from() {
    let bench = Bench::new();
    let rows = |days: std::ops::Range<u64>| -> String {
        let row = |day: u64| {
            let label = if day < 120 { "before" } else { "after" };
            format!("{label},{},{}\n", 1_700_000_000 + 86_400 * day, 2019 + day % 6)
        };
        "label,time,year\n".to_owned() + &days.map(row).collect::<String>()
    };
    bench.write("times.csv", rows(0..240));
    bench.write("later.csv", rows(100..340));

    for (kind, keys) in
        [("logistic-regression", ""), ("softmax-regression", ""), ("perceptron", "hidden = [8]\n")]
    {
        let (file, first, second) = (format!("{kind}.toml"), kind, format!("{kind}-later"));
        let data = "data = { source = \"csv\", path = \"times.csv\" }";
        let text = format!("name = \"times\"\n{RUN}\n[app]\nkind = \"{kind}\"\n{keys}{data}\n");
        bench.write(&file, text);
        let train = ["train", &file, "--quiet", "--out", first, "--set", "stop.clocks=200"];
        bench.gaia(&train).assert().success();
        let model = format!("{first}/model.safetensors");

        let own = bench.json(&["evaluate", &model]);
        assert_eq!(own["objective"], own["trained"]["objective"], "{kind}");
        let accuracy = |model: &str| -> f64 {
            let found = bench.json(&["evaluate", model, "--data", "times.csv"]);
            found["metric"]["value"].as_f64().unwrap()
        };
        let before = accuracy(&model);
        assert!(before > 0.9, "{kind}: {before}");

        // Later times have another offset. Steps this short leave what the model says of the first ones.
        let train = ["train", &file, "--quiet", "--out", &second, "--init", &model];
        let settings = ["--set", "app.data.path=later.csv", "--set", "app.learning_rate=1e-6"];
        bench.gaia(&[&train[..], &settings].concat()).assert().success();
        let after = accuracy(&format!("{second}/model.safetensors"));
        assert!((after - before).abs() < 0.02, "{kind}: {after} after {before}");
    }
}

/// A factorisation predicts relative to the mean of the ratings that it is trained on.
#[test]
fn a_run_that_starts_from_a_factorisation_predicts_as_it_does_whatever_its_own_ratings() {
    let bench = Bench::new();
    for (file, more) in [("train.csv", 0), ("later.csv", 2)] {
        let row =
            |user: u64, item: u64| format!("{user},{item},{}\n", more + 1 + (user * item) % 3);
        let rows = (1..30).flat_map(|user| (0..8).map(move |item| row(user, item)));
        bench.write(file, "userId,movieId,rating\n".to_owned() + &rows.collect::<String>());
    }
    let keys = "rank = 2\ndata = { source = \"movielens\", path = \"train.csv\" }";
    let first = bench.train("mf", "matrix-factorization", keys);
    let train = ["train", "mf.toml", "--quiet", "--out", "later", "--init", &first];
    let settings = ["--set", "app.data.path=later.csv", "--set", "app.learning_rate=1e-6"];
    bench.gaia(&[&train[..], &settings].concat()).assert().success();

    let [before, after] = ["mf", "later"].map(|run| {
        let (model, out) = (format!("{run}/model.safetensors"), format!("{run}.csv"));
        let predict = ["predict", &model, "--data", "train.csv", "--out", &out];
        bench.gaia(&predict).assert().success();
        column(&bench.csv(&out), "prediction")
    });
    assert_eq!(before.len(), 232);
    for (before, after) in before.iter().zip(&after) {
        assert!((before - after).abs() < 1e-3, "{after} after {before}");
    }
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
