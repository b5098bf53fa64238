//! `[stop]`: when a run ends.

use crate::document::Problem;
use crate::range::{self, Checks};
use gaia_core::coordinator::StopRules;

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
        checks.clocks("stop.change.clocks", change.clocks, 1)?;
    }

    if *stop == StopRules::default() {
        let expected = "at least one of `objective`, `clocks`, `seconds` or `change`".to_owned();
        return Err(checks.found("stop", "empty".into(), expected));
    }

    Ok(())
}
