//! Data centers that join a run under way, and that leave it for good.

use std::fs;

use serde_json::{Value, json};

use super::failures::{Bare, Limit};
use super::{Bench, Node, check_summary, evaluations, run_file, said};

const NAMES: [&str; 3] = ["north", "south", "west"];

/// A run that west may join late, and that goes on without who is away.
fn open(clocks: u64) -> String {
    let text = run_file(&NAMES, "driver = \"real\"", &format!("clocks = {clocks}"));
    let keys = "[failures]\ngive_up_after = \"1 s\"\non_give_up = \"leave\"\nlate = [\"west\"]\n";
    text.replace("[stop]", &format!("{keys}[stop]"))
}

impl Bare {
    /// Waits until the latest evaluation is of the copies of so many data centers.
    fn has(&mut self, data_centers: usize) {
        let judged = |bench: &Bench| {
            let latest = evaluations(bench, "out").pop()?;
            Some(latest["data_centers"].as_array()?.len())
        };
        while judged(&self.bench) != Some(data_centers) {
            assert!(self.conductor.0.try_wait().unwrap().is_none(), "the run has ended");
            std::thread::yield_now();
        }
    }

    /// Starts the nodes of a data center in one process, which keeps what it has where it is told.
    fn data_center(&self, dc: &str, keeps: &[&str]) -> Node {
        let place = ["--dc", dc, "--server", "0", "--worker", "0", "--listen", "127.0.0.1:0"];
        self.bench.node(&self.coordinator, "certs", &[&place[..], keeps].concat())
    }
}

/// What changed of who takes part.
fn changes(summary: &Value) -> Vec<(&str, &str)> {
    let records = summary["membership"].as_array().unwrap().iter();
    records
        .map(|record| (record["data_center"].as_str().unwrap(), record["change"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_data_center_joins_late_and_leaves_and_joins_again_and_copies_are_equal() {
    let mut run = Bare::new(&open(1_500), &NAMES);
    let others = ["north", "south"].map(|dc| run.data_center(dc, &[]));
    let _limit = Limit::on(&others.iter().chain([&run.conductor]).collect::<Vec<_>>());
    run.has(2);
    let west = run.data_center("west", &["--state", "kept"]);
    run.has(3);
    // It is killed, as what is dropped is.
    drop(west);
    run.has(2);
    let (code, said) = run.data_center("west", &["--state", "kept"]).end();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("this node takes no part in the run: its data center was removed"),
        "{said}"
    );
    fs::remove_dir_all(run.bench.path("kept")).unwrap();
    let west = run.data_center("west", &["--state", "kept"]);
    run.has(3);
    let summary = run.ends(others.into_iter().chain([west]).collect());
    check_summary(&summary, 3, 3);
    assert_eq!(changes(&summary), [("west", "joined"), ("west", "left"), ("west", "joined")]);
    assert!(summary["data_center_clocks"][2].as_u64() > Some(1_000), "{summary:#}");
    assert_eq!(summary["conservation"]["broken"], json!([]));
}

#[test]
fn a_run_whose_late_data_center_never_comes_ends_without_it() {
    let mut run = Bare::new(&open(40), &NAMES);
    let mut nodes: Vec<Node> = ["north", "south"].map(|dc| run.data_center(dc, &[])).into();
    // Of two nodes one is no data center.
    let alone = run.worker("west");
    run.has(2);
    let (code, said) = run.conductor.end();
    assert_eq!(code, Some(0), "{said}");
    let summary = run.bench.summary("out");
    assert_eq!(summary["copies_equal"], true);
    assert_eq!(summary.get("membership"), None, "{summary:#}");
    let (code, said) = alone.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("this node takes no part in the run: the run"), "{said}");
    assert!(nodes.drain(..).all(|node| node.end().0 == Some(0)));
}

#[test]
fn all_processes_of_one_machine_may_have_a_late_data_center_among_them() {
    let bench = Bench::new(&open(60));
    let output = bench.gaia("train", &["--out", "out", "--quiet"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let summary = bench.summary("out");
    check_summary(&summary, 3, 3);
    assert_eq!(changes(&summary), [("west", "joined")]);
}
