//! Claims of other systems for distributed training, each checked here in simulation where that is possible.
//!
//! This room decides which claims are checked, how, and what decides a verdict. A check measures: of a claim it holds
//! what was printed, and nothing of what is expected here. Each claim is a part of its own, which only this file names.

mod cluster;
mod delay;
mod quorum;
mod ring;
mod servers;
mod sized;
mod sketch;
mod sparse;
mod unchecked;

use super::EvaluationError;
use super::bench::{Bench, Finished, in_parallel};
use super::suite::{App, Changes, SystemsSuite};
use gaia_config::{Override, Plan};
use gaia_report::paper::{SystemFigure, SystemRow, SystemUnit};

/// What a check has to work with.
struct Context<'c, 'w> {
    suite: SystemsSuite,
    changes: &'c Changes,
    bench: &'c Bench<'w>,
}

/// A claim and its check, or several that share their runs.
type Check = fn(&Context<'_, '_>) -> Result<Checked, EvaluationError>;

/// What a check came to.
struct Checked {
    rows: Vec<SystemRow>,
    /// The runs that a run file repeats.
    runs: Vec<Finished>,
}

/// Checks all claims, independent ones in parallel.
pub(super) fn check(
    suite: SystemsSuite,
    changes: &Changes,
    bench: &Bench<'_>,
) -> Result<(Vec<SystemRow>, Vec<Finished>), EvaluationError> {
    let context = Context { suite, changes, bench };
    let checked = in_parallel(&CHECKS, |check| check(&context))?;

    let (mut rows, mut runs) = (Vec::new(), Vec::new());
    for checked in checked {
        rows.extend(checked.rows);
        runs.extend(checked.runs);
    }
    rows.extend(unchecked::rows());
    Ok((rows, runs))
}

/// Checks settings in the plans of the applications that run files describe.
pub(super) fn check_settings(changes: &Changes) -> Result<(), EvaluationError> {
    for app in [quorum::APP, delay::APP, sparse::APP] {
        app.own_plan(&[], changes)?;
    }
    Ok(())
}

impl Context<'_, '_> {
    /// The plan of a check's application, under a name of its own among the run files.
    fn plan(&self, app: &App, name: &str, settings: &[Override]) -> Result<Plan, EvaluationError> {
        let plan = app.own_plan(settings, self.changes)?;
        Ok(Plan { name: format!("systems-{name}"), ..plan })
    }

    /// Executes a run of a run file's application.
    fn run(&self, plan: &Plan) -> Result<Finished, EvaluationError> {
        self.bench.expect(1);
        self.bench.run(plan)
    }
}

const CHECKS: [Check; 8] = [
    quorum::check,
    delay::check,
    ring::check,
    ring::check_wan,
    sparse::check,
    sketch::check,
    cluster::check,
    servers::check,
];

/// A figure that nobody printed and no formula gives.
fn measured(what: impl Into<String>, unit: SystemUnit, measured: f64) -> SystemFigure {
    SystemFigure { what: what.into(), unit, printed: None, computed: None, measured }
}
