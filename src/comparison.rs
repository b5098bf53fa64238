//! One training over several WANs with several remote models, towards one target.

use gaia_config::{ConfigError, Plan, RunFile};
use gaia_core::coordinator::{StopRules, target_of};
use gaia_driver::Outcome;
use gaia_report::Comparison;

/// The runs of a comparison, all of them checked before the first one starts.
///
/// The reference is BSP with the run file's machines in one data center. What it reaches is the target of every other
/// run.
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
    /// The run file's plan with this WAN and this model. It has as many workers as the topology has, on the LAN as many
    /// as the run file's own.
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

        let reference = Variant::new(file, LAN, BSP)?;
        let mut variants = Vec::new();
        for wan in names {
            let there = if wan == LAN || wan == own { file } else { &file.with_wan(wan)? };
            for remote in remotes {
                variants.push(Variant::new(there, wan, remote.as_ref())?);
            }
        }
        variants.retain(|variant| !variant.is_reference());

        Ok(Self { reference, variants })
    }

    /// Carries out the reference, then each variant, and sets what came out side by side.
    ///
    /// `run` trains one variant, which it is given with its final stop rules: a run ends where BSP on the LAN had ended, or
    /// once it has had five times the clocks for it. It may build the application from the variant's plan, or hand in one
    /// of its own.
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
            let mut variant = variant.clone();
            variant.plan.stop = reached.as_target_of(&variant.plan.stop);
            let outcome = run(&variant)?;
            runs.push((outcome.summary, outcome.progress));
        }

        Ok(Comparison::new(runs))
    }
}

impl Variant {
    fn new(file: &RunFile, wan: &str, remote: &str) -> Result<Self, ConfigError> {
        let plan = file.with_remote(remote)?.plan()?;
        let plan = if wan == LAN { plan.on_lan() } else { plan };

        Ok(Self { wan: wan.to_owned(), remote: remote.to_owned(), plan })
    }

    fn is_reference(&self) -> bool {
        self.wan == LAN && self.remote == BSP
    }
}

/// What the reference had when it stopped.
#[derive(Clone, Copy, Debug)]
struct Reached {
    objective: f64,
    clocks: u64,
}

impl Reached {
    fn by(outcome: &Outcome) -> Self {
        let Outcome { summary, progress, .. } = outcome;
        Self {
            objective: progress.last().map_or(summary.objective, |last| last.objective),
            clocks: summary.clocks,
        }
    }

    /// Stops a run that reaches the same, or has had several times the clocks for it.
    fn as_target_of(self, own: &StopRules) -> StopRules {
        let patience = self.clocks.saturating_mul(PATIENCE);
        StopRules {
            objective: Some(target_of(self.objective)),
            clocks: Some(own.clocks.map_or(patience, |clocks| clocks.max(patience))),
            seconds: own.seconds,
            change: None,
        }
    }
}

/// The name of the WAN that there is none: the run file's machines in one data center.
pub const LAN: &str = "lan";

const BSP: &str = "bsp";

/// A run that has not met the target after this many times the reference's clocks does not meet it.
const PATIENCE: u64 = 5;
