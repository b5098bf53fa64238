//! On what data copies are evaluated: at home each on its own, everywhere each on all.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod homes;
mod runs;

use std::sync::Arc;

use gaia_core::application::{Application, Breakdown, EvaluationSums};
use gaia_core::types::{Model, Seed};
use gaia_data::OwnData;
use gaia_ml::apps::AppConfig;
use gaia_telemetry::EvaluatedOn;
use homes::homes;
use runs::run;

/// Every application, small.
const APPS: [&str; 6] = [
    "kind = 'matrix-factorization', data.synthetic = { users = 60, items = 40, ratings = 1500 }",
    "kind = 'softmax-regression', data.synthetic = { examples = 900 }",
    "kind = 'perceptron', data.synthetic = { examples = 900 }, evaluate_examples = 200",
    "kind = 'convolutional-network', data.synthetic = { examples = 600 }, evaluate_examples = 200",
    "kind = 'logistic-regression', data.synthetic = { examples = 900 }",
    "kind = 'topic-model', data.synthetic = { vocabulary = 200, documents = 90, length = 30 }",
];

const WORKERS: [usize; 3] = [1, 3, 2];

fn application(app: &str) -> Arc<dyn Application> {
    gaia_data::build(Some(&config(app)), &homes(&WORKERS), Seed(5)).unwrap()
}

fn config(app: &str) -> AppConfig {
    let table: toml::Table = toml::from_str(&format!("app = {{ {app} }}")).unwrap();
    let mut keys = table["app"].as_table().unwrap().clone();
    let kind = keys.remove("kind").unwrap();
    AppConfig::deserialize(kind.as_str().unwrap(), keys).unwrap()
}

#[track_caller]
fn assert_close(found: f64, expected: f64, what: &str) {
    let apart = (found - expected).abs() / expected.abs().max(1e-9);
    assert!(apart < 1e-9, "{what}: {found}, expected {expected}");
}

#[test]
fn the_sums_of_workers_are_those_of_all_data_and_no_example_counts_twice() {
    for app in APPS {
        let application = application(app);
        let model = application.initial_model(Seed(1));
        let all = application.sums(&model, 0..6).unwrap();
        let each: EvaluationSums =
            (0..6).map(|worker| application.sums(&model, worker..worker + 1).unwrap()).sum();
        for (found, expected) in [(each.objective, all.objective), (each.metric, all.metric)] {
            assert_close(found.sum, expected.sum, app);
            assert_close(found.weight, expected.weight, app);
        }
        assert_eq!(application.workers(), 6);
        assert_eq!(application.sums(&model, 2..2).unwrap(), EvaluationSums::default());
    }
}

/// Under BSP all copies are equal, so that it makes no difference where each part of the data is judged.
#[test]
fn under_bsp_the_objective_at_home_is_that_everywhere() {
    for app in APPS {
        let run = |place: &str| {
            run(&[
                &format!("app={{{app}}}"),
                "sync.remote={model = 'bsp'}",
                "topology.defaults.workers=2",
                "stop.clocks=6",
                &format!("evaluate={{every = 2, where = '{place}'}}"),
            ])
        };
        let (home, everywhere) = (run("home"), run("everywhere"));
        assert_eq!(home.summary.evaluated, EvaluatedOn::Home);
        assert_eq!(everywhere.summary.evaluated, EvaluatedOn::Everywhere);
        assert_close(home.summary.objective, everywhere.summary.objective, app);
        assert_close(home.summary.metric.value, everywhere.summary.metric.value, app);
        for (home, everywhere) in home.progress.iter().zip(&everywhere.progress) {
            assert_close(home.objective, everywhere.objective, app);
        }
        assert_eq!(home.summary.at_home.len(), 3);
        assert!(everywhere.summary.at_home.is_empty());
    }
}

/// Each data center trains on few labels and hears nothing of the others.
#[test]
fn copies_that_drift_apart_look_better_at_home_than_everywhere() {
    let run = |place: &str| {
        let outcome = run(&[
            "app={kind = 'softmax-regression', optimizer = 'sgd', data.split = 'by-label', \
             data.synthetic.examples = 3000}",
            "sync.remote={model = 'asp', threshold = 1000.0}",
            "stop.clocks=40",
            &format!("evaluate={{every = 5, where = '{place}'}}"),
        ]);
        outcome.progress.last().unwrap().objective
    };
    let (home, everywhere) = (run("home"), run("everywhere"));
    assert!(home < 0.5 * everywhere, "{home} {everywhere}");
}

/// A process that has only the data of its own data center builds the same model, and finds the same sums.
#[test]
fn a_process_with_the_data_of_one_data_center_evaluates_as_one_with_all() {
    let folder = tempfile::tempdir().unwrap();
    for (dc, ratings) in ["1,5,3\n1,7,4\n2,5,1\n9,9,2\n", "2,7,5\n3,5,4\n4,8,1\n", "1,1,2\n1,2,3\n"]
        .into_iter()
        .enumerate()
    {
        std::fs::write(folder.path().join(format!("dc-{dc}.csv")), ratings).unwrap();
    }
    let path = folder.path().join("{dc}.csv");
    let app = format!(
        "kind = 'matrix-factorization', data = {{ source = 'movielens', path = '{}' }}",
        path.display()
    );
    let all = application(&app);
    let model = all.initial_model(Seed(1));
    let (config, homes) = (config(&app), homes(&WORKERS));
    let read = |own| OwnData::read(Some(&config), &homes, own, Seed(5), None).unwrap();
    let summaries: Vec<_> = (0..3).flat_map(|home| read(home..home + 1).summaries()).collect();

    for (home, workers) in [0..1, 1..4, 4..6].into_iter().enumerate() {
        let own = read(home..home + 1).into_application(&summaries).unwrap();
        assert_eq!(own.layout(), all.layout());
        assert_eq!(own.describe(), all.describe());
        assert_eq!(own.initial_model(Seed(1)).values, model.values);
        assert_eq!(own.sums(&model, workers.clone()).unwrap(), all.sums(&model, workers).unwrap());
    }
    // The coordinator has no data at all.
    let none = read(0..0).into_application(&summaries).unwrap();
    assert_eq!((none.layout(), none.describe()), (all.layout(), all.describe()));
}

/// A data center may lack classes, and names of classes may be numbers in one and text in another.
#[test]
fn a_validation_set_is_the_same_whichever_classes_a_data_center_has() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, classes: &[&str]| {
        let row = |at: usize| format!("{},{},{}\n", at % 3, at % 5, classes[at % classes.len()]);
        let text = format!("a,b,label\n{}", (0..20).map(row).collect::<String>());
        std::fs::write(folder.path().join(name), text).unwrap();
    };
    let path = folder.path().join("{dc}.csv");
    for (kind, classes, valid) in [
        (
            "softmax-regression",
            [&["cat", "dog"][..], &["ant", "cat", "dog"], &["cow"]],
            &["cat", "dog"],
        ),
        ("softmax-regression", [&["10", "2"][..], &["10", "2", "x"], &["2"]], &["10", "2"]),
        ("logistic-regression", [&["1"][..], &["-1", "1"], &["-1"]], &["1", "1"]),
    ] {
        write("valid.csv", valid);
        for (dc, classes) in classes.into_iter().enumerate() {
            write(&format!("dc-{dc}.csv"), classes);
        }
        let data = format!("data = {{ source = 'csv', path = '{}' }}", path.display());
        let config = config(&format!("kind = '{kind}', {data}"));
        let validation = folder.path().join("valid.csv");
        let built =
            gaia_data::build_validated(Some(&config), &homes(&WORKERS), Seed(5), Some(&validation));
        assert!(built.is_ok(), "{kind}: {}", built.err().unwrap());
    }
}

/// Every data center judges its own copy by all of the validation set, whose examples count once.
#[test]
fn a_validation_set_is_the_same_for_all_data_centers() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let rows = |from: usize| -> String {
        (from..from + 40)
            .map(|at| format!("{} {}:1 {}:1\n", 1 + at % 2, 1 + at % 7, 9 + at % 5))
            .collect()
    };
    let labelled = |text: String| text.replace("2 ", "-1 ").replace("\n1 ", "\n+1 ");
    for (dc, from) in [0, 13, 29].into_iter().enumerate() {
        write(&format!("dc-{dc}"), &labelled(rows(from)));
    }
    let validation = write("validation", &labelled(rows(5)));
    let path = folder.path().join("{dc}");
    let app = format!(
        "kind = 'logistic-regression', data = {{ source = 'libsvm', path = '{}' }}",
        path.display()
    );
    let (config, homes) = (config(&app), homes(&WORKERS));
    let build = |path: &std::path::Path| {
        gaia_data::build_validated(Some(&config), &homes, Seed(5), Some(path)).unwrap()
    };
    let application = build(&validation);
    let counted = |application: &Arc<dyn Application>, model: &Model| -> u64 {
        let describes = application.describe();
        assert!(describes.contains(" examples and 40 held out"), "{describes}");
        let Ok(Some(Breakdown::Classes(classes))) = application.breakdown(model) else {
            panic!("no breakdown of {describes}")
        };
        classes.counts.concat().iter().sum()
    };

    let mut model = application.initial_model(Seed(1));
    model.values.iter_mut().zip(1..).for_each(|(value, at)| *value = (at % 3) as f32 - 1.0);
    assert_eq!(counted(&application, &model), 40);
    let own: Vec<_> =
        [0..1, 1..4, 4..6].map(|workers| application.sums(&model, workers).unwrap().metric).into();
    assert_eq!(own[0].weight, 40.0);
    assert!(own.iter().all(|sum| sum == &own[0]), "{own:?}");
    assert_eq!(
        application.sums(&model, 0..6).unwrap().objective.weight,
        120.0,
        "nothing else is held out"
    );

    // In one place for all data centers it is the same.
    let all = write("all", &labelled(rows(0)));
    let shared = format!(
        "kind = 'logistic-regression', data = {{ source = 'libsvm', path = '{}' }}",
        all.display()
    );
    let shared = gaia_data::build_validated(
        Some(&self::config(&shared)),
        &homes,
        Seed(5),
        Some(&validation),
    )
    .unwrap();
    let each = [0..1, 1..4, 4..6].map(|workers| shared.sums(&model, workers).unwrap().metric);
    assert!(each.iter().all(|sum| sum == &own[0]), "{each:?} {own:?}");
    assert_eq!(counted(&shared, &model), 40);

    // Data centers with other validation sets do not go together, and generated data has none.
    let other = write("other", &labelled(rows(6)));
    let read = |home: usize, path| {
        OwnData::read(Some(&config), &homes, home..home + 1, Seed(5), Some(path)).unwrap()
    };
    let mut summaries: Vec<_> = [(0, &validation), (1, &validation), (2, &other)]
        .into_iter()
        .flat_map(|(home, path)| read(home, path).summaries())
        .collect();
    let Err(error) = read(0, &validation).into_application(&summaries) else {
        panic!("they went together")
    };
    let error = error.to_string();
    assert!(error.contains("the data of dc-2: found a validation set with the digest"), "{error}");
    summaries[2] = read(2, &validation).summaries().remove(0);
    let apart = read(0, &validation).into_application(&summaries).unwrap();
    assert!(apart.describe().contains("120 examples and 40 held out"), "{}", apart.describe());

    let made = gaia_data::build_validated(
        Some(&self::config(APPS[0])),
        &homes,
        Seed(5),
        Some(&validation),
    );
    let Err(error) = made else { panic!("generated data has a validation set") };
    assert!(error.to_string().starts_with("app.data.source is synthetic"), "{error}");
}
