//! A cluster in network namespaces of its own: real processes, real sockets, links that `tc tbf` shapes, and what befalls
//! them. Skipped where namespaces are not allowed.
//!
//! With `GAIA_SOAK` set to a number of seconds, as `scripts/soak` does, the run lasts that long, a drawn fault befalls
//! it every 30 s, and it is measured against one that nothing befalls. `GAIA_SOAK_SEED` chooses the faults.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests, which say what they measure"
)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "real time passes here")]

mod cluster;
mod host_clock;
mod network;
mod own_images;
#[path = "../real_data/mod.rs"]
mod real_data;
mod resources;
mod soak;

use std::thread;
use std::time::Duration;

use cluster::{Cluster, Data, Outcome, Setting};
use network::{DATA_CENTERS, Network};

/// What befalls a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillWorker,
    KillServer,
    CutOff,
    /// No packet passes between two data centers that both reach the third.
    DeadLink,
    /// The same in one direction.
    OneWayDeadLink,
    /// A data center is cut off for a moment, several times.
    Flapping,
    /// A server restarts without its state.
    LostDisk,
    /// A server cannot write, ends, and restarts once it can.
    FullDisk,
    /// The wall clock of a host jumps back, and a server of it restarts without its state: what it writes and says is
    /// older than what others know of it.
    ClockBack,
    /// The wall clock of a host jumps forward.
    ClockForward,
}

/// How far wall clocks jump.
const CLOCK_STEP_S: i64 = 600;

/// How often a data center is cut off when it flaps.
const FLAPS: u32 = 10;

const SETTING: Setting = Setting {
    stop: String::new(),
    clock: "50 ms",
    data: Data::Ratings { users: 300, items: 200 },
    evaluate_every: 10,
    detours: true,
};

/// What befalls a short run, in turn.
const FAULTS: [Fault; 4] = [Fault::KillWorker, Fault::KillServer, Fault::CutOff, Fault::ClockBack];

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
            Self::DeadLink | Self::OneWayDeadLink => {
                let other = (dc + 1) % DATA_CENTERS.len();
                let ways = [(dc, other), (other, dc)];
                let ways = &ways[..if self == Self::DeadLink { 2 } else { 1 }];
                ways.iter().for_each(|(from, to)| cluster.network().cut_way(*from, *to));
                cluster.watch_for(lasts);
                ways.iter().for_each(|(from, to)| cluster.network().heal_way(*from, *to));
            }
            Self::Flapping => {
                for _ in 0..FLAPS {
                    cluster.network().cut(dc);
                    cluster.watch_for(lasts / (4 * FLAPS));
                    cluster.network().heal(dc);
                    cluster.watch_for(3 * lasts / (4 * FLAPS));
                }
            }
            Self::LostDisk => cluster.restart_without_state(&format!("server-{dc}")),
            Self::FullDisk => cluster.restart_over_full_disk(&format!("server-{dc}"), lasts),
            Self::ClockBack => {
                cluster.host_clocks().step(dc, -CLOCK_STEP_S);
                cluster.restart_without_state(&format!("server-{dc}"));
            }
            Self::ClockForward => cluster.host_clocks().step(dc, CLOCK_STEP_S),
        }
    }
}

/// What the ledgers of all mirrors must say: both ends of each link agree.
fn check_conservation(outcome: &Outcome) {
    let record = &outcome.conservation;
    let links = DATA_CENTERS.len() * (DATA_CENTERS.len() - 1);
    assert_eq!(record["links"], links, "{outcome:?}");
    assert!(record["frames"].as_u64() > Some(0), "{outcome:?}");
    assert_eq!(record["broken"], serde_json::json!([]), "{outcome:?}");
}

#[test]
fn a_cluster_outlives_killed_nodes_a_wall_clock_that_jumps_and_a_data_center_that_is_cut_off() {
    if std::env::var_os(soak::SOAK).is_some() {
        return;
    }
    let Some(network) = Network::new("50mbit") else {
        println!("skipped: network namespaces are not allowed here");
        return;
    };
    let setting = Setting { stop: "clocks = 600".into(), ..SETTING };
    let mut cluster = Cluster::start(network, &setting);
    for (number, fault) in FAULTS.into_iter().enumerate() {
        cluster.wait_for_clock(100 * (number as u64 + 1));
        // The connection counts as lost after some seconds; then both sides go on alone.
        fault.befall(&mut cluster, number % DATA_CENTERS.len(), Duration::from_secs(8));
    }
    let outcome = cluster.end();
    assert!(outcome.copies_equal, "{outcome:?}");
    assert!(outcome.clocks.iter().all(|clocks| *clocks >= 600), "{outcome:?}");
    assert!(outcome.objective < outcome.first_objective, "{outcome:?}");
    check_conservation(&outcome);
}

/// The link between south and west is dead for half a minute, and both exchange updates with north, which passes nothing on.
/// If both continued to train, the objective would grow a hundredfold (`docs/src/partial-partitions.md`).
#[test]
fn a_dead_link_between_two_of_three_data_centers_spoils_nothing() {
    if std::env::var_os(soak::SOAK).is_some() {
        return;
    }
    let (Some(network), Some(other)) = (Network::new("50mbit"), Network::new("50mbit")) else {
        println!("skipped: network namespaces are not allowed here");
        return;
    };
    let setting = || Setting { stop: "clocks = 500".into(), detours: false, ..SETTING };
    // Both at the same time, so that both have the same machine.
    let calm = thread::spawn(move || Cluster::start(other, &setting()).end());

    let mut cluster = Cluster::start(network, &setting());
    cluster.wait_for_clock(50);
    cluster.wait_for_clock(150);
    let pace = 100.0 / cluster.trained().as_secs_f64();
    let (south, west) = (1, 2);
    cluster.network().cut_way(south, west);
    cluster.network().cut_way(west, south);
    cluster.wait_for_log("server-2", "west pauses: west and south exchange no updates");
    cluster.watch_for(DEAD_FOR);
    cluster.network().heal_way(south, west);
    cluster.network().heal_way(west, south);
    cluster.wait_for_log("server-2", "west resumes: it has received the missed updates of south");
    let (outcome, calm) = (cluster.end(), calm.join().unwrap());

    println!(
        "objective {} of {} without, clocks {:?}, {pace:.1} a second before",
        outcome.objective, calm.objective, outcome.clocks
    );
    assert!(outcome.copies_equal && calm.copies_equal, "{outcome:?}");
    assert!(outcome.objective < 1.05 * calm.objective, "{outcome:?} of {calm:?}");
    let lead = (outcome.clocks[0] - outcome.clocks[west]) as f64;
    let least = 0.5 * pace * DEAD_FOR.as_secs_f64();
    assert!(lead > least, "north did not wait: {lead}, expected {least:.0}, {outcome:?}");
    check_conservation(&outcome);
}

/// How long the link is dead after its data center has paused.
const DEAD_FOR: Duration = Duration::from_secs(25);

#[test]
fn updates_go_around_a_dead_link_and_nobody_waits() {
    if std::env::var_os(soak::SOAK).is_some() {
        return;
    }
    let Some(network) = Network::new("50mbit") else {
        println!("skipped: network namespaces are not allowed here");
        return;
    };
    let mut cluster = Cluster::start(network, &Setting { stop: "clocks = 500".into(), ..SETTING });
    cluster.wait_for_clock(50);
    let (south, west) = (1, 2);
    cluster.network().cut_way(south, west);
    cluster.network().cut_way(west, south);
    cluster.wait_for_log("server-1", "server 0 of south sends to server 0 of west over north");
    cluster.wait_for_log("server-2", "server 0 of west sends to server 0 of south over north");
    let before = cluster.clock();
    cluster.watch_for(Duration::from_secs(8));
    let clocks = cluster.clock() - before;
    assert!(clocks > 20, "the slowest data center has finished {clocks} clocks in 8 s");
    cluster.network().heal_way(south, west);
    cluster.network().heal_way(west, south);
    cluster.wait_for_log("server-1", "server 0 of south sends to server 0 of west directly again");
    cluster.wait_for_log("server-2", "server 0 of west sends to server 0 of south directly again");
    for server in ["server-0", "server-1", "server-2"] {
        let log = cluster.log_of(server);
        assert!(!log.contains("pauses"), "{log}");
        assert!(!log.contains("is disconnected from server"), "{log}");
    }
    let outcome = cluster.end();
    assert!(outcome.copies_equal, "{outcome:?}");
    assert!(outcome.clocks.iter().all(|clocks| *clocks >= 500), "{outcome:?}");
    assert!(outcome.objective < outcome.first_objective, "{outcome:?}");
    check_conservation(&outcome);
}

/// Data centers report sums of what they find of their own copies. Only the coordinator's sends a copy, at the end.
#[test]
fn an_evaluation_moves_no_copy_between_data_centers() {
    if std::env::var_os(soak::SOAK).is_some() {
        return;
    }
    let (Some(network), Some(other)) = (Network::new("50mbit"), Network::new("50mbit")) else {
        println!("skipped: network namespaces are not allowed here");
        return;
    };
    let start = |network, evaluate_every| {
        let stop = "clocks = 100".into();
        let data = Data::Ratings { users: 4000, items: 4000 };
        let setting = Setting { stop, data, evaluate_every, ..SETTING };
        Cluster::start(network, &setting)
    };
    let rarely = thread::spawn(move || start(other, 100).end());
    let (often, rarely) = (start(network, 1).end(), rarely.join().unwrap());

    assert!(often.evaluations > 20 * rarely.evaluations, "{often:?} {rarely:?}");
    for (dc, name) in DATA_CENTERS.iter().enumerate().skip(1) {
        let [often_sent, rarely_sent] = [&often, &rarely].map(|outcome| outcome.sent_bytes[dc]);
        println!(
            "{name} sent {often_sent} B with {} evaluations and {rarely_sent} B with {}; a copy has {} B",
            often.evaluations, rarely.evaluations, often.copy_bytes
        );
        // Two runs differ by some copies' worth of updates, however often they evaluate.
        let evaluations = (often.evaluations - rarely.evaluations) as u64;
        let most = rarely_sent + evaluations * often.copy_bytes / 10;
        assert!(often_sent < most, "{often:?} {rarely:?}");
    }
}
