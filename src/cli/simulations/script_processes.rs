//! Simulations of a script in processes of their own.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tracing::info;

use super::answer::Answer;
use super::process::Process;
use crate::cli::memory::fitting_of;
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_planner::{InThisProcess, Simulated, SimulationError, Simulator};

/// Simulations of a script, each in a process that has started this program again. A process that has simulated a run simulates
/// the next, since its libraries take seconds to load.
///
/// Where a process ends, whether its script has failed or the memory of the machine or of a device was too small for so many, its
/// run and all further ones are simulated in this process, one at a time. What fails here as well is what the user is told.
pub(super) struct ScriptProcesses {
    program: Vec<OsString>,
    /// The most simulations at once, and the processors that they share.
    most: usize,
    here: InThisProcess,
    /// Held while this process simulates.
    here_alone: Mutex<()>,
    /// Whether a process has ended.
    has_failed: AtomicBool,
    places: Mutex<Places>,
    left: Condvar,
}

/// Who simulates.
#[derive(Default)]
struct Places {
    taken: usize,
    /// Processes that wait for a run.
    idle: Vec<Process>,
    /// How many processes memory holds: what a script needs for its data is only known once it has run.
    fitting: Option<usize>,
}

impl ScriptProcesses {
    pub(super) fn new(
        program: Vec<OsString>,
        most: usize,
        interrupted: Option<Arc<AtomicBool>>,
    ) -> Self {
        Self {
            program,
            most,
            here: InThisProcess { threads: 1, interrupted },
            here_alone: Mutex::default(),
            has_failed: AtomicBool::new(false),
            places: Mutex::default(),
            left: Condvar::new(),
        }
    }

    /// What another process says of a run, while so many are simulated at once. `None` if it cannot.
    fn elsewhere(&self, plan: &Plan, at_once: usize) -> Option<Simulated> {
        let (idle, threads) = self.enter(at_once);
        let answered = self.answer(plan, idle, threads);
        self.leave(answered)
    }

    /// Waits for a place, of which there is one until memory is known. Returns a process, if one is there for so many at once, and
    /// the threads that each has.
    fn enter(&self, at_once: usize) -> (Option<Process>, usize) {
        let is_full = |places: &mut Places| places.taken >= places.fitting.unwrap_or(1);
        let waited = self.left.wait_while(self.places(), is_full);
        let mut places = waited.unwrap_or_else(PoisonError::into_inner);
        places.taken += 1;
        let at_once = places.fitting.map_or(at_once, |fitting| at_once.min(fitting));
        let threads = (self.most / at_once.max(1)).max(1);
        // A process has as many threads as it began with.
        places.idle.retain(|process| process.threads == threads);
        (places.idle.pop(), threads)
    }

    /// Has a run simulated, by an idle process or another one. Returns the process, too, unless it has ended.
    fn answer(
        &self,
        plan: &Plan,
        idle: Option<Process>,
        threads: usize,
    ) -> Option<(Process, Answer)> {
        if self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut process = idle.or_else(|| Process::start(&self.program, threads).ok())?;
        let answer = process.simulate(plan, self.here.interrupted.as_deref())?;
        Some((process, answer))
    }

    /// Leaves a place, and the process unless it has ended. Returns what it has said.
    fn leave(&self, answered: Option<(Process, Answer)>) -> Option<Simulated> {
        let mut places = self.places();
        places.taken -= 1;
        self.left.notify_all();
        let (process, Answer { simulated, peak_bytes }) = answered?;
        // What is free is beside the process that is there.
        let others = || peak_bytes.map_or(usize::MAX, fitting_of);
        places.fitting.get_or_insert_with(|| others().saturating_add(1));
        places.idle.push(process);
        Some(simulated)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Simulator for ScriptProcesses {
    fn at_once(&self, _: &Plan, simulations: usize) -> usize {
        self.most.min(simulations).max(1)
    }

    fn simulate(
        &self,
        plan: &Plan,
        application: &Arc<dyn Application>,
        at_once: usize,
    ) -> Result<Simulated, SimulationError> {
        if let Some(simulated) = self.elsewhere(plan, at_once) {
            return Ok(simulated);
        }
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            info!(
                "a process that simulates has ended: simulations go on in this one, one at a time"
            );
        }
        let _alone = self.here_alone.lock().unwrap_or_else(PoisonError::into_inner);
        self.here.simulate(plan, application, 1)
    }
}
