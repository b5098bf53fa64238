//! Shrinks a failing schedule: removes what is not needed for the failure (delta debugging, Zeller and Hildebrandt,
//! IEEE TSE 2002).

use std::time::Duration;

use crate::scenario::{Packets, Scenario};
use crate::{Bug, Violation, run};
use gaia_core::types::DurationSetting;

/// Finds the shortest schedule that violates the same invariant, and returns it with its violation. At most `runs` schedules
/// are tried.
pub fn shrink(
    scenario: &Scenario,
    broken: &Violation,
    bug: Option<Bug>,
    runs: usize,
) -> (Scenario, Violation) {
    let mut best = (scenario.clone(), broken.clone());
    let mut left = runs;
    loop {
        let shorter = shorter(&best.0).into_iter().find_map(|candidate| {
            left = left.checked_sub(1)?;
            let violation = run(&candidate, bug).broken?;
            (violation.checker == broken.checker).then_some((candidate, violation))
        });
        match shorter {
            Some(shorter) => best = shorter,
            None => return best,
        }
    }
}

/// Slightly reduced schedules, those with the largest reduction first.
fn shorter(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Scenario)| {
        let mut changed = scenario.clone();
        change(&mut changed);
        if changed != *scenario {
            all.push(changed);
        }
    };

    let count = scenario.faults.len();
    with(&|shorter| shorter.faults.clear());
    with(&|shorter| shorter.faults.truncate(count / 2));
    with(&|shorter| shorter.faults = shorter.faults.split_off(count / 2));

    for place in 0..count {
        with(&|shorter| {
            shorter.faults.remove(place);
        });
    }

    with(&|shorter| shorter.packets = Packets::default());
    with(&|shorter| shorter.packets.loss = 0.0);
    with(&|shorter| shorter.packets.repetition = 0.0);
    with(&|shorter| shorter.packets.reordering = 0.0);
    with(&|shorter| shorter.packets.damage = 0.0);
    with(&|shorter| shorter.packets.delay = 0.0);
    with(&|shorter| shorter.packets.stale = 0.0);
    with(&|shorter| shorter.clocks = (shorter.clocks / 2).max(1));
    with(&|shorter| shorter.clocks = (shorter.clocks - 1).max(1));
    with(&|shorter| {
        shorter.workers = 1;
        shorter.faults.retain(|fault| fault.worker.is_none_or(|worker| worker == 0));
    });
    with(&|shorter| {
        shorter.servers = 1;
        shorter.faults.retain(|fault| fault.server.is_none_or(|server| server == 0));
    });
    with(&|shorter| shorter.rows = (shorter.rows / 2).max(1));

    for place in 0..count {
        with(&|shorter| {
            let lasts = &mut shorter.faults[place].lasts;
            let millis = (lasts.0 / 2).as_millis() as u64;
            *lasts = DurationSetting(Duration::from_millis(millis));
        });
    }

    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_schedules_name_only_nodes_that_there_are() {
        for seed in 0..100 {
            for scenario in shorter(&Scenario::draw(seed)) {
                let is_there = |number: Option<u16>, count: usize| {
                    number.is_none_or(|number| usize::from(number) < count)
                };
                for fault in &scenario.faults {
                    assert!(is_there(fault.server, scenario.servers), "{}", scenario.to_text());
                    assert!(is_there(fault.worker, scenario.workers), "{}", scenario.to_text());
                }
            }
        }
    }
}
