//! Who watches a run for its directory: keeps every record, logs it, and passes it on to the live view.

use super::Live;
use crate::directory::{ProgressLog, ReportError};
use gaia_telemetry::{Observer, Progress};

/// Observes one run.
pub struct Recorder {
    progress: Vec<Progress>,
    log: ProgressLog,
    live: Live,
    /// The first write that failed. A run goes on without its log; the caller hears of it at the end.
    failed: Option<ReportError>,
}

impl Recorder {
    pub fn new(log: ProgressLog, live: Live) -> Self {
        Self { progress: Vec::new(), log, live, failed: None }
    }

    /// Ends the live view and hands over every evaluation, or says why the log is not whole.
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
