//! `gaia plan`: predictions that hold, on any number of processors, and say what they do not know.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use assert_cmd::Command;
use gaia_config::{Override, Plan, RunFile};
use gaia_core::application::Application;
use gaia_core::sync::RemoteSync;
use gaia_planner::{ClockWork, InThisProcess, Request, Scaling, plan};
use gaia_report::plan::{PlanFile, TargetFrom, Verdict};
use gaia_telemetry::Unobserved;

/// A dense network over three regions whose slowest link carries the model in about a clock.
const RUN: &str = r#"
name = "planned"
seed = 7

[app]
kind = "perceptron"
batch = 16
hidden = [16]

[app.data.synthetic]
examples = 2000
features = 12

[topology]
file = "three-regions"
bandwidth_scale = 0.001

[sync.remote]
model = "asp"
threshold = 0.2

[compute]
examples_per_second = 200.0

[cost]
usd_per_machine_hour = 0.1

[evaluate]
every = 2

[stop]
clocks = 60
"#;

fn run_file(settings: &[&str]) -> RunFile {
    let overrides: Vec<Override> =
        settings.iter().map(|setting| Override::parse(setting).unwrap()).collect();
    RunFile::from_text("planned.toml", RUN, &overrides).unwrap()
}

fn application(plan: &Plan) -> Arc<dyn Application> {
    gaia_data::build(plan.app.as_ref(), &plan.topology.data_homes(), plan.seed).unwrap()
}

fn planned(file: &RunFile, budget: u64, target: Option<f64>, threads: usize) -> PlanFile {
    let simulator = InThisProcess { threads, interrupted: None };
    let request = Request { budget, target, simulator: &simulator };
    let application = application(&file.plan().unwrap());
    plan(file, &application, &request, |_| {}).unwrap()
}

#[test]
fn a_plan_is_the_same_to_the_byte_with_any_number_of_threads() {
    let file = run_file(&[]);
    let one = gaia_report::to_json(&planned(&file, 30, None, 1));
    assert_eq!(one, gaia_report::to_json(&planned(&file, 30, None, 7)));
}

#[test]
fn what_is_predicted_of_a_candidate_is_what_its_run_takes() {
    let file = run_file(&["stop.objective=0.9"]);
    let found = planned(&file, 60, None, 2);
    assert_eq!((found.target_from, found.target_objective), (TargetFrom::RunFile, 0.9));
    assert_eq!(found.budget_clocks, 60);

    let own = file.plan().unwrap();
    let row = found.rows.iter().find(|row| row.is_own).unwrap();
    let outcome = gaia_driver::run(&own, &application(&own), &mut Unobserved).unwrap();
    assert_eq!(row.verdict, Verdict::Reached);
    assert_eq!(row.time_to_target_s, outcome.summary.time_to_target_s);
    assert_eq!(row.wan_bytes_to_target, outcome.summary.wan_bytes_to_target);

    // Machines for that time, and the WAN.
    let machines = 9.0 * 0.1 * row.time_to_target_s.unwrap() / 3600.0;
    let wan = row.cost_usd.unwrap() - machines;
    assert!(wan > 0.0 && wan <= outcome.summary.wan_cost_usd * 1.0001, "{wan}");
}

#[test]
fn the_block_of_every_candidate_can_be_pasted() {
    let file = run_file(&[]);
    let found = planned(&file, 10, None, 2);
    assert!(found.rows.len() >= 10);
    for row in &found.rows {
        if row.settings.is_empty() {
            assert!(row.is_own);
            continue;
        }
        let pasted = RUN.replace("model = \"asp\"\nthreshold = 0.2", &row.settings.join("\n"));
        let plan = RunFile::from_text("pasted.toml", &pasted, &[]).unwrap().plan().unwrap();
        let has_rounds = matches!(plan.remote, RemoteSync::LocalSteps(_));
        assert_eq!(has_rounds, row.candidate.starts_with("rounds"), "{}", row.candidate);
    }

    let choice = found.choice.unwrap();
    let pasted = RUN.replace("[sync.remote]\nmodel = \"asp\"\nthreshold = 0.2\n", &choice.toml);
    RunFile::from_text("pasted.toml", &pasted, &[]).unwrap().plan().unwrap();
}

#[test]
fn a_run_file_with_a_setting_of_the_table_has_no_second_row_of_it() {
    let file = run_file(&["sync.remote.model=bsp"]);
    let rows = planned(&file, 10, None, 2).rows;
    let bsp: Vec<bool> =
        rows.iter().filter(|row| row.candidate == "bsp").map(|row| row.is_own).collect();
    assert_eq!(bsp, [true]);
}

#[test]
fn a_target_out_of_reach_is_said_and_nothing_is_made_up() {
    let found = planned(&run_file(&[]), 20, Some(1e-9), 2);
    assert_eq!(found.target_from, TargetFrom::Flag);
    for row in &found.rows {
        assert_eq!(row.verdict, Verdict::NotReached, "{}", row.candidate);
        assert_eq!((row.time_to_target_s, row.cost_usd), (None, None));
    }
    let reason = found.choice.unwrap().reason;
    assert!(reason.contains("No candidate is at the target within 20 clocks"), "{reason}");
}

#[test]
fn a_target_beyond_the_budget_is_extrapolated_and_marked() {
    let long = planned(&run_file(&["stop.objective=0.7", "stop.clocks=400"]), 400, None, 2);
    let short = planned(&run_file(&["stop.objective=0.7", "stop.clocks=400"]), 40, None, 2);
    let mut extrapolated = 0;
    for (guess, truth) in short.rows.iter().zip(&long.rows) {
        if guess.verdict == Verdict::Extrapolated {
            extrapolated += 1;
            assert!(guess.clocks_to_target > Some(40), "{guess:?}");
        } else if guess.verdict == Verdict::Reached {
            assert_eq!(guess.clocks_to_target, truth.clocks_to_target, "{guess:?}");
        }
    }
    assert!(extrapolated > 0, "{:?}", short.rows);
}

#[test]
fn a_candidate_that_the_run_file_cannot_have_keeps_its_row() {
    // Only TAP and ASP go on without a data center.
    let file = run_file(&["failures.on_give_up=leave"]);
    let found = planned(&file, 10, None, 2);
    let bsp = found.rows.iter().find(|row| row.candidate == "bsp").unwrap();
    assert!(matches!(&bsp.verdict, Verdict::Impossible(because) if !because.is_empty()), "{bsp:?}");
    assert!(found.choice.is_some());
}

#[test]
fn a_plan_of_counts_has_no_outer_momentum() {
    let file = run_file(&[
        "app={kind = 'topic-model', topics = 4, data.synthetic = {vocabulary = 100, documents = 200}}",
    ]);
    let found = planned(&file, 10, None, 2);
    let names: Vec<&str> = found.rows.iter().map(|row| row.candidate.as_str()).collect();
    assert!(names.contains(&"rounds 10") && !names.contains(&"rounds 8, momentum"), "{names:?}");
    assert!(found.rows.iter().all(|row| row.verdict != Verdict::Diverged), "{:?}", found.rows);
}

#[test]
fn a_slow_data_center_makes_a_quorum_a_candidate_that_does_not_wait_for_it() {
    let slow = run_file(&["compute.slowdown={ tokyo = 4.0 }"]);
    let found = planned(&slow, 40, None, 2);
    let row = |name: &str| found.rows.iter().find(|row| row.candidate == name).unwrap();
    let (quorum, all) = (row("rounds, quorum"), row("rounds"));
    assert_eq!(quorum.settings, ["model = \"local-steps\"", "quorum = 0.66"]);
    // A candidate that is behind may be simulated for more clocks.
    let [clock_s, waited_s] =
        [quorum, all].map(|row| row.simulated_s / row.simulated_clocks as f64);
    assert!(2.0 * clock_s < waited_s, "{clock_s} s with a quorum, {waited_s} s without");

    let even = planned(&run_file(&[]), 10, None, 2);
    assert!(even.rows.iter().all(|row| row.candidate != "rounds, quorum"));
}

/// BSP on a LAN with so many workers and servers, on machines of their own or together, and what the closed form says of a
/// clock.
fn check_lan(workers: usize, servers: usize, colocated: bool, rate: f64) {
    let file = run_file(&[
        "topology={name = 'lan', data_center = [{name = 'lan', lan_bandwidth = '10 Mbit/s', lan_rtt = '1 ms'}]}",
        "sync.remote.model=bsp",
        "compute.jitter=0.0",
        "app.hidden=[64]",
        "app.data.synthetic.features=256",
        &format!("compute.examples_per_second={rate}"),
        &format!("topology.data_center.0.workers={workers}"),
        &format!("topology.data_center.0.servers={servers}"),
        &format!("topology.data_center.0.colocated={colocated}"),
        "evaluate.every=40",
        "stop.clocks=40",
    ]);
    let plan = file.plan().unwrap();
    let application = application(&plan);
    let work = ClockWork::measure(&plan, application.as_ref()).unwrap();
    let expected = Scaling::of(&plan, &work).clock_s(workers, servers);
    let outcome = gaia_driver::run(&plan, &application, &mut Unobserved).unwrap();
    let clock = outcome.summary.time_s / 40.0;
    let apart = clock / expected - 1.0;
    assert!(
        apart.abs() < 0.03,
        "{workers} workers, {servers} servers, {colocated}: {clock} s, expected {expected}"
    );
}

#[test]
fn a_clock_on_a_lan_takes_what_the_closed_form_says() {
    for workers in [2, 5, 11, 22] {
        for servers in [1, 2, 4] {
            check_lan(workers, servers, false, 200.0);
            check_lan(workers, servers, false, 2_000.0);
        }
    }
    for (workers, servers) in [(1, 1), (2, 1), (2, 2), (4, 4), (5, 2)] {
        check_lan(workers, servers, true, 2_000.0);
    }
}

fn gaia(arguments: &[&str]) -> std::process::Output {
    Command::cargo_bin("gaia").unwrap().args(arguments).output().unwrap()
}

#[test]
fn the_command_shows_a_table_a_choice_and_a_block() {
    let quickstart = "config/run/quickstart.toml";
    let out = tempfile::tempdir().unwrap();
    let directory = out.path().join("plan");
    let ended = gaia(&["plan", quickstart, "--budget", "20", "--out", directory.to_str().unwrap()]);
    assert!(ended.status.success());
    let text = String::from_utf8(ended.stdout).unwrap();
    for part in ["Target objective", "to target", "rounds 10", "* asp", "Choose ", "[sync.remote]"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours where there is no terminal");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let progress = String::from_utf8(ended.stderr).unwrap();
    assert!(progress.contains("17 of 17"), "{progress}");

    let json = gaia(&["plan", quickstart, "--budget", "20", "--json", "--quiet"]);
    let kept = std::fs::read(directory.join("plan.json")).unwrap();
    let shown: PlanFile = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(shown, serde_json::from_slice::<PlanFile>(&kept).unwrap());
    assert!(json.stderr.is_empty());
}

#[test]
fn an_out_that_is_not_empty_is_refused_before_a_candidate_is_simulated() {
    let out = tempfile::tempdir().unwrap();
    std::fs::write(out.path().join("thesis.tex"), "years of work").unwrap();
    let path = out.path().to_str().unwrap();
    let ended = gaia(&["plan", "config/run/quickstart.toml", "--budget", "20", "--out", path]);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: ") && said.contains("not empty, expected a new"), "{said}");
    assert!(!said.contains(" of 17"), "{said}");
}

/// Nobody knows that the disk is full before the plan is written.
#[cfg(unix)]
#[test]
fn a_plan_that_cannot_be_written_is_shown() {
    let out = tempfile::tempdir().unwrap();
    let directory = out.path().join("plan");
    let limited = r#"trap "" XFSZ; ulimit -f 1; exec "$0" "$@""#;
    let gaia = assert_cmd::cargo::cargo_bin("gaia");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", limited]).arg(gaia).args(["plan", "config/run/quickstart.toml"]);
    let ended = command.args(["--budget", "20", "--out"]).arg(&directory).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("plan.json: cannot be written: "), "{said}");
    assert!(String::from_utf8(ended.stdout).unwrap().contains("Choose "), "{said}");
}

#[test]
fn the_command_shows_how_a_data_center_scales() {
    let ended = gaia(&["plan", "config/run/quickstart.toml", "--scaling"]);
    assert!(ended.status.success());
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.contains("etwork-bound") && text.contains("     128"), "{text}");
}

#[test]
fn wrong_flags_and_files_exit_with_two() {
    for (arguments, said) in [
        (vec!["config/run/quickstart.toml", "--target", "inf"], "expected a finite number"),
        (vec!["config/run/quickstart.toml", "--budget", "3"], "--budget"),
        (vec!["config/run/mnist.toml"], "expected a folder of four IDX files"),
        (vec!["config/run/quickstart.toml", "--set", "sync.remote.model=asq"], "asq"),
        (vec!["config/run/quickstart.toml", "--script", "train.py"], "has no Python"),
    ] {
        let ended = gaia(&[&["plan"], arguments.as_slice()].concat());
        let text = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{text}");
        assert!(text.contains(said), "{text}");
    }
}
