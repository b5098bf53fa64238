//! A cluster in network namespaces of its own: real processes, real sockets, links that `tc tbf` shapes, and what befalls
//! them. Skipped where namespaces are not allowed.
//!
//! With `GAIA_SOAK` set to a number of seconds, as `scripts/soak` does, the run lasts that long, something befalls it
//! every 30 s, and it is measured against one that nothing befalls.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "real time passes here")]

mod cluster;
mod network;

use std::time::Duration;

use cluster::{Cluster, Setting};
use network::Network;

/// What befalls a cluster, in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillWorker,
    KillServer,
    CutOff,
}

const FAULTS: [Fault; 3] = [Fault::KillWorker, Fault::KillServer, Fault::CutOff];

impl Fault {
    /// Befalls one data center; `lasts` is how long it is cut off.
    fn befall(self, cluster: &mut Cluster, dc: usize, lasts: Duration) {
        match self {
            Self::KillWorker => cluster.restart(&format!("worker-{dc}")),
            Self::KillServer => cluster.restart(&format!("server-{dc}")),
            Self::CutOff => {
                cluster.network().cut(dc);
                cluster.watch_for(lasts);
                cluster.network().heal(dc);
            }
        }
    }
}

#[test]
fn a_cluster_outlives_killed_nodes_and_a_data_center_that_is_cut_off() {
    if std::env::var_os(SOAK).is_some() {
        return;
    }
    let Some(network) = Network::new("50mbit") else {
        println!("skipped: network namespaces are not allowed here");
        return;
    };
    let mut cluster = Cluster::start(network, &Setting { stop: "clocks = 600".into() });
    for (number, fault) in FAULTS.into_iter().enumerate() {
        cluster.wait_for_clock(100 * (number as u64 + 1));
        // The connection counts as lost after some seconds; then both sides go on alone.
        fault.befall(&mut cluster, number, Duration::from_secs(8));
    }
    let outcome = cluster.end();
    assert!(outcome.copies_equal, "{outcome:?}");
    assert!(outcome.clocks >= 600, "{outcome:?}");
    assert!(outcome.objective < outcome.first_objective, "{outcome:?}");
}

#[test]
fn soak() {
    let Some(seconds) = std::env::var(SOAK).ok().and_then(|text| text.parse::<u64>().ok()) else {
        return;
    };
    let setting = Setting { stop: format!("seconds = {seconds}") };
    let run = |faults: bool| {
        let network = Network::new("50mbit").expect("network namespaces are allowed");
        let mut cluster = Cluster::start(network, &setting);
        cluster.wait_for_clock(1);
        let mut number = 0;
        // The last of them is over a while before the run is, which else would end with copies that have just met.
        let lasts = 2 * EVERY + CUT_OFF;
        while faults && cluster.trained() + lasts < Duration::from_secs(seconds) {
            cluster.watch_for(EVERY);
            let fault = FAULTS[number % FAULTS.len()];
            println!("{:>5} s: {fault:?}", cluster.trained().as_secs());
            // The coordinator's data center is the first.
            fault.befall(&mut cluster, 1 + number % 2, CUT_OFF);
            number += 1;
        }
        (cluster.end(), number)
    };
    let (without, _) = run(false);
    let (with, faults) = run(true);
    let clocks = with.clocks as f64 / without.clocks as f64;
    let objective = with.objective / without.objective;
    println!("faults     {faults} over {seconds} s");
    println!("clocks     {} of {}, {:.1} %", with.clocks, without.clocks, 100.0 * clocks);
    println!("objective  {:.5} of {:.5}, ratio {objective:.4}", with.objective, without.objective);
    println!("copies     equal: {}", with.copies_equal);
    assert!(with.copies_equal && without.copies_equal);
    assert!(objective < 1.01, "{with:?} {without:?}");
}

const SOAK: &str = "GAIA_SOAK";
const EVERY: Duration = Duration::from_secs(30);
const CUT_OFF: Duration = Duration::from_secs(60);
