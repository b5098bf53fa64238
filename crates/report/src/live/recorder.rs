//! The observer of a run: it keeps every record, logs it, and passes it on to the live view.

use super::Live;
use crate::directory::{ProgressLog, ReportError};
use gaia_telemetry::{Observer, Progress};

/// Observes one run: keeps and logs its evaluations, and shows them.
pub struct Recorder {
    progress: Vec<Progress>,
    log: ProgressLog,
    live: Live,
    /// The first write that failed. The run goes on without its log; [`Recorder::finish`] returns the error.
    failed: Option<ReportError>,
}

impl Recorder {
    /// A recorder without records, which appends to `log` and shows in `live`.
    pub fn new(log: ProgressLog, live: Live) -> Self {
        Self { progress: Vec::new(), log, live, failed: None }
    }

    /// Ends the live view and returns every evaluation, in order.
    ///
    /// # Errors
    /// The first error of writing the log. The log lacks the record that failed and all later ones.
    pub fn finish(mut self) -> Result<Vec<Progress>, ReportError> {
        self.live.finish();
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.progress),
        }
    }
}

impl Observer for Recorder {
    fn on_progress(&mut self, progress: &Progress) {
        if self.failed.is_none() {
            self.failed = self.log.append(progress).err();
        }
        self.progress.push(progress.clone());
        self.live.on_progress(progress);
    }

    fn on_tick(&mut self, time_s: f64, clocks: &[Option<u64>], wan_sent_bytes: &[u64]) {
        self.live.on_tick(time_s, clocks, wan_sent_bytes);
    }

    fn on_taken_over(&mut self, lost: &str, by: &str) {
        self.live.on_taken_over(lost, by);
    }

    fn on_given_back(&mut self, lost: &str, by: &str) {
        self.live.on_given_back(lost, by);
    }
}
