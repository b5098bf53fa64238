//! The baselines of an application over a WAN: the fitted bandwidth scale, BSP on the LAN, whose objective is the
//! target of all other runs, and BSP over the WAN.

use super::EvaluationError;
use super::bench::{Bench, Finished, in_parallel};
use super::centralize::data_bytes;
use super::published::published;
use super::suite::{App, BSP, Changes, LAN, Suite, WORST, WanSpec};
use gaia_config::{Override, Plan};
use gaia_core::coordinator::{StopReason, StopRules, target_of};
use gaia_planner::{Fit, Reach, bsp_over_lan, fit};
use gaia_report::paper::ScaleRow;

/// An application over a WAN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Experiment<'s> {
    pub(super) app: &'s App,
    pub(super) wan: &'s WanSpec,
    /// Whether the WAN uses the scale of the worst WAN of the paper instead of a fitted one.
    pub(super) elsewhere: bool,
    /// Whether it has rows. Otherwise it is only needed for a scale or a volume of data.
    pub(super) compete: bool,
}

/// An application over a WAN, with its baselines.
#[derive(Clone, Debug)]
pub(super) struct PreparedExperiment<'s> {
    pub(super) experiment: Experiment<'s>,
    pub(super) fit: Fit,
    pub(super) lan: Finished,
    pub(super) bsp: Finished,
    /// The objective at which all runs end, except the one on the LAN.
    pub(super) target: f64,
}

impl Experiment<'_> {
    /// The name of the run of `model`.
    pub(super) fn name(&self, model: &str) -> String {
        let place = if self.elsewhere { "elsewhere-" } else { "" };
        format!("{place}{}-{}-{model}", self.app.name, self.wan.name)
    }

    fn plan(
        &self,
        model: &str,
        scale: f64,
        remote: &[Override],
        changes: &Changes,
    ) -> Result<Plan, EvaluationError> {
        let plan = self.app.plan(self.wan, scale, remote, changes)?;
        Ok(Plan { name: self.name(model), ..plan })
    }
}

impl<'s> PreparedExperiment<'s> {
    /// The plan of a contender. The run ends at the target, or at a limit of clocks and time.
    pub(super) fn plan(
        &self,
        model: &str,
        remote: &[Override],
        changes: &Changes,
    ) -> Result<Plan, EvaluationError> {
        let plan = self.experiment.plan(model, self.fit.scale, remote, changes)?;
        let bsp_s = self.bsp.summary.time_to_target_s.unwrap_or(self.bsp.summary.time_s);
        let stop = StopRules {
            seconds: Some(PATIENCE_TIMES_BSP * bsp_s),
            ..towards(self.target, &self.lan)
        };
        Ok(Plan { stop, ..plan })
    }

    /// The time of BSP on the LAN to the target, in seconds.
    pub(super) fn lan_s(&self) -> f64 {
        self.lan.summary.time_to_target_s.unwrap_or(self.lan.summary.time_s)
    }

    /// The objective of BSP on the LAN after some clocks, or at its end.
    pub(super) fn lan_objective_after(&self, clocks: u64) -> Option<f64> {
        let progress = &self.lan.progress;
        let at = progress.iter().find(|at| at.clock >= clocks).or_else(|| progress.last());
        at.map(|at| at.objective)
    }

    /// The volume of the application's training data in bytes, at the size of the paper's model. `None` if the WAN that
    /// determines it has not been run.
    pub(super) fn data_bytes(&self, all_prepared: &[Self]) -> Option<f64> {
        let worst = all_prepared.iter().find(|prepared| {
            prepared.experiment.app.name == self.experiment.app.name
                && prepared.experiment.is_worst()
        })?;
        Some(data_bytes(self.experiment.app.name, &worst.bsp.plan.topology, WORST, worst.lan_s()))
    }

    pub(super) fn scale_row(&self, all_prepared: &[Self]) -> ScaleRow {
        ScaleRow {
            app: self.experiment.app.name.into(),
            wan: self.experiment.wan.name.into(),
            elsewhere: self.experiment.elsewhere,
            bandwidth_scale: self.fit.scale,
            bsp_over_lan: self.fit.ratio,
            published: self.experiment.published().map(|row| row.lan),
            data_bytes: self.data_bytes(all_prepared).unwrap_or_default(),
        }
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &Finished> {
        [&self.lan, &self.bsp].into_iter()
    }
}

impl Experiment<'_> {
    pub(super) fn published(&self) -> Option<&'static super::Published> {
        published(self.app.name, self.wan.name).filter(|_| !self.elsewhere)
    }

    /// Whether it has rows in the table of the paper's WANs.
    pub(super) fn has_cells(&self) -> bool {
        self.compete && !self.elsewhere
    }

    /// Whether it is a cell of the ablation.
    pub(super) fn is_ablated(&self, suite: &Suite) -> bool {
        self.has_cells() && suite.ablation_cells.contains(&(self.app.name, self.wan.name))
    }

    fn is_worst(&self) -> bool {
        self.wan.name == WORST && !self.elsewhere
    }
}

/// The number of runs of [`prepare`] with notifications.
pub(super) fn runs(experiments: &[Experiment<'_>]) -> usize {
    2 * experiments.len()
}

/// Fits the scales, then runs BSP on each LAN and WAN.
pub(super) fn prepare<'s>(
    suite: &Suite,
    experiments: &[Experiment<'s>],
    changes: &Changes,
    bench: &Bench<'_>,
) -> Result<Vec<PreparedExperiment<'s>>, EvaluationError> {
    let own: Vec<&Experiment<'_>> =
        experiments.iter().filter(|experiment| !experiment.elsewhere).collect();
    let fits = in_parallel(&own, |experiment| {
        Ok((**experiment, own_fit(suite, experiment, changes, bench)?))
    })?;
    let based: Vec<(Experiment<'s>, Fit)> = experiments
        .iter()
        .filter_map(|experiment| {
            let found = fits.iter().find(|(fitted, _)| {
                let same_wan = fitted.wan.name == experiment.wan.name;
                fitted.app.name == experiment.app.name
                    && if experiment.elsewhere { fitted.is_worst() } else { same_wan }
            });
            found.map(|(_, fit)| (*experiment, *fit))
        })
        .collect();

    let lans = in_parallel(&based, |(experiment, fit)| {
        let remote = bsp(suite, experiment, changes)?;
        let plan = experiment.plan(LAN, fit.scale, &remote, changes)?.on_lan();
        let lan = bench.run(&plan)?;
        if lan.summary.was_stopped_by(StopReason::Clocks) {
            let (run, clocks) = (plan.name, lan.summary.clocks);
            return Err(EvaluationError::NotSettled { run, clocks });
        }
        Ok(lan)
    })?;

    let based: Vec<((Experiment<'s>, Fit), Finished)> = based.into_iter().zip(lans).collect();
    in_parallel(&based, |((experiment, fit), lan)| {
        let target =
            target_of(lan.progress.last().map_or(lan.summary.objective, |at| at.objective));
        let lan = &first_passage(lan, target);
        let remote = bsp(suite, experiment, changes)?;
        let mut plan = experiment.plan(BSP, fit.scale, &remote, changes)?;
        plan.stop = towards(target, lan);
        let bsp = bench.run(&plan)?;
        let fit = if experiment.elsewhere {
            let time = |run: &Finished| run.summary.time_to_target_s.unwrap_or(run.summary.time_s);
            Fit { ratio: time(&bsp) / time(lan), ..*fit }
        } else {
            *fit
        };
        Ok(PreparedExperiment { experiment: *experiment, fit, lan: lan.clone(), bsp, target })
    })
}

/// A run, cut off where it first reached the target. If its objective oscillates, it may have reached the target before
/// it converged. So it is measured like the other runs.
fn first_passage(run: &Finished, target: f64) -> Finished {
    let mut run = run.clone();
    if let Some(first) = run.progress.iter().find(|at| at.objective <= target) {
        run.summary.target_objective = Some(target);
        run.summary.time_to_target_s = Some(first.time_s);
        run.summary.clocks_to_target = Some(first.clock);
        run.summary.wan_bytes_to_target = Some(first.wan_bytes);
    }
    run
}

/// The scale at which BSP is slowed down as in the paper. 1 for a WAN that the paper does not have.
fn own_fit(
    suite: &Suite,
    experiment: &Experiment<'_>,
    changes: &Changes,
    bench: &Bench<'_>,
) -> Result<Fit, EvaluationError> {
    let remote = bsp(suite, experiment, changes)?;
    let probe = |plan: &Plan| Ok(bench.probe(plan)?.progress);
    let ratio_at =
        |scale: f64| bsp_over_lan(&experiment.plan(BSP, scale, &remote, changes)?, probe);
    match experiment.published() {
        Some(row) => fit(row.lan, |scale| match ratio_at(scale) {
            // Some link would be slower than any may be.
            Err(EvaluationError::Config(_)) => Ok(None),
            other => other.map(Some),
        }),
        None => Ok(Fit { scale: 1.0, ratio: ratio_at(1.0)?, reach: Reach::Found }),
    }
}

fn bsp(
    suite: &Suite,
    experiment: &Experiment<'_>,
    changes: &Changes,
) -> Result<Vec<Override>, EvaluationError> {
    let contender = suite.contender(BSP);
    let remote = match contender {
        Some(contender) => contender.remote(experiment.app.name, experiment.wan.name, changes)?,
        None => None,
    };
    Ok(remote.unwrap_or_default())
}

/// The stop rules of a run: at the target, or after several times the clocks of BSP on the LAN.
fn towards(target: f64, lan: &Finished) -> StopRules {
    StopRules {
        objective: Some(target),
        clocks: Some(lan.summary.clocks.saturating_mul(PATIENCE_TIMES_LAN)),
        ..StopRules::default()
    }
}

/// A run stops after this many times the LAN's clocks without the target.
const PATIENCE_TIMES_LAN: u64 = 4;
/// A run stops after this many times BSP's time without the target.
const PATIENCE_TIMES_BSP: f64 = 3.0;
