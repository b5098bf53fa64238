//! Where the simulations of candidates run: in this process, or wherever a program has more room for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use tracing::subscriber::{NoSubscriber, with_default};

use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_driver::{Outcome, RunError, RunOptions, run_with};
use gaia_telemetry::{Progress, Summary, Unobserved};

/// Carries out runs in virtual time. What comes of a run does not depend on where it was carried out.
pub trait Simulator: Sync {
    /// How many of so many simulations of this run may go on at once, at least 1.
    fn at_once(&self, plan: &Plan, simulations: usize) -> usize;

    /// Simulates a plan, which `application` is that of, while so many simulations go on at once, this one included.
    ///
    /// # Errors
    /// Why there is no result.
    fn simulate(
        &self,
        plan: &Plan,
        application: &Arc<dyn Application>,
        at_once: usize,
    ) -> Result<Simulated, SimulationError>;
}

/// What a simulation came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Simulated {
    /// A node refused what another had sent, since it was far from every sound value.
    Diverged,
    /// The run has ended, which it also does when its objective is no number.
    Ended {
        /// All evaluations, in order.
        progress: Vec<Progress>,
        /// The results.
        summary: Box<Summary>,
    },
}

/// Why a simulation has no result.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The run has failed.
    #[error(transparent)]
    Run(RunError),
    /// The user has interrupted the simulations.
    #[error("interrupted")]
    Interrupted,
}

/// Simulations in this process, each on a thread. They have no effect on each other.
#[derive(Clone, Debug)]
pub struct InThisProcess {
    /// How many go on at once. There is one at a time where the application is a script.
    pub threads: usize,
    /// Set to `true` to end the simulations.
    pub interrupted: Option<Arc<AtomicBool>>,
}

impl Simulator for InThisProcess {
    fn at_once(&self, plan: &Plan, _: usize) -> usize {
        if plan.external().is_some() { 1 } else { self.threads.max(1) }
    }

    fn simulate(
        &self,
        plan: &Plan,
        application: &Arc<dyn Application>,
        _: usize,
    ) -> Result<Simulated, SimulationError> {
        let options = RunOptions { interrupted: self.interrupted.clone(), ..RunOptions::default() };
        // What a simulation warns of is not what the user's run does.
        let outcome = with_default(NoSubscriber::new(), || {
            run_with(plan, application, &options, &mut Unobserved)
        });
        if self.interrupted.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(SimulationError::Interrupted);
        }
        match outcome {
            Ok(Outcome { progress, summary, .. }) => {
                Ok(Simulated::Ended { progress, summary: Box::new(summary) })
            }
            Err(RunError::Peer { .. }) => Ok(Simulated::Diverged),
            Err(error) => Err(SimulationError::Run(error)),
        }
    }
}
