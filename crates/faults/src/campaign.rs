//! Many schedules, one after the other, and what they came to.

use rayon::prelude::*;
use serde::Serialize;

use super::{Counts, Run, Scenario, Violation, run, shrink};
use gaia_core::types::Instant;

/// What the schedules so far came to.
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
    pub schedules: u64,
    /// Virtual time that all of them took, in seconds.
    pub virtual_s: f64,
    pub faults: Counts,
    pub failures: Vec<Failure>,
}

/// A schedule that broke a promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    pub scenario: Scenario,
    pub violation: Violation,
    /// The shortest schedule found that breaks the same promise, and how.
    pub shortest: Scenario,
    pub shortest_violation: Violation,
}

impl Campaign {
    /// Runs schedules on all cores, and where one fails looks for a shorter one. What comes of it does not depend on how
    /// many cores there are.
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
    /// The result in lines for people. `command` is what ran it, but for the seed.
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
                "  recovery           {} restarts, {} of workers without their state, {} torn logs, {} checkpoints",
                recovery.restarts, recovery.blank, recovery.torn, recovery.checkpoints
            ),
        ];

        for failure in &self.failures {
            let Failure { scenario, violation, shortest, shortest_violation } = failure;
            lines.push(String::new());
            lines.push(format!("seed {} breaks {}", scenario.seed, told(violation)));
            lines.push(format!("again with: {command} --seed {}", scenario.seed));
            lines.push("drawn:".into());
            lines.extend(indented(scenario));
            lines.push(format!("shortest found, as a scenario file: {}", told(shortest_violation)));
            lines.extend(indented(shortest));
        }

        let failures = self.failures.len();
        lines.push(if failures == 0 {
            "no promise was broken".into()
        } else {
            format!("{failures} of {} schedules broke a promise", self.schedules)
        });

        lines
    }
}

fn listed(counts: &[(u64, &'static str)]) -> String {
    let counts = counts.iter().map(|(count, what)| format!("{count} {what}"));
    counts.collect::<Vec<_>>().join(", ")
}

fn told(violation: &Violation) -> String {
    format!("{} at {:.6} s: {}", violation.checker, violation.at_s, violation.what)
}

fn indented(scenario: &Scenario) -> Vec<String> {
    scenario.to_text().lines().map(|line| format!("    {line}")).collect()
}

/// Schedules tried to make a failing one shorter.
const SHRINK_RUNS: usize = 200;
