//! What `gaia report` reads of a run directory, which may come from elsewhere, and the pages that it makes of that: the
//! summary, a zero byte, the lines of progress.

use gaia_core::sync::{AspConfig, Axes, RemoteSync};
use gaia_report::{Comparison, Paint, RunDirectory, comparison_block, run_block, write_run_pages};
use gaia_telemetry::{
    BlockedSeconds, BrakeRecord, DcProgress, EvaluatedOn, InitialRecord, LinkRecord, MetricRecord,
    Progress, Summary, TrivialRecord,
};

use super::files::{check_error, in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "run_directory", check, seeds };

fn check(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (summary, progress) = (parts.next().unwrap_or(&[]), parts.next().unwrap_or(&[]));
    in_folder(|folder| {
        write(folder, "summary.json", summary);
        write(folder, "progress.jsonl", progress);
        let directory = RunDirectory::open(folder).expect("it has a summary");
        match directory.read() {
            Ok(run) => {
                write_run_pages(&directory, &run.run_toml, &run.progress, &run.summary, &[])
                    .expect("room for pages");
                assert!(!run_block(&run.summary, &[], Paint::Plain).is_empty());
                let twice =
                    vec![(run.summary.clone(), run.progress.clone()), (run.summary, run.progress)];
                let comparison = Comparison::new(twice);
                assert!(!comparison_block(&comparison, None, Paint::Plain).is_empty());
            }
            Err(error) => check_error(&error, &folder.join("any")),
        }
    });
}

fn seeds() -> Vec<Seed> {
    let lines: Vec<String> =
        (0..4).map(|clock| serde_json::to_string(&progress(clock)).expect("plain data")).collect();
    let seed = |summary: &Summary, lines: &str| {
        let summary = serde_json::to_string(summary).expect("plain data");
        [summary.as_bytes(), b"\0", lines.as_bytes()].concat()
    };
    let stopped = Summary {
        converged: false,
        target_objective: None,
        time_to_target_s: None,
        objective: f64::INFINITY,
        links: Vec::new(),
        ..summary()
    };
    vec![
        ("converged", seed(&summary(), &lines.join("\n"))),
        ("diverged", seed(&stopped, &lines[0])),
        ("no-progress", seed(&summary(), "")),
    ]
}

fn progress(clock: u64) -> Progress {
    let objective = 1.0 / (1.0 + clock as f64);
    let dc = |name: &str| DcProgress {
        name: name.into(),
        clock,
        objective,
        metric: 0.5,
        wan_sent_bytes: 1000 * clock,
        blocked_s: 0.25 * clock as f64,
        ..DcProgress::default()
    };
    Progress {
        time_s: clock as f64,
        clock,
        objective,
        objective_mean: objective,
        metric: 0.5,
        wan_bytes: 2000 * clock,
        data_centers: vec![dc("north"), dc("south")],
    }
}

fn summary() -> Summary {
    let blocked_s = BlockedSeconds {
        barrier: 1.0,
        mirror_clock: 0.0,
        bandwidth: 2.0,
        local: 0.5,
        partial_partition: 0.0,
    };
    let link = |from: &str, to: &str| LinkRecord {
        from: from.into(),
        to: to.into(),
        bandwidth_bits_per_second: 1e8,
        rtt_ms: 80.0,
        bytes: 3000,
        relayed_bytes: 0,
        control_bytes: 100,
        frames: 7,
        updates: 90,
        held_back_fraction: 0.5,
        utilisation: 0.25,
        blocked_s,
        cost_usd: 0.01,
    };
    Summary {
        name: "seed".into(),
        app: "matrix-factorization".into(),
        trained_on: "ratings.csv".into(),
        data_digest: Some("0123456789abcdef".into()),
        driver: "simulated".into(),
        seed: 7,
        version: "0.1.0".into(),
        local_sync: "bsp".into(),
        remote_sync: "asp".into(),
        axes: Some(Axes::of(&RemoteSync::Asp(AspConfig::default()))),
        remote_sync_reason: None,
        wan: "pair".into(),
        bandwidth_scale: 1.0,
        data_centers: vec!["north".into(), "south".into()],
        servers: 2,
        workers: 4,
        parameters: 1000,
        converged: true,
        diverged: None,
        evaluated: EvaluatedOn::Everywhere,
        at_home: Vec::new(),
        stopped_by: "objective".into(),
        target_objective: Some(0.3),
        time_to_target_s: Some(3.0),
        clocks_to_target: Some(3),
        wan_bytes_to_target: Some(6000),
        time_s: 3.5,
        clocks: 3,
        data_center_clocks: Vec::new(),
        objective: 0.25,
        metric: MetricRecord { name: "rmse".into(), value: 0.5 },
        breakdown: None,
        initial: Some(InitialRecord { objective: 1.5, metric: 1.25 }),
        trivial: Some(TrivialRecord {
            name: "mean rating".into(),
            objective: 1.0,
            metric: 1.0,
            error_removed: 0.5,
        }),
        wan_bytes: 6000,
        wan_cost_usd: 0.02,
        machine_cost_usd: 0.0,
        lan_bytes: 90_000,
        significant_fraction: 0.4,
        blocked_s,
        clock_lag_max: 1,
        brakes: BrakeRecord::default(),
        outliers: Vec::new(),
        guard: None,
        parted: None,
        membership: Vec::new(),
        conservation: None,
        copies_equal: true,
        links: vec![link("north", "south"), link("south", "north")],
        wall_s: 0.1,
    }
}
