//! One training over several WANs with several remote models, towards one target.

use std::sync::atomic::{AtomicBool, Ordering};

use gaia_config::{ConfigError, Plan, RunFile};
use gaia_core::coordinator::{Held, StopReason, StopRules, target_of};
use gaia_driver::Outcome;
use gaia_report::{Comparison, held, held_at_the_end};
use gaia_telemetry::Summary;

/// The runs of a comparison, all of them checked before the first one starts.
///
/// The reference is BSP with all machines in one data center. What it holds at its end is the target of every run, its own
/// among them, and all cross it by one rule: the mean of three evaluations.
#[derive(Clone, Debug)]
pub struct ComparisonPlan {
    /// BSP on the LAN, which runs first.
    pub reference: Variant,
    /// The others, WAN by WAN.
    pub variants: Vec<Variant>,
}

/// One run of a comparison.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The WAN: [`LAN`], a shipped topology's name or a file.
    pub wan: String,
    /// The remote model's name, such as `asp`.
    pub remote: String,
    /// The run file's plan with this WAN and this model. It has as many workers as the topology has. The LAN has the machines
    /// of the WANs if those have equally many, and those of the run file's own topology if not.
    pub plan: Plan,
}

impl ComparisonPlan {
    /// Each remote model over each WAN.
    ///
    /// A remote model is named as `[sync.remote] model` names it, or `bsp-ring` or `bsp-tree`. The run file's settings
    /// hold for its own model; the others run with their defaults, and SSP with a staleness of 1. A WAN is [`LAN`], a
    /// shipped topology's name, or a file relative to the working directory. Without any, it is the run file's own.
    ///
    /// # Errors
    /// The first mistake in the run file, or in what it becomes with one of the models or WANs.
    pub fn new(
        file: &RunFile,
        remotes: &[impl AsRef<str>],
        wans: &[impl AsRef<str>],
    ) -> Result<Self, ConfigError> {
        let own = file.plan()?.topology.name;
        let mut names: Vec<&str> = wans.iter().map(AsRef::as_ref).collect();
        if names.is_empty() {
            names.push(&own);
        }

        let mut wans = Vec::new();
        for wan in names {
            let there = if wan == LAN || wan == own { file.clone() } else { file.with_wan(wan)? };
            wans.push((wan, there));
        }
        check_names(file, &wans)?;
        let lan = machines_of_the_lan(file, &wans)?;

        let reference = Variant::new(lan, LAN, BSP)?;
        let mut variants = Vec::new();
        for (wan, there) in &wans {
            let there = if *wan == LAN { lan } else { there };
            for remote in remotes {
                variants.push(Variant::new(there, wan, remote.as_ref())?);
            }
        }
        variants.retain(|variant| !variant.is_reference());

        Ok(Self { reference, variants })
    }

    /// The plans of all runs.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.variants.iter().chain([&self.reference]).map(|variant| &variant.plan)
    }

    /// Carries out the reference, then each variant, and sets what came out side by side.
    ///
    /// `run` trains one variant, which it is given with its final stop rules: a run ends once it holds what BSP on the LAN had
    /// held at its end, or once it has had five times the clocks for it. It may build the application from the variant's
    /// plan, or hand in one of its own. After a run that was interrupted no other begins: the comparison is of those that
    /// there are.
    ///
    /// # Errors
    /// The first error of `run`; what had run before is lost.
    pub fn run<E>(
        &self,
        mut run: impl FnMut(&Variant) -> Result<Outcome, E>,
    ) -> Result<Comparison, E> {
        let outcome = run(&self.reference)?;
        let reached = Reached::by(&outcome);
        let mut runs = vec![(outcome.summary, outcome.progress)];

        for variant in &self.variants {
            let was_interrupted = runs.last().is_some_and(|(summary, _)| is_interrupted(summary));
            let Some(reached) = reached.filter(|_| !was_interrupted) else { break };
            let outcome = run(&reached.as_target_of(variant))?;
            runs.push((outcome.summary, outcome.progress));
        }

        Ok(Comparison::new(runs))
    }

    /// As [`ComparisonPlan::run`], with at most `threads` of the variants at once.
    ///
    /// # Errors
    /// The first error of `run`, in the order of the variants that have begun.
    pub fn run_at_once<E: Send>(
        &self,
        threads: usize,
        run: impl Fn(&Variant) -> Result<Outcome, E> + Sync,
    ) -> Result<Comparison, E> {
        let outcome = run(&self.reference)?;
        let was_interrupted = AtomicBool::new(is_interrupted(&outcome.summary));
        let reached = Reached::by(&outcome);
        let mut runs = vec![(outcome.summary, outcome.progress)];

        if let Some(reached) = reached {
            let others = gaia_driver::in_parallel(&self.variants, threads, |variant| {
                if was_interrupted.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let outcome = run(&reached.as_target_of(variant))?;
                was_interrupted.fetch_or(is_interrupted(&outcome.summary), Ordering::Relaxed);
                Ok(Some((outcome.summary, outcome.progress)))
            })?;
            runs.extend(others.into_iter().flatten());
        }

        Ok(Comparison::new(runs))
    }
}

/// Refuses a WAN whose topology has the name of the LAN, which it would be taken for. The LAN of an earlier comparison is none:
/// it has one data center.
fn check_names(file: &RunFile, wans: &[(&str, RunFile)]) -> Result<(), ConfigError> {
    let own = &file.plan()?.topology;
    for (wan, there) in wans {
        let is_asked_for = *wan == LAN && own.name != LAN;
        let topology = &there.plan()?.topology;
        if !is_asked_for && topology.name == LAN && topology.data_centers.len() > 1 {
            let expected = format!("another name: `{LAN}` is all machines in one data center");
            return Err(there.wrong("topology.name", LAN, &expected));
        }
    }
    Ok(())
}

/// The run file whose machines the LAN has: that of the WANs, if all have equally many machines, so that times compare; the
/// file itself if not.
fn machines_of_the_lan<'f>(
    file: &'f RunFile,
    wans: &'f [(&str, RunFile)],
) -> Result<&'f RunFile, ConfigError> {
    let mut found: Option<(&RunFile, usize)> = None;
    for (_, there) in wans.iter().filter(|(wan, _)| *wan != LAN) {
        let workers = there.plan()?.topology.workers();
        match found {
            None => found = Some((there, workers)),
            Some((_, others)) if others != workers => return Ok(file),
            Some(_) => {}
        }
    }
    Ok(found.map_or(file, |(there, _)| there))
}

impl Variant {
    /// The name that tells it from the other runs of its comparison, such as `three-regions-asp`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.plan.topology.name, self.remote)
    }

    fn new(file: &RunFile, wan: &str, remote: &str) -> Result<Self, ConfigError> {
        let plan = file.with_remote(remote)?.plan()?;
        let plan = if wan == LAN { plan.on_lan() } else { plan };

        Ok(Self { wan: wan.to_owned(), remote: remote.to_owned(), plan })
    }

    fn is_reference(&self) -> bool {
        self.wan == LAN && self.remote == BSP
    }
}

/// What the reference held when it stopped.
#[derive(Clone, Copy, Debug)]
struct Reached {
    objective: f64,
    held: Held,
    clocks: u64,
}

impl Reached {
    /// `None` of a run without an evaluation, and of one that has diverged, which holds nothing.
    fn by(outcome: &Outcome) -> Option<Self> {
        let Outcome { summary, progress, .. } = outcome;
        if summary.diverged.is_some() {
            return None;
        }
        let objective = held_at_the_end(progress)?;
        Some(Self { objective, held: held(progress), clocks: summary.clocks })
    }

    /// The variant, stopped once it holds the same, or has had several times the clocks for it.
    fn as_target_of(self, variant: &Variant) -> Variant {
        let mut variant = variant.clone();
        let own = &variant.plan.stop;
        let patience = self.clocks.saturating_mul(PATIENCE);
        variant.plan.stop = StopRules {
            objective: Some(target_of(self.objective)),
            held: self.held,
            clocks: Some(own.clocks.map_or(patience, |clocks| clocks.max(patience))),
            seconds: own.seconds,
            change: None,
        };
        variant
    }
}

fn is_interrupted(summary: &Summary) -> bool {
    summary.was_stopped_by(StopReason::Interrupted)
}

/// The name of the WAN that there is none: all machines in one data center.
pub const LAN: &str = "lan";

const BSP: &str = "bsp";

/// A run that has not met the target after this many times the reference's clocks does not meet it.
const PATIENCE: u64 = 5;
