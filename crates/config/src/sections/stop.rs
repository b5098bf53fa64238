//! `[stop]`: when a run ends.

use crate::document::Problem;
use crate::range::{self, Checks};
use gaia_core::coordinator::{Held, StopRules};

/// Checks every rule, and that there is one.
pub(crate) fn stop(checks: &Checks<'_>, stop: &StopRules) -> Result<(), Problem> {
    if let Some(objective) = stop.objective {
        checks.number("stop.objective", objective, range::OBJECTIVE)?;
    }

    if let Some(clocks) = stop.clocks {
        checks.clocks("stop.clocks", clocks, 1)?;
    }

    if let Some(seconds) = stop.seconds {
        checks.number("stop.seconds", seconds, range::SECONDS)?;
    }

    if let Some(change) = stop.change {
        checks.number("stop.change.percent", change.percent, range::PERCENT)?;
        if let Some(clocks) = change.clocks {
            checks.clocks("stop.change.clocks", clocks, 1)?;
        }
    }

    let StopRules { held, .. } = *stop;
    if !(1..=HELD_MAX).contains(&held.0) {
        let expected = format!("a whole number, 1 to {HELD_MAX}");
        return Err(checks.wrong("stop.held", held.0, expected));
    }

    if held != Held::default() && stop.objective.is_none() {
        let expected = "`objective` beside it, which these evaluations must hold";
        return Err(checks.wrong("stop.held", held.0, expected));
    }

    if *stop == (StopRules { held, ..StopRules::default() }) {
        let expected = "at least one of `objective`, `clocks`, `seconds` or `change`".to_owned();
        return Err(checks.found("stop", "empty".into(), expected));
    }

    Ok(())
}

/// More would average over much of a run.
const HELD_MAX: u64 = 100;
