//! Copies that part under ASP are said, once and early, with the line that helps; copies that do not are not.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod runs;

use assert_cmd::Command;
use gaia_telemetry::Summary;
use runs::run;

const PERCEPTRON: &str = "app={kind = 'perceptron', batch = 16, hidden = [16], \
    data = {split = 'SPLIT', synthetic = {examples = 2000, features = 12}}}";

/// A perceptron under ASP, with what each data center has and these settings.
fn trained(split: &str, settings: &[&str]) -> Summary {
    let app = PERCEPTRON.replace("SPLIT", split);
    run(&[&[app.as_str(), "stop.clocks=80"], settings].concat()).summary
}

#[test]
fn a_perceptron_whose_data_centers_have_their_own_labels_is_said_to_part() {
    let parted = trained("by-label", &[]).parted.expect("copies part");
    assert!(parted.clock <= 40, "early: {parted:?}");
    assert!(parted.loss > 0.1, "{parted:?}");
    assert_eq!(parted.add, "guard = {}");
}

#[test]
fn a_perceptron_whose_data_centers_have_alike_examples_is_not() {
    for seed in [1, 2, 3] {
        let summary = trained("even", &[&format!("seed={seed}")]);
        assert_eq!(summary.parted, None, "seed {seed}");
    }
}

/// Over processes copies travel, and a copy is compared with one of the same clock, so that a slow machine finds no more.
#[test]
fn processes_whose_data_centers_have_alike_examples_are_not() {
    let out = tempfile::tempdir().unwrap();
    let app = PERCEPTRON.replace("SPLIT", "even");
    let mut gaia = Command::cargo_bin("gaia").unwrap();
    gaia.args(["train", "config/run/quickstart.toml", "--driver", "real", "--out"]);
    gaia.arg(out.path());
    for setting in [&app, "stop={clocks = 400}", "sync.remote={model = 'asp'}"] {
        gaia.args(["--set", setting]);
    }

    let ended = gaia.output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{told}");
    assert!(!told.contains("the copies of data centers part"), "{told}");
    let summary = std::fs::read(out.path().join("summary.json")).unwrap();
    let summary: Summary = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary.parted, None);
}

#[test]
fn other_models_and_a_guard_are_not_looked_at() {
    for remote in ["model = 'asp', guard = {}", "model = 'bsp'", "model = 'local-steps', steps = 5"]
    {
        let summary = trained("by-label", &[&format!("sync.remote={{{remote}}}")]);
        assert_eq!(summary.parted, None, "{remote}");
    }
}

#[test]
fn a_sparse_model_with_data_of_its_own_everywhere_is_not_said_to_part() {
    let data = "data = {split = 'by-user', synthetic = {users = 200, items = 200, ratings = 10000, rank = 2}}";
    let app =
        format!("app={{kind = 'matrix-factorization', rank = 4, row_step_max = 0.5, {data}}}");
    assert_eq!(run(&[&app]).summary.parted, None);
}

#[test]
fn the_terminal_the_report_and_the_summary_have_the_line_to_add() {
    let out = tempfile::tempdir().unwrap();
    for driver in ["simulated", "emulated", "real"] {
        let directory = out.path().join(driver);
        let app = PERCEPTRON.replace("SPLIT", "by-label");
        let settings = [
            app.as_str(),
            // Of processes on a busy machine it is found later.
            "stop={clocks = 200}",
            "sync.remote={model = 'asp'}",
            "topology.bandwidth_scale=0.01",
            "compute.examples_per_second=1000.0",
        ];
        let mut gaia = Command::cargo_bin("gaia").unwrap();
        gaia.args(["train", "config/run/quickstart.toml", "--driver", driver, "--out"]);
        gaia.arg(&directory);
        for setting in settings {
            gaia.args(["--set", setting]);
        }

        let ended = gaia.output().unwrap();
        let (said, told) =
            (String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap());
        assert!(ended.status.success(), "{told}");
        assert_eq!(told.matches("the copies of data centers part").count(), 1, "{told}");
        assert!(told.contains("Add `guard = {}` to [sync.remote]"), "{told}");
        assert!(said.contains("add guard = {} to [sync.remote]"), "{said}");
        let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
        assert!(page.contains("add guard = {} to [sync.remote]"));
        let summary = std::fs::read(directory.join("summary.json")).unwrap();
        let summary: Summary = serde_json::from_slice(&summary).unwrap();
        assert!(summary.parted.is_some());
    }
}
