//! A campaign: many schedules and their results.

mod shrink;

use rayon::prelude::*;
use serde::Serialize;

use crate::{Counts, Run, Scenario, Violation, run};
use gaia_core::types::Instant;

pub use shrink::shrink;

/// The results of the schedules so far.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    schedules: u64,
    counts: Counts,
    virtual_s: f64,
    failures: Vec<Failure>,
}

/// The result of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The number of schedules.
    pub schedules: u64,
    /// The virtual time of all schedules, in seconds.
    pub virtual_s: f64,
    /// The number of faults in all schedules.
    pub faults: Counts,
    /// The schedules that violated an invariant, in the order in which they were run.
    pub failures: Vec<Failure>,
}

/// A schedule that violated an invariant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// The schedule.
    pub scenario: Scenario,
    /// The first invariant that it broke.
    pub violation: Violation,
    /// The shortest schedule found that violates the same invariant.
    pub shortest: Scenario,
    /// How that schedule violates the invariant.
    pub shortest_violation: Violation,
}

impl Campaign {
    /// Runs schedules on all cores, and searches a shorter one for each that fails. The results do not depend on the
    /// number of cores.
    pub fn run_all(&mut self, scenarios: &[Scenario]) {
        let runs: Vec<Run> = scenarios.par_iter().map(|scenario| run(scenario, None)).collect();
        for (scenario, run) in scenarios.iter().zip(runs) {
            self.add(scenario, run);
        }
    }

    fn add(&mut self, scenario: &Scenario, done: Run) {
        self.schedules += 1;
        self.counts += done.counts;
        self.virtual_s += done.lasted.since(Instant::ZERO).as_secs_f64();
        if let Some(violation) = done.broken {
            let (shortest, shortest_violation) = shrink(scenario, &violation, None, SHRINK_RUNS);
            let scenario = scenario.clone();
            self.failures.push(Failure { scenario, violation, shortest, shortest_violation });
        }
    }

    /// The results of all schedules so far.
    pub fn report(&self) -> Report {
        Report {
            schedules: self.schedules,
            virtual_s: self.virtual_s,
            faults: self.counts,
            failures: self.failures.clone(),
        }
    }
}

impl Report {
    /// The report as lines of text. `command` is the command that repeats a schedule, without the seed.
    pub fn lines(&self, command: &str) -> Vec<String> {
        let Counts { messages, packet, structural, recovery, refused, reconnects } = self.faults;
        let mut lines = vec![
            format!(
                "{} schedules, {:.0} s of virtual time, {messages} messages",
                self.schedules, self.virtual_s
            ),
            format!("  structural faults  {}: {}", structural.total(), listed(&structural.named())),
            format!("  packet faults      {}: {}", packet.total(), listed(&packet.named())),
            format!("  sessions           {reconnects} reconnects, {refused} messages refused"),
            format!(
                "  recovery           {} restarts, {} of workers without their state, {} torn logs, {} checkpoints, {} inputs replaced by one",
                recovery.restarts,
                recovery.blank,
                recovery.torn,
                recovery.checkpoints,
                recovery.replaced
            ),
        ];

        for failure in &self.failures {
            let Failure { scenario, violation, shortest, shortest_violation } = failure;
            lines.push(String::new());
            lines.push(format!("seed {} violates {}", scenario.seed, describe(violation)));
            lines.push(format!("repeat with: {command} --seed {}", scenario.seed));
            lines.push("scenario:".into());
            lines.extend(indented(scenario));
            lines.push(format!(
                "shortest found, as a scenario file: {}",
                describe(shortest_violation)
            ));
            lines.extend(indented(shortest));
        }

        let failures = self.failures.len();
        lines.push(if failures == 0 {
            "no invariant was violated".into()
        } else {
            format!("{failures} of {} schedules violated an invariant", self.schedules)
        });

        lines
    }
}

fn listed(counts: &[(u64, &'static str)]) -> String {
    let counts = counts.iter().map(|(count, what)| format!("{count} {what}"));
    counts.collect::<Vec<_>>().join(", ")
}

fn describe(violation: &Violation) -> String {
    format!("{} at {:.6} s: {}", violation.checker, violation.at_s, violation.what)
}

fn indented(scenario: &Scenario) -> Vec<String> {
    scenario.to_text().lines().map(|line| format!("    {line}")).collect()
}

/// The largest number of schedules that are tried to shorten a failing one.
const SHRINK_RUNS: usize = 200;
