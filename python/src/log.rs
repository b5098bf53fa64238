//! The log of the nodes, on its way to Python's `logging`.
//!
//! Events come from threads of the nodes, which must never wait for the GIL. They leave records here, and a thread of Python's
//! takes them. What finds no room is counted and dropped.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use gaia::cli::{Level, Log, LogRecord};

/// Records that nobody has taken.
#[derive(Default)]
struct Untaken {
    records: Mutex<Records>,
    arrived: Condvar,
}

#[derive(Default)]
struct Records {
    kept: VecDeque<LogRecord>,
    dropped: usize,
}

impl Untaken {
    fn push(&self, record: LogRecord) {
        let mut records = self.lock();
        if records.kept.len() < RECORDS_MAX {
            records.kept.push_back(record);
        } else {
            records.dropped += 1;
        }
        drop(records);
        self.arrived.notify_all();
    }

    /// Waits until there is a record, at most so long.
    fn wait(&self, at_most: Duration) {
        let is_empty = |records: &mut Records| records.kept.is_empty();
        let waited = self.arrived.wait_timeout_while(self.lock(), at_most, is_empty);
        drop(waited);
    }

    fn take(&self) -> Records {
        std::mem::take(&mut self.lock())
    }

    /// The records. The GIL is never waited for while they are locked.
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the events of this process as records from here on: those that `GAIA_LOG` selects, or where it is not set those of at
/// least this level of `logging`. May be called again to change the level.
#[pyfunction]
pub(crate) fn log_from(level: i32) -> PyResult<()> {
    let log = LOG.get_or_init(|| Log::open(|record| untaken().push(record)));
    let log = log.as_ref().map_err(|error| PyValueError::new_err(error.clone()))?;
    let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
    log.set_level(levels.into_iter().rfind(|one| number(*one) >= level));
    Ok(())
}

/// Waits for records, at most so many seconds.
#[pyfunction]
pub(crate) fn log_wait(py: Python<'_>, seconds: f64) {
    let at_most = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    py.detach(|| untaken().wait(at_most));
}

/// Takes the records that have arrived: the level, the target and the text of each.
#[pyfunction]
pub(crate) fn log_take(py: Python<'_>) -> Vec<(i32, String, String)> {
    let Records { kept, dropped } = py.detach(|| untaken().take());
    let record = |LogRecord { level, target, text }| (number(level), target, text);
    let mut taken: Vec<_> = kept.into_iter().map(record).collect();
    if dropped > 0 {
        let text =
            format!("{dropped} later records were dropped: they came faster than they were taken");
        taken.push((number(Level::WARN), "gaia".into(), text));
    }
    taken
}

/// The level of Python's `logging`, which has none below that of debugging.
fn number(level: Level) -> i32 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

fn untaken() -> &'static Untaken {
    UNTAKEN.get_or_init(Untaken::default)
}

static LOG: OnceLock<Result<Log, String>> = OnceLock::new();
static UNTAKEN: OnceLock<Untaken> = OnceLock::new();

/// A few hundred kilobytes.
const RECORDS_MAX: usize = 4096;
