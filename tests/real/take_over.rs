//! Workers that are killed, and whose work others do.
//!
//! That each update counts once is for runs under a paused clock to find: what two workers of a data center read of each
//! other at a clock, and so what they learn, differs from run to run.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "what a process says is read until the run ends"
)]

use std::io::{BufRead, BufReader, Read};
use std::process::ChildStderr;

use super::failures::{Bare, Limit, in_step_over};
use super::{Node, check_summary, run_file};

const NAMES: [&str; 2] = ["north", "south"];

/// Two data centers with two workers each, in which everyone waits for everyone.
fn text(clocks: u64) -> String {
    let failures = "[failures]\nlost_workers = \"take-over\"\ntake_over_after = \"200 ms\"\n[stop]";
    let topology = "[topology.defaults]\nworkers = 2\n[topology.wan]";
    let text = in_step_over(&NAMES, clocks).replace("[topology.wan]", topology);
    text.replace("[stop]", failures)
}

fn worker(run: &Bare, dc: &str, index: &str, more: &[&str]) -> Node {
    let place = [&["--dc", dc, "--worker", index], more].concat();
    run.bench.node(&run.coordinator, "certs", &place)
}

/// A run that has begun, its nodes but for one worker, and that worker, which keeps its state.
fn begun(clocks: u64) -> (Bare, Vec<Node>, Node) {
    let mut run = Bare::telling(&text(clocks), &NAMES);
    let mut nodes: Vec<Node> = NAMES.map(|dc| run.server(dc, "127.0.0.1:0")).into();
    for (dc, index) in [("north", "0"), ("north", "1"), ("south", "0")] {
        nodes.push(worker(&run, dc, index, &[]));
    }
    let lost = worker(&run, "south", "1", &["--state", "kept"]);
    run.goes_on(2);
    (run, nodes, lost)
}

/// Reads what the coordinator says until it has said this; answers with all of it.
fn waits_for(said: &mut BufReader<ChildStderr>, part: &str) -> String {
    let mut lines = String::new();
    while !lines.contains(part) {
        assert_ne!(said.read_line(&mut lines).unwrap(), 0, "{part}: {lines}");
    }
    lines
}

/// Waits for the end of the run, and of every node that is there.
fn ends(run: Bare, nodes: Vec<Node>, mut said: BufReader<ChildStderr>, clocks: u64) {
    // What is not read would keep the coordinator from ending.
    std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
    let summary = run.ends(nodes);
    check_summary(&summary, 2, 4);
    assert!(summary["clocks"].as_u64().unwrap() >= clocks, "{summary:#}");
}

#[test]
fn a_worker_that_is_killed_for_good_has_its_work_done_by_another_until_the_run_ends() {
    let clocks = 60;
    let (mut run, nodes, mut lost) = begun(clocks);
    let _limit = Limit::on(&[&run.conductor, &nodes[0], &nodes[1]]);
    let mut said = run.conductor.stderr();
    lost.0.kill().unwrap();
    lost.0.wait().unwrap();
    waits_for(&mut said, "worker 0 of south takes over the work of worker 1 of south");
    ends(run, nodes, said, clocks);
}

#[test]
fn a_worker_that_comes_back_has_its_work_back_and_goes_on_where_the_other_was() {
    let clocks = 150;
    let (mut run, mut nodes, mut lost) = begun(clocks);
    let _limit = Limit::on(&[&run.conductor, &nodes[0], &nodes[1]]);
    let mut said = run.conductor.stderr();
    // With what it has kept, which is older by then than what its server knows, and with nothing.
    for more in [&["--state", "kept"][..], &[]] {
        lost.0.kill().unwrap();
        lost.0.wait().unwrap();
        waits_for(&mut said, "worker 0 of south takes over the work of worker 1 of south");
        run.goes_on(2);
        lost = worker(&run, "south", "1", more);
        waits_for(&mut said, "worker 1 of south has reconnected");
        run.goes_on(2);
    }
    nodes.push(lost);
    ends(run, nodes, said, clocks);
}

#[test]
fn a_coordinator_that_comes_back_knows_who_stands_in_for_whom() {
    let clocks = 150;
    let (mut run, mut nodes, mut lost) = begun(clocks);
    let _limit = Limit::on(&[&nodes[0], &nodes[1]]);
    let mut said = run.conductor.stderr();
    lost.0.kill().unwrap();
    lost.0.wait().unwrap();
    waits_for(&mut said, "worker 0 of south takes over the work of worker 1 of south");
    run.goes_on(1);
    run.restart_coordinator();
    let _limit = Limit::on(&[&run.conductor]);
    let mut said = run.conductor.stderr();
    run.goes_on(2);
    nodes.push(worker(&run, "south", "1", &["--state", "kept"]));
    let back = "worker 1 of south has reconnected and takes its work back from worker 0 of south";
    let lines = waits_for(&mut said, back);
    assert!(!lines.contains("takes over the work"), "it knew: {lines}");
    run.goes_on(1);
    ends(run, nodes, said, clocks);
}

#[test]
fn a_worker_that_lost_its_state_ends_a_run_whose_deltas_are_counts() {
    let text = run_file(&NAMES, "driver = \"real\"", "clocks = 100000");
    let app = text.find("[app]").unwrap()..text.find("[sync.remote]").unwrap();
    let topics = "[app]\nkind = \"topic-model\"\ntopics = 4\n\
        data.synthetic = { vocabulary = 50, documents = 80, length = 30, topics = 4 }\n";
    let mut run = Bare::new(&text.replace(&text[app], topics), &NAMES);
    let mut nodes: Vec<Node> = NAMES.map(|dc| run.server(dc, "127.0.0.1:0")).into();
    nodes.push(run.worker("north"));
    let lost = run.worker("south");
    run.goes_on(2);
    drop(lost);
    nodes.push(run.worker("south"));
    let (code, said) = run.conductor.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the deltas of topic-model are counts"), "{said}");
}
