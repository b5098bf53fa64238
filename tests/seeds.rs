//! Fifty runs drawn from their seeds: each must keep what Gaia guarantees for any run.
//!
//! A seed draws the model, the topology and the chance of its links and workers. What fails prints the run file
//! that repeats it.

mod runs;

use gaia_core::types::{Random, Seed};
use rand_core::Rng;
use runs::run;

#[test]
fn fifty_seeds_keep_the_promises_of_any_run() {
    for seed in 0..50 {
        check(seed);
    }
}

fn check(seed: u64) {
    let mut draw = Draw(Seed(seed).child("fifty").random());
    let staleness = draw.between(1, 5);
    let remote = draw.one_of(&[
        r#"{ model = "bsp" }"#,
        r#"{ model = "bsp", values = "bf16" }"#,
        r#"{ model = "ssp", staleness = 2 }"#,
        r#"{ model = "tap" }"#,
        r#"{ model = "asp", selective_barrier = "on" }"#,
        r#"{ model = "asp", function = "absolute", values = "f32" }"#,
        r#"{ model = "asp", function = "row-norm", goal = "cost" }"#,
        r#"{ model = "asp", overlay = "groups", values = "int8", soft_threshold = 0.01 }"#,
        r#"{ model = "asp", overlay = "tree", values = "int4", function = "progress" }"#,
        r#"{ model = "asp", policy = "paper", threshold = 0.01 }"#,
        r#"{ model = "asp", values = "int8" }"#,
        r#"{ model = "asp", guard = { every = 2, bound = 0.001 } }"#,
        r#"{ model = "local-steps", steps = 5 }"#,
        r#"{ model = "local-steps", steps = 5, guard = { every = 2, bound = 0.001 } }"#,
        r#"{ model = "local-steps", steps = 3, fragments = 3, overlap = 1, values = "int4" }"#,
        r#"{ model = "local-steps", steps = 4, combine = "mean", outer = "nesterov" }"#,
        r#"{ model = "local-steps", steps = 2, quorum = 0.5, grace = "10 ms" }"#,
    ]);
    let asp = remote.contains("asp");
    let mut settings = vec![
        format!("seed={seed}"),
        "stop.clocks=12".into(),
        "evaluate.every=4".into(),
        format!("sync.remote={remote}"),
        draw.one_of(&["sync.local.model=bsp", r#"sync.local={ model = "ssp", staleness = 1 }"#])
            .into(),
        // Where hubs bring updates, no data center knows what each other one lacks.
        draw.one_of(&[
            "drain.method=mean",
            if remote.contains("overlay") { "drain.method=mean" } else { "drain.method=residuals" },
        ])
        .into(),
        format!(
            "topology.file={}",
            draw.one_of(&["three-regions", "gaia-2016-ss", "gaia-2016-vc"])
        ),
        format!("topology.bandwidth_scale={}", draw.one_of(&["0.3", "0.01", "0.001"])),
        format!("topology.defaults.servers={}", draw.between(1, 4)),
        format!("topology.defaults.workers={}", draw.between(1, 4)),
        format!("topology.wan.loss={}", draw.one_of(&["0.0", "0.0", "0.02"])),
        format!("compute.jitter={}", draw.one_of(&["0.0", "0.1", "0.8"])),
    ];
    if asp {
        settings.push(format!("sync.remote.data_center_staleness={staleness}"));
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let outcome = run(&settings);
    let summary = &outcome.summary;
    let lag = summary.clock_lag_max;
    let context = format!("seed {seed}: {settings:?}");
    assert!(summary.copies_equal, "copies differ after the drain, {context}");
    assert!(!asp || lag <= staleness, "{lag} clocks apart, {context}");
    assert!(summary.objective.is_finite(), "diverged, {context}");
    assert!((0.0..=1.0).contains(&summary.significant_fraction), "{context}");
    assert_eq!(summary.brakes.mirrors_lost, 0, "{context}");
    let sent: u64 = summary.links.iter().map(|link| link.bytes).sum();
    assert_eq!(sent, summary.wan_bytes, "{context}");
}

/// Draws settings from a seed.
struct Draw(Random);

impl Draw {
    fn between(&mut self, from: u64, below: u64) -> u64 {
        from + self.0.next_u64() % (below - from)
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.between(0, choices.len() as u64) as usize]
    }
}
