//! The remote models that are compared, each with a few settings.

use std::time::Duration;

use super::SECONDS_MAX;
use super::exchange::{Changes, Exchange};
use super::facts::clock_factors;
use gaia_config::{ConfigError, Decision, Plan, RunFile};
use gaia_core::sync::{LocalStepsConfig, Outer, Overlap, RemoteSync};
use gaia_core::types::ModelLayout;

/// A remote model with settings.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    /// Its `[sync.remote]`, one `key = value` each. Empty of the run file's own.
    pub(crate) settings: Vec<String>,
    /// Whether the run file has it.
    pub(crate) is_own: bool,
    /// The run with it, or why the run file cannot have it.
    pub(crate) plan: Result<Plan, ConfigError>,
}

/// A line of the table of candidates: a name, and the lines of its `[sync.remote]`.
struct Entry(&'static str, &'static [&'static str]);

/// Every candidate. Those that come to the same settings in a run are simulated once.
const CANDIDATES: [Entry; 18] = [
    Entry("bsp", &["model = \"bsp\""]),
    Entry("ssp 1", &["model = \"ssp\"", "staleness = 1"]),
    Entry("tap", &["model = \"tap\""]),
    Entry("asp", &["model = \"asp\""]),
    Entry("asp, guard", &["model = \"asp\"", GUARD]),
    Entry("rounds", &[ROUNDS]),
    Entry("rounds, quorum", &[ROUNDS, ALL_BUT_THE_SLOWEST]),
    Entry("rounds 2", &[ROUNDS, "steps = 2"]),
    Entry("rounds, 10 %", &[ROUNDS, "density = 0.1", "total_density = 0.1"]),
    Entry("rounds, 3 %", &[ROUNDS, "density = 0.03", "total_density = 0.1"]),
    Entry("rounds 4, drift", &[ROUNDS, "steps = 4", NO_OVERLAP, DRIFT]),
    Entry("rounds 10", &[ROUNDS, "steps = 10", NO_OVERLAP]),
    Entry("rounds 10, overlap", &[ROUNDS, "steps = 10", LEAST_OVERLAP]),
    Entry("rounds 2, momentum", &[ROUNDS, "steps = 2", NO_OVERLAP, MOMENTUM]),
    Entry("rounds 4, momentum", &[ROUNDS, "steps = 4", NO_OVERLAP, MOMENTUM]),
    Entry("rounds 8, momentum", &[ROUNDS, "steps = 8", NO_OVERLAP, MOMENTUM]),
    Entry("rounds 16, momentum", &[ROUNDS, "steps = 16", NO_OVERLAP, MOMENTUM]),
    Entry("rounds 32, overlap", &[ROUNDS, "steps = 32", LEAST_OVERLAP]),
];

/// Lines that several candidates have.
const ROUNDS: &str = "model = \"local-steps\"";
const NO_OVERLAP: &str = "overlap = 0";
const MOMENTUM: &str = "outer_momentum = 0.9";
const DRIFT: &str = "drift_correction = 0.5";

/// Measures nothing of a script's copies.
const GUARD: &str = "guard = {}";

/// Stands for the least overlap that hides a round, which is a number once the run is known.
const LEAST_OVERLAP: &str = "overlap = LEAST";

/// Stands for the share of the data centers that a round waits for, which is a number once their number is known.
const ALL_BUT_THE_SLOWEST: &str = "quorum = SHARE";

/// The candidates for a run, the run file's own first. `layout` is that of the model, `clock` the time of a clock without
/// communication between data centers.
///
/// # Errors
/// The first mistake in the run file.
pub(crate) fn candidates(
    file: &RunFile,
    layout: &ModelLayout,
    clock: Duration,
) -> Result<Vec<Candidate>, ConfigError> {
    let own = file.plan()?;
    let is_script = own.external().is_some();
    let adds_up = match &own.app {
        Some(app) => app.deltas_are_counts(),
        None => false,
    };
    let topology = own.topology.clone();
    let format = LocalStepsConfig::default().values_for(layout);
    let dense = Changes { parameters: layout.parameters(), part: 1.0, total: 1.0, format };
    let round = Duration::from_secs_f64(Exchange::of(&topology).round_s(&dense).min(SECONDS_MAX));
    let factors = clock_factors(&own);
    let is_uneven = factors.iter().any(|factor| *factor != factors[0]);
    let leaves_out_the_slow = is_uneven && topology.data_centers.len() >= QUORUM_OF_AT_LEAST;
    let mut known = Vec::new();
    if own.decision != Decision::Open {
        known.push(Candidate {
            name: format!("the run file's {}", own.remote.name()),
            settings: Vec::new(),
            is_own: true,
            plan: Ok(own),
        });
    }

    for Entry(name, lines) in CANDIDATES {
        let mut settings: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        if let Some(overlap) = settings.iter_mut().find(|line| *line == LEAST_OVERLAP) {
            let steps = steps_of(lines);
            *overlap = format!("overlap = {}", least_overlap(round, clock, steps));
        }
        let quorum = settings.iter_mut().find(|line| *line == ALL_BUT_THE_SLOWEST);
        let has_quorum = quorum.is_some();
        if let Some(quorum) = quorum {
            *quorum = format!("quorum = {}", quorum_share(topology.data_centers.len()));
        }
        // One data center has no rounds, no mirrors and no guard. The guard measures nothing of a script's copies, and
        // where changes add up there is no outer momentum and no drift correction. Where all data centers are as fast
        // none is left out.
        let is_alone = topology.links.is_empty() && (lines[0] == ROUNDS || *name != *"bsp");
        let has_no_effect = (is_script && lines.contains(&GUARD))
            || (adds_up && (lines.contains(&MOMENTUM) || lines.contains(&DRIFT)))
            || (has_quorum && !leaves_out_the_slow);
        if is_alone || has_no_effect {
            continue;
        }

        let pairs: Vec<(&str, &str)> =
            settings.iter().filter_map(|line| line.split_once(" = ")).collect();
        let plan = file.with_remote_settings(&pairs).and_then(|file| file.plan());
        let same = known.iter_mut().find(|other| is_same(&other.plan, &plan));
        match same {
            Some(own) if own.is_own => (own.name, own.settings) = ((*name).to_owned(), settings),
            Some(_) => {}
            None => {
                known.push(Candidate { name: (*name).into(), settings, is_own: false, plan });
            }
        }
    }

    Ok(known)
}

/// Whether two runs share updates in the same way. Settings that have no effect do not count.
fn is_same(one: &Result<Plan, ConfigError>, other: &Result<Plan, ConfigError>) -> bool {
    let (Ok(one), Ok(other)) = (one, other) else { return false };
    effective(&one.remote) == effective(&other.remote)
}

fn effective(remote: &RemoteSync) -> RemoteSync {
    let mut remote = remote.clone();
    if let RemoteSync::LocalSteps(config) = &mut remote {
        if config.steps == 1 {
            config.overlap = Overlap::Clocks(0);
        }
        if config.outer == Outer::Plain {
            config.outer_momentum = 0.0;
        }
    }
    remote
}

fn steps_of(lines: &[&str]) -> u64 {
    let steps = lines.iter().find_map(|line| line.strip_prefix("steps = "));
    steps
        .and_then(|steps| steps.parse().ok())
        .expect("a line of the table that has an overlap has steps")
}

/// The share of so many data centers that a round waits for: all but a quarter of them, and all but one of three.
fn quorum_share(data_centers: usize) -> f64 {
    if data_centers == QUORUM_OF_AT_LEAST { 0.66 } else { 0.75 }
}

/// Of two data centers a quorum is both, or the round of one alone.
const QUORUM_OF_AT_LEAST: usize = 3;

/// The fewest clocks that hide a round: none where a round takes no more than [`UNNOTICED`] of the time between rounds.
pub(crate) fn least_overlap(round: Duration, clock: Duration, steps: u64) -> u64 {
    let (round, clock) = (round.as_secs_f64(), clock.as_secs_f64());
    if round <= UNNOTICED * clock * steps as f64 {
        return 0;
    }
    let clocks = if clock > 0.0 { (round / clock).ceil() } else { f64::INFINITY };
    (clocks as u64).min(steps - 1)
}

/// A round that takes this share of the time between rounds needs no overlap.
const UNNOTICED: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_config::Override;
    use gaia_core::types::TableLayout;

    /// The settings of the candidates with a quorum, for a run over this topology with these factors on its clocks.
    fn quorums(topology: &str, slowdown: &str) -> Vec<String> {
        let text = format!(
            "name = \"run\"\ndriver = \"simulated\"\nstop.clocks = 1\n[app]\nkind = \"perceptron\"\n\
             [topology]\nfile = \"{topology}\"\n[sync.remote]\nmodel = \"bsp\""
        );
        let slowdown = Override::parse(&format!("compute.slowdown={slowdown}")).unwrap();
        let file = RunFile::from_text("run.toml", &text, &[slowdown]).unwrap();
        let layout =
            ModelLayout::new(vec![TableLayout { name: "weights".into(), rows: 4, width: 1 }]);
        let all = candidates(&file, &layout, Duration::from_millis(100)).unwrap();
        let of_quorums = all.into_iter().filter(|one| one.name == "rounds, quorum");
        of_quorums
            .map(|one| {
                let RemoteSync::LocalSteps(config) = one.plan.unwrap().remote else {
                    panic!("{} has rounds", one.name)
                };
                assert!(config.has_quorum());
                one.settings.join("\n")
            })
            .collect()
    }

    #[test]
    fn rounds_may_leave_out_the_slow_where_a_data_center_of_three_or_more_is_slower() {
        let none: [String; 0] = [];
        let slow = "{ virginia = 4.0 }";
        let with = |share: &str| [format!("model = \"local-steps\"\nquorum = {share}")];
        assert_eq!(quorums("three-regions", slow), with("0.66"));
        assert_eq!(quorums("gaia-2016-ec2-all", slow), with("0.75"));
        assert_eq!(quorums("gaia-2016-vc", slow), none, "of two data centers");
        assert_eq!(quorums("three-regions", "{}"), none, "where all are as fast");
        let all = "{ virginia = 4.0, ireland = 4.0, tokyo = 4.0 }";
        assert_eq!(quorums("three-regions", all), none, "where all are as slow");
        assert_eq!(quorums("lan", "{}"), none, "in one data center");
    }

    #[test]
    fn a_quorum_never_waits_for_the_slowest_of_all() {
        for data_centers in QUORUM_OF_AT_LEAST..64 {
            let quorum = quorum_share(data_centers);
            let config = LocalStepsConfig { quorum, ..LocalStepsConfig::default() };
            let needed = config.quorum_of(data_centers);
            assert!(needed < data_centers && 2 * needed > data_centers, "{data_centers}");
        }
    }

    #[test]
    fn a_round_is_overlapped_by_as_few_clocks_as_hide_it() {
        let (ms, check) =
            (Duration::from_millis, |round, clock, steps| least_overlap(round, clock, steps));
        assert_eq!(check(ms(2), ms(10), 10), 0, "3 % of the time between rounds is not noticed");
        assert_eq!(check(ms(5), ms(10), 10), 1);
        assert_eq!(check(ms(31), ms(10), 10), 4);
        assert_eq!(check(ms(1_000), ms(10), 10), 9, "below the steps");
        assert_eq!(check(ms(1), ms(0), 4), 3);
    }
}
