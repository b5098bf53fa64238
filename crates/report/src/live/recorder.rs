//! The observer of a run: it keeps every record, logs it, and passes it on to the live view.

use super::Live;
use crate::directory::{ProgressLog, ReportError, RunDirectory};
use gaia_telemetry::{ModelSnapshot, Observer, Progress};

/// Observes one run: keeps and logs its evaluations, and shows them.
pub struct Recorder {
    progress: Vec<Progress>,
    log: ProgressLog,
    live: Live,
    /// Where snapshots of the model are written.
    directory: RunDirectory,
    /// The first write that failed. The run goes on without its log; [`Recorder::finish`] returns the error.
    failed: Option<ReportError>,
}

impl Recorder {
    /// A recorder without records, which writes into a directory and shows in `live`.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the log of the progress cannot be created.
    pub fn new(directory: &RunDirectory, live: Live) -> Result<Self, ReportError> {
        let (progress, log) = (Vec::new(), directory.progress_log()?);
        Ok(Self { progress, log, live, directory: directory.clone(), failed: None })
    }

    /// Keeps the first failure of a write.
    fn keep_failure(&mut self, written: Result<(), ReportError>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
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
            let written = self.log.append(progress);
            self.keep_failure(written);
        }
        self.progress.push(progress.clone());
        self.live.on_progress(progress);
    }

    fn on_model(&mut self, snapshot: &ModelSnapshot) {
        let written = self.directory.write_model(&snapshot.files);
        self.keep_failure(written);
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
