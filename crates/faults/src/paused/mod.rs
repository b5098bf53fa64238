//! Whole clusters of the real driver's processes, in one thread and in virtual time.
//!
//! Coordinator, servers and workers are the processes of `driver/real`, from certificates to logs, and mirrors use
//! quinn. Only their environment is simulated: sockets, streams and disks are in memory, the clock is paused, and a
//! seed determines the faults of links, connections and processes. So a run takes some milliseconds for each second of
//! virtual time, and repeats from its seed.
//!
//! `schedule/` observes each message of simulated connections. This room observes no messages, and tests the real
//! connections: how QUIC, TLS, streams, stripes and sessions react to lost, repeated and late packets, to silent peers,
//! and to peers that restart at another address. The checks are on the results: each run ends in time, all copies are
//! equal to the bit, and they are the sum of all updates, each applied once.

mod application;
mod certificates;
mod cluster;
mod disk;
mod drawn;
mod environment;
mod flood;
mod pipes;

use std::panic::catch_unwind;
use std::time::Duration;

use rayon::prelude::*;

use self::cluster::{Besides, Run, run, run_alone, run_drawn};
use self::drawn::{ClusterFault, Drawn, What};
use gaia_config::{FailuresConfig, Plan};
use gaia_core::sync::RemoteSync;
use gaia_core::types::DurationSetting;

#[test]
fn three_hundred_clusters_over_quinn_end_with_every_update_in_every_copy() {
    let seeds = match std::env::var_os(ONE) {
        Some(seed) => {
            let seed = seed.to_string_lossy().parse().unwrap();
            let logs = tracing_subscriber::fmt().with_timer(cluster::VirtualTime);
            logs.with_test_writer().with_ansi(false).init();
            seed..seed + 1
        }
        None => 0..SEEDS,
    };
    let runs: Vec<(u64, Result<Run, String>)> = seeds
        .into_par_iter()
        .map(|seed| {
            let ran = catch_unwind(|| run(seed, Besides::Nothing));
            (seed, ran.unwrap_or_else(|_| Err("it panicked; see above".into())))
        })
        .collect();
    let (mut failed, mut sums, mut restarts) = (Vec::new(), 0, 0);
    let (mut joined, mut left, mut disks_lost, mut replaced) = (0, 0, 0, 0);
    let (mut taken_over, mut given_back) = (0, 0);
    let (mut lasted, mut longest) = (Duration::ZERO, Duration::ZERO);
    for (seed, run) in runs {
        match run {
            Ok(run) => {
                sums += u64::from(run.summed);
                restarts += run.restarts;
                joined += run.joined;
                left += run.left;
                disks_lost += run.disks_lost;
                replaced += run.replaced;
                taken_over += run.taken_over;
                given_back += run.given_back;
                lasted += run.lasted;
                longest = longest.max(run.lasted);
            }
            Err(reason) => failed.push(format!(
                "seed {seed}: {reason}\nrepeat with: {ONE}={seed} cargo test --package gaia-faults --lib paused -- --nocapture"
            )),
        }
    }
    println!(
        "{lasted:?} of virtual time, {longest:?} the longest; {restarts} restarts, {disks_lost} lost disks, {replaced} processes replaced by a second one; {joined} late joins, \
         {left} leaves; {taken_over} workers taken over, {given_back} times given back; {sums} runs whose sum is known"
    );
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    if std::env::var_os(ONE).is_none() {
        assert!(taken_over.min(given_back) > 20, "workers are taken over and return");
        assert!(disks_lost > 20, "servers that have lost their disks take copies");
        assert!(replaced > 5, "processes end when a second one of their nodes has started");
    }
}

#[test]
fn a_run_happens_again_from_its_seed() {
    for seed in 0..8 {
        assert_eq!(run(seed, Besides::Nothing), run(seed, Besides::Nothing), "seed {seed}");
    }
}

#[test]
fn a_coordinator_that_dies_when_a_node_has_ended_comes_back_and_ends_the_run() {
    for seed in 0..12 {
        let (once, again) =
            (run(seed, Besides::Nothing).unwrap(), run(seed, Besides::LastDeath).unwrap());
        assert!(again.restarts > once.restarts, "seed {seed}");
    }
}

/// The first cluster that is drawn with such a plan, for a run of so many clocks without a late joiner.
fn first(clocks: u64, is_such: impl Fn(&Plan) -> bool) -> Drawn {
    let mut drawn = (0..).map(Drawn::new).find(|drawn| is_such(&drawn.plan)).unwrap();
    drawn.joins = None;
    drawn.plan.failures = FailuresConfig::default();
    drawn.plan.stop.clocks = Some(clocks);
    drawn
}

/// Nodes may be started before their coordinator, and one may be started after the end of its run.
#[test]
fn a_node_without_a_state_waits_an_hour_for_its_coordinator() {
    let mut drawn = (0..).map(Drawn::new).find(|drawn| drawn.joins.is_none()).unwrap();
    drawn.plan.failures = FailuresConfig::default();
    for process in 0..drawn.processes.len() - 1 {
        let (ended, after) = run_alone(drawn.clone(), process);
        let reason = ended.unwrap_err();
        assert!(reason.contains("it was not reached for 3600 s; it may not have"), "{reason}");
        assert!((3_600..3_620).contains(&after.as_secs()), "{after:?}");
    }
}

/// No clock waits for a coordinator, and only a coordinator ends a run.
#[test]
fn a_run_whose_coordinator_is_away_goes_no_further_than_it_has_to() {
    let mut drawn = first(20, |plan| matches!(plan.remote, RemoteSync::Bsp(_)));
    let what = What::Kill { process: drawn.processes.len() - 1, write: None, moves: false };
    let (at, lasts) = (Duration::from_secs(1), Duration::from_secs(30));
    drawn.faults = vec![ClusterFault { at, lasts, what }];
    let run = run_drawn(drawn, 0, Besides::Nothing).unwrap();
    assert_eq!(run.restarts, 1);
    assert!((20..24).contains(&run.clocks), "{}", run.clocks);
}

#[test]
fn a_server_whose_worker_is_ahead_of_the_copy_that_it_takes_keeps_a_checkpoint() {
    let mut drawn = first(20, |plan| matches!(plan.remote, RemoteSync::Tap(_)));

    // The worker sends its clock. With that a checkpoint is due, and an order is to be sent.
    drawn.plan.checkpoint.every = Some(3);
    let topology = &drawn.plan.topology;
    for dc in topology.dc_ids().skip(1) {
        drawn.plan.compute.slowdown.set(topology, dc, 4.0);
    }
    let what = What::LoseDisk { process: 0, behind: Duration::ZERO };
    let (at, lasts) = (Duration::from_secs(2), Duration::from_millis(200));
    drawn.faults = vec![ClusterFault { at, lasts, what }];
    let run = run_drawn(drawn, 0, Besides::Nothing).unwrap();
    assert_eq!(run.disks_lost, 1);
}

#[test]
fn a_mirror_that_is_refused_is_given_up_and_the_reason_is_reported() {
    let mut drawn = first(100, |plan| plan.needs_all().is_none());
    drawn.plan.failures.give_up_after = DurationSetting(Duration::from_secs(12));

    // Only the coordinator knows the earlier incarnations, and begins above its calendar.
    let coordinator = drawn.processes.len() - 1;
    let loses = |process: usize, lasts: u64| ClusterFault {
        at: Duration::from_secs(2),
        lasts: Duration::from_millis(lasts),
        what: What::LoseDisk { process, behind: Duration::from_secs(60) },
    };
    drawn.faults = vec![loses(coordinator, 10), loses(0, 500)];
    let refused = run_drawn(drawn, 0, Besides::Nothing).unwrap_err();
    assert!(
        refused.contains("has refused its messages for 12 s: peer sent a message of its"),
        "{refused}"
    );
}

/// Idle connections of unauthenticated peers keep no node out, neither at the start nor after a crash.
#[test]
fn clusters_that_strangers_flood_end_with_every_update_in_every_copy() {
    let runs = (0..FLOODED).into_par_iter().map(|seed| {
        let run =
            run(seed, Besides::Flood).unwrap_or_else(|reason| panic!("seed {seed}: {reason}"));
        run.restarts
    });
    assert!(runs.sum::<u64>() > 0, "nodes restart");
}

const SEEDS: u64 = 300;
const FLOODED: u64 = 6;

/// The environment variable with the only seed to run, with logs.
const ONE: &str = "GAIA_PAUSED_SEED";
