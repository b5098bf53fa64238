//! `model = "auto"`: what the run chooses, beside the best of all candidates that `gaia plan` knows.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use std::sync::Arc;

use assert_cmd::Command;
use gaia_config::{Override, RunFile};
use gaia_core::application::Application;
use gaia_core::sync::RemoteSync;
use gaia_planner::{Request, decide, plan};
use gaia_report::plan::PlanFile;
use gaia_telemetry::Summary;

const RUN: &str = r#"
name = "deciding"
seed = 7
app.kind = "perceptron"
[topology]
file = "three-regions"
[sync.remote]
model = "bsp"
[compute]
examples_per_second = 1000.0
[evaluate]
every = 2
[stop]
clocks = 1000
"#;

const PERCEPTRON: &str = "kind = 'perceptron', batch = 16, hidden = [16], \
    data = {split = 'SPLIT', synthetic = {examples = 2000, features = 12}}";
const FACTORISATION: &str = "kind = 'matrix-factorization', rank = 4, row_step_max = 0.5, \
    data = {split = 'USERS', synthetic = {users = 200, items = 200, ratings = 10000, rank = 2}}";
const REGRESSION: &str = "kind = 'logistic-regression', batch = 32, learning_rate = 5.0, \
    data = {split = 'SPLIT', synthetic = {examples = 3000}}";

/// How much longer than the best candidate what is chosen takes, and how many times its bytes it sends; with what was chosen.
fn check(app: &str, rate: f64, split: &str, wan: &str, scale: f64) -> (f64, f64, String) {
    let users = if split == "even" { "even" } else { "by-user" };
    let app = app.replace("SPLIT", split).replace("USERS", users);
    let settings = [
        format!("app={{{app}}}"),
        format!("topology.file={wan}"),
        format!("topology.bandwidth_scale={scale}"),
        format!("compute.examples_per_second={rate}"),
    ];
    let overrides: Vec<Override> =
        settings.iter().map(|setting| Override::parse(setting).unwrap()).collect();
    let file = RunFile::from_text("deciding.toml", RUN, &overrides).unwrap();
    let own = file.plan().unwrap();
    let application: Arc<dyn Application> =
        gaia_data::build(own.app.as_ref(), &own.topology.data_homes(), own.seed).unwrap();

    let decided = decide(&own, &application, 2, |_| {}).unwrap();
    // The choice stands in the place of the run file's own model, which is the first row.
    let chosen = own.clone().decided(decided.remote.clone(), String::new()).remote_toml();
    let (own_keys, guard_keys) = chosen.split_once("[sync.remote.guard]").unwrap_or((&chosen, ""));
    let pairs = |text: &str, prefix: &str| -> Vec<(String, String)> {
        let lines = text.lines().filter_map(|line| line.split_once(" = "));
        lines.map(|(key, value)| (format!("{prefix}{key}"), value.to_owned())).collect()
    };
    let chosen: Vec<(String, String)> =
        pairs(own_keys, "").into_iter().chain(pairs(guard_keys, "guard.")).collect();
    let chosen: Vec<(&str, &str)> =
        chosen.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let file = file.with_remote_settings(&chosen).unwrap();
    let request = Request { budget: 100, target: None, threads: 2, interrupted: None };
    let found = plan(&file, &application, &request, |_| {}).unwrap();

    let time = |row: &gaia_report::plan::PlanRow| row.time_to_target_s.unwrap_or(f64::INFINITY);
    let own = found.rows.iter().find(|row| row.is_own).unwrap();
    let best = found.rows.iter().min_by(|a, b| time(a).total_cmp(&time(b))).unwrap();
    let bytes =
        own.wan_bytes_to_target.unwrap_or(0) as f64 / best.wan_bytes_to_target.unwrap() as f64;
    let settings = match &decided.remote {
        RemoteSync::LocalSteps(config) => {
            let (steps, overlap) = (config.steps, config.most_overlap());
            let (density, momentum) = (config.density, config.outer_momentum);
            format!("rounds {steps}, overlap {overlap}, density {density}, momentum {momentum}")
        }
        other => other.name().into(),
    };
    let said =
        format!("{settings} ({}), best {}; {}", own.candidate, best.candidate, decided.reason);
    (time(own) / time(best), bytes, said)
}

/// The applications, with the examples a second of a worker: a clock takes about a quarter of a second.
const APPLICATIONS: [(&str, &str, f64); 3] = [
    ("perceptron", PERCEPTRON, 64.0),
    ("factorisation", FACTORISATION, 500.0),
    ("regression", REGRESSION, 128.0),
];

/// In each scenario the choice takes at most `most` times as long as the best candidate, and in so many at most 1.10 times.
#[allow(clippy::print_stdout, reason = "the table of the documentation is what it prints")]
fn check_all(scenarios: &[(usize, &str, f64, &str)], near_min: usize, most: f64) {
    let mut near = 0;
    for (number, wan, scale, split) in scenarios {
        let (name, app, rate) = APPLICATIONS[*number];
        let (times, bytes, said) = check(app, rate, split, wan, *scale);
        println!("| {name} | {split} | {wan} × {scale} | {times:.2} | {bytes:.2} | {said} |");
        near += usize::from(times <= 1.1);
        assert!(times <= most, "{name}, {split}, {wan} × {scale}: {times}");
    }
    println!("within 1.10 of the best in {near} of {}", scenarios.len());
    assert!(near >= near_min, "{near} of {}", scenarios.len());
}

#[test]
fn the_choice_is_near_the_best_candidate() {
    check_all(
        &[
            (0, "three-regions", 0.001, "even"),
            (0, "three-regions", 0.001, "by-label"),
            (1, "gaia-2016-ss", 0.001, "by-label"),
            (2, "three-regions", 1.0, "even"),
            (2, "three-regions", 1.0, "by-label"),
        ],
        4,
        1.5,
    );
}

#[test]
#[ignore = "two minutes: the table in docs/src/planning.md"]
fn the_choice_is_near_the_best_candidate_over_applications_links_and_skews() {
    let mut scenarios = Vec::new();
    for number in 0..APPLICATIONS.len() {
        for (wan, scale) in [
            ("three-regions", 1.0),
            ("three-regions", 0.001),
            ("gaia-2016-ss", 0.001),
            ("gaia-2016-ec2-all", 0.005),
        ] {
            scenarios.extend(["even", "by-label"].map(|split| (number, wan, scale, split)));
        }
    }
    // The goal is 22, and 1.5.
    check_all(&scenarios, 18, 1.6);
}

fn gaia(arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("gaia").unwrap().args(arguments).output().unwrap()
}

#[test]
fn a_run_that_chooses_says_why_first_and_repeats() {
    let out = tempfile::tempdir().unwrap();
    let mut summaries = Vec::new();
    for name in ["first", "second"] {
        let directory = out.path().join(name);
        let ended = gaia(&[
            "train",
            "config/run/quickstart.toml",
            "--driver",
            "simulated",
            "--set",
            "sync.remote.model=auto",
            "--set",
            "stop={clocks = 30}",
            "--out",
            directory.to_str().unwrap(),
        ]);
        let (said, told) =
            (String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap());
        assert!(ended.status.success(), "{told}");
        assert!(
            told.lines().next().unwrap().contains("was chosen by model = \"auto\". A clock takes"),
            "{told}"
        );
        assert!(said.contains("was chosen by model = \"auto\""), "{said}");
        let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
        assert!(page.contains("was chosen: A clock takes"));

        let summary = std::fs::read(directory.join("summary.json")).unwrap();
        let summary: Summary = serde_json::from_slice(&summary).unwrap();
        assert!(summary.remote_sync_reason.is_some());
        summaries.push(Summary { wall_s: 0.0, ..summary });
        let run = std::fs::read_to_string(directory.join("run.toml")).unwrap();
        assert!(
            run.contains("was chosen by model") && !run.contains("model = \"auto\"\n"),
            "{run}"
        );
    }
    assert_eq!(summaries[0], summaries[1]);

    // The run file of the directory has the model, so that it repeats the run without a choice.
    let again = out.path().join("again");
    let run = out.path().join("first").join("run.toml");
    assert!(
        gaia(&["train", run.to_str().unwrap(), "--out", again.to_str().unwrap()]).status.success()
    );
    let [first, again] = ["first", "again"]
        .map(|name| std::fs::read(out.path().join(name).join("progress.jsonl")).unwrap());
    assert_eq!(first, again);
}

#[test]
fn nodes_of_a_run_over_processes_do_not_choose_each_for_itself() {
    let auto = ["config/run/quickstart.toml", "--set", "sync.remote.model=auto"];
    for verb in [vec!["node", "--coordinator"], vec!["deploy", "slurm"]] {
        let ended = gaia(&[verb.as_slice(), &auto].concat());
        let told = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{told}");
        assert!(
            told.contains("sync.remote.model is auto and not decided, expected a model"),
            "{told}"
        );
    }
    let checked = gaia(&[["check"].as_slice(), &auto].concat());
    assert!(String::from_utf8(checked.stdout).unwrap().contains("remote auto"));
    let wrong = gaia(&[["check"].as_slice(), &auto, &["--set", "sync.remote.steps=3"]].concat());
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_plan_of_a_run_that_chooses_has_no_row_of_its_own() {
    let ended = gaia(&[
        "plan",
        "config/run/quickstart.toml",
        "--set",
        "sync.remote.model=auto",
        "--budget",
        "10",
        "--json",
    ]);
    let plan: PlanFile = serde_json::from_slice(&ended.stdout).unwrap();
    assert!(plan.choice.is_some() && plan.rows.iter().all(|row| !row.is_own));
}
