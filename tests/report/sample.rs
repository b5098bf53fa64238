//! Made-up runs that look like real ones.

use gaia_core::sync::{Axes, Communication, Optimisation, Parallelism, Scheduling};
use gaia_telemetry::{
    BlockedSeconds, BrakeRecord, DcProgress, EvaluatedOn, InitialRecord, LinkRecord, MetricRecord,
    Progress, Summary, TrivialRecord, WaitedRecord,
};

pub(crate) const ELEVEN: [&str; 11] = [
    "virginia",
    "california",
    "oregon",
    "ireland",
    "frankfurt",
    "tokyo",
    "seoul",
    "singapore",
    "sydney",
    "mumbai",
    "saopaulo",
];
pub(crate) const THREE: [&str; 3] = ["virginia", "ireland", "tokyo"];

pub(crate) const RUN_TOML: &str = r#"name = "movielens"
seed = 42
driver = "simulated"

[app]
kind = "matrix-factorization"
rank = 16
[app.data]
source = "movielens"
path = "data/ml-latest-small/ratings.csv"

[topology]
file = "../topology/gaia-2016-ec2-all.toml"
bandwidth_scale = 0.05

[sync.remote]
model = "asp"
threshold = 0.01   # < 1 % stays at home & is sent later
"#;

/// How a made-up run goes.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) remote: &'static str,
    pub(crate) wan: &'static str,
    pub(crate) data_centers: &'static [&'static str],
    /// Seconds a clock takes.
    pub(crate) clock_s: f64,
    /// Bytes a clock sends over all links.
    pub(crate) clock_bytes: u64,
    /// How much more slowly this run learns a clock.
    pub(crate) drag: f64,
    pub(crate) blocked: BlockedSeconds,
    pub(crate) reaches: bool,
}

pub(crate) const LAN_BSP: Shape = Shape {
    remote: "bsp",
    wan: "lan",
    data_centers: &["lan"],
    clock_s: 0.105,
    clock_bytes: 0,
    drag: 1.0,
    blocked: BlockedSeconds {
        barrier: 0.0,
        mirror_clock: 0.0,
        bandwidth: 0.0,
        local: 3.1,
        partial_partition: 0.0,
    },
    reaches: true,
};
pub(crate) const WAN_BSP: Shape = Shape {
    remote: "bsp",
    wan: "gaia-2016-ec2-all",
    data_centers: &ELEVEN,
    clock_s: 0.49,
    clock_bytes: 2_310_000,
    drag: 1.0,
    blocked: BlockedSeconds {
        barrier: 0.0,
        mirror_clock: 0.0,
        bandwidth: 981.0,
        local: 12.2,
        partial_partition: 0.0,
    },
    reaches: true,
};
pub(crate) const WAN_SSP: Shape = Shape {
    remote: "ssp",
    clock_s: 0.43,
    drag: 1.12,
    blocked: BlockedSeconds {
        barrier: 0.0,
        mirror_clock: 0.0,
        bandwidth: 844.0,
        local: 15.0,
        partial_partition: 0.0,
    },
    ..WAN_BSP
};
pub(crate) const WAN_TAP: Shape = Shape {
    remote: "tap",
    clock_s: 0.11,
    drag: 3.0,
    blocked: BlockedSeconds {
        barrier: 0.0,
        mirror_clock: 0.0,
        bandwidth: 0.0,
        local: 15.0,
        partial_partition: 0.0,
    },
    reaches: false,
    ..WAN_BSP
};
pub(crate) const WAN_ASP: Shape = Shape {
    remote: "asp",
    clock_s: 0.112,
    clock_bytes: 121_000,
    drag: 1.06,
    blocked: BlockedSeconds {
        barrier: 4.2,
        mirror_clock: 22.7,
        bandwidth: 0.0,
        local: 14.1,
        partial_partition: 0.0,
    },
    ..WAN_BSP
};
pub(crate) const THREE_ASP: Shape = Shape {
    wan: "three-regions",
    data_centers: &THREE,
    blocked: BlockedSeconds {
        barrier: 0.42,
        mirror_clock: 2.27,
        bandwidth: 0.0,
        local: 1.1,
        partial_partition: 0.0,
    },
    ..WAN_ASP
};

/// An evaluation every fifth clock, until the target or 200 clocks.
pub(crate) fn run(shape: Shape) -> (Summary, Vec<Progress>) {
    let mut progress = Vec::new();
    let last = (0..=MAX_CLOCK / EVERY)
        .map(|at| at * EVERY)
        .find(|clock| shape.reaches && objective(shape, *clock, 0) <= TARGET)
        .unwrap_or(MAX_CLOCK);
    for clock in (0..=last).step_by(EVERY as usize) {
        progress.push(evaluation(shape, clock, last));
    }
    let summary = summary(shape, last, &progress);
    (summary, progress)
}

fn evaluation(shape: Shape, clock: u64, last: u64) -> Progress {
    let time_s = clock as f64 * shape.clock_s;
    let all = shape.data_centers.len();
    let share = if last == 0 { 0.0 } else { clock as f64 / last as f64 };
    let data_centers: Vec<DcProgress> = shape
        .data_centers
        .iter()
        .enumerate()
        .map(|(at, name)| DcProgress {
            name: (*name).into(),
            clock: clock + (at as u64 * 7) % 5,
            objective: objective(shape, clock, at),
            metric: 0.16 + objective(shape, clock, at),
            wan_sent_bytes: clock * shape.clock_bytes / all as u64,
            blocked_s: shape.blocked.total() * share / all as f64,
            waited: waited(shape, at, share),
            sent_bytes: shape
                .data_centers
                .iter()
                .filter(|to| *to != name)
                .map(|to| ((*to).to_owned(), clock * shape.clock_bytes / (all * (all - 1)) as u64))
                .collect(),
        })
        .collect();
    let worst = data_centers.iter().map(|dc| dc.objective).fold(0.0, f64::max);
    let sum: f64 = data_centers.iter().map(|dc| dc.objective).sum();
    Progress {
        time_s,
        clock,
        objective: worst,
        objective_mean: sum / all as f64,
        metric: 0.16 + worst,
        wan_bytes: clock * shape.clock_bytes,
        data_centers,
    }
}

/// Each data center waits for the one after it, as long as for its own workers.
fn waited(shape: Shape, dc: usize, share: f64) -> Vec<WaitedRecord> {
    let all = shape.data_centers.len();
    let next = shape.data_centers[(dc + 1) % all];
    let BlockedSeconds { barrier, mirror_clock, bandwidth, local, .. } = shape.blocked;
    let causes = [
        ("local", None, local),
        ("barrier", Some(next), barrier),
        ("mirror_clock", Some(next), mirror_clock),
        ("bandwidth", Some(next), bandwidth),
    ];
    let record = |(cause, from, seconds): (&str, Option<&str>, f64)| WaitedRecord {
        cause: cause.into(),
        from: from.map(str::to_owned),
        seconds: seconds * share / all as f64,
    };
    causes.into_iter().filter(|(_, _, seconds)| *seconds > 0.0).map(record).collect()
}

/// Falls from 1.62; copies that are further along are a little better.
fn objective(shape: Shape, clock: u64, dc: usize) -> f64 {
    let c = clock as f64 / shape.drag;
    let floor = if shape.reaches { 0.69 } else { 0.76 };
    let wobble = 0.004 * (c * 0.7).sin() * (-c / 60.0).exp();
    let spread = 0.012 * dc as f64 * (-c / 40.0).exp() / shape.data_centers.len() as f64;
    floor + 0.93 * (-c / 28.0).exp() + wobble - spread * (clock > 0) as u8 as f64
}

fn summary(shape: Shape, last: u64, progress: &[Progress]) -> Summary {
    let end = progress.last().expect("a run has an evaluation");
    let all = shape.data_centers.len();
    let reached = shape.reaches && end.objective <= TARGET;
    let links = links(shape, last, end.time_s);
    Summary {
        name: "movielens".into(),
        app: "matrix-factorization".into(),
        trained_on: "matrix factorisation of ratings.csv: 610 users × 9724 items, 90753 ratings and 10083 held out, \
                     103340 parameters"
            .into(),
        data_digest: None,
        driver: "simulated".into(),
        seed: 42,
        version: "0.1.0".into(),
        local_sync: "bsp".into(),
        remote_sync: shape.remote.into(),
        axes: Some(Axes {
            parallelism: Parallelism::Data,
            optimisation: Optimisation::Decentralised,
            scheduling: Scheduling::Bounded,
            communication: Communication::Mesh,
        }),
        remote_sync_reason: None,
        wan: shape.wan.into(),
        bandwidth_scale: if all == 1 { 1.0 } else { 0.05 },
        data_centers: shape.data_centers.iter().map(ToString::to_string).collect(),
        servers: 11,
        workers: 22,
        parameters: 165_344,
        converged: reached,
        stopped_by: match (reached, all) {
            (true, 1) => "converged",
            (true, _) => "objective",
            (false, _) => "clocks",
        }
        .into(),
        diverged: None,
        evaluated: EvaluatedOn::Everywhere,
        at_home: Vec::new(),
        target_objective: Some(TARGET),
        time_to_target_s: reached.then_some(end.time_s),
        clocks_to_target: reached.then_some(last),
        wan_bytes_to_target: reached.then_some(end.wan_bytes),
        time_s: end.time_s,
        clocks: last,
        data_center_clocks: vec![last; all],
        objective: end.objective,
        metric: MetricRecord { name: "rmse".into(), value: end.metric },
        initial: Some(InitialRecord { objective: 1.62, metric: 1.78 }),
        trivial: Some(TrivialRecord {
            name: "mean rating".into(),
            objective: 1.0862,
            metric: 1.0424,
            error_removed: 1.0 - end.metric / 1.0424,
        }),
        breakdown: None,
        wan_bytes: end.wan_bytes,
        machine_cost_usd: 0.0,
        wan_cost_usd: links.iter().map(|link| link.cost_usd).sum(),
        lan_bytes: 1_430_000_000,
        significant_fraction: if shape.remote == "asp" { 0.041 } else { 1.0 },
        blocked_s: shape.blocked,
        clock_lag_max: if shape.remote == "asp" { 6 } else { 1 },
        brakes: BrakeRecord::default(),
        outliers: Vec::new(),
        guard: None,
        parted: None,
        membership: Vec::new(),
        conservation: None,
        copies_equal: true,
        links,
        wall_s: 4.1,
    }
}

fn links(shape: Shape, last: u64, time_s: f64) -> Vec<LinkRecord> {
    let all = shape.data_centers.len();
    let pairs = (0..all).flat_map(|from| (0..all).map(move |to| (from, to)));
    let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
    let count = pairs.len() as f64;
    pairs
        .into_iter()
        .map(|(from, to)| {
            let mbit =
                0.5 + 7.0 / (1.0 + from.abs_diff(to) as f64) + 0.31 * ((from * to) % 4) as f64;
            let even = (last * shape.clock_bytes) as f64 / count;
            let weight = if shape.remote == "asp" { 0.35 + mbit / 5.0 } else { 1.0 };
            let bytes = (even * weight) as u64;
            let busy = bytes as f64 * 8.0 / (mbit * 1e6 * time_s.max(1e-9));
            let share = |seconds: f64| seconds / count * (if mbit < 2.0 { 2.1 } else { 0.4 });
            LinkRecord {
                from: shape.data_centers[from].into(),
                to: shape.data_centers[to].into(),
                bandwidth_bits_per_second: mbit * 1e6,
                rtt_ms: 20.0 + 17.5 * from.abs_diff(to) as f64,
                bytes,
                relayed_bytes: 0,
                control_bytes: bytes / 40,
                frames: bytes / 4_000,
                updates: bytes / 7,
                held_back_fraction: if shape.remote == "asp" { 1.0 - 0.02 * mbit } else { 0.0 },
                utilisation: busy.min(1.0),
                blocked_s: BlockedSeconds {
                    barrier: share(shape.blocked.barrier),
                    mirror_clock: share(shape.blocked.mirror_clock),
                    bandwidth: share(shape.blocked.bandwidth),
                    local: 0.0,
                    partial_partition: 0.0,
                },
                cost_usd: bytes as f64 / 1e9 * if from == 10 { 0.138 } else { 0.02 },
            }
        })
        .collect()
}

const TARGET: f64 = 0.71;
const MAX_CLOCK: u64 = 400;
const EVERY: u64 = 5;
