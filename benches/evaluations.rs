//! What evaluations cost a clock of the real driver: the time of a run over processes that evaluates every tenth clock,
//! beside one that evaluates at its end alone.
//!
//! An evaluation sends 2 MB from the server to both workers of each data center, which go through 180,000 ratings between
//! them. A clock takes 50 ms, in which the cores are mostly idle: clocks are charged, and a real cluster's workers wait for
//! a WAN or an accelerator. On cores that training keeps busy an evaluation costs what it computes.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const RUN: &str = "\
name = \"evaluations\"
seed = 7
driver = \"real\"
stop.clocks = 150

[app]
kind = \"matrix-factorization\"
rank = 16
clocks_per_pass = 100
data.synthetic = { users = 20000, items = 10000, ratings = 200000 }

[sync.remote]
model = \"asp\"

[compute]
model = \"cost\"
examples_per_second = 1e9
clock_overhead = \"50 ms\"
jitter = 0.0

[topology]
name = \"two\"
data_center = [{ name = \"a\" }, { name = \"b\" }]

[topology.defaults]
servers = 1
workers = 2

[topology.wan]
bandwidth = \"50 Mbit/s\"
rtt = \"10 ms\"
";

const ROUNDS: usize = 5;

fn main() {
    let folder = tempfile::tempdir().expect("room for runs");
    std::fs::write(folder.path().join("run.toml"), RUN).expect("room for runs");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        with.push(seconds_per_clock(folder.path(), &format!("with-{round}"), 10));
        without.push(seconds_per_clock(folder.path(), &format!("without-{round}"), 100_000));
    }
    let ratios = with.iter().zip(&without).map(|(with, without)| with / without);
    let mut ratios: Vec<f64> = ratios.collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "a clock with evaluations took {:.4} of one without: median of {ROUNDS} pairs, {:.4} to {:.4}",
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1]
    );
}

/// Trains once. Returns the seconds of a clock.
fn seconds_per_clock(folder: &Path, out: &str, every: u64) -> f64 {
    let mut train = Command::new(env!("CARGO_BIN_EXE_gaia"));
    train.current_dir(folder).args(["train", "run.toml", "--quiet", "--out", out]);
    train.args(["--set", &format!("evaluate.every={every}")]);
    assert!(train.status().expect("the program starts").success());
    let summary = std::fs::read_to_string(folder.join(out).join("summary.json"));
    let summary: Value =
        serde_json::from_str(&summary.expect("a run has a summary")).expect("a summary is JSON");
    let clocks = summary["data_center_clocks"][0].as_u64().expect("a data center has a clock");
    summary["time_s"].as_f64().expect("a run takes time") / clocks as f64
}
