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
    /// The first write of the log that failed. The run goes on without its log.
    unlogged: Option<ReportError>,
    /// The first write of a model that failed.
    failed: Option<ReportError>,
}

impl Recorder {
    /// A recorder without records, which writes into a directory and shows in `live`.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the log of the progress cannot be created.
    pub fn new(directory: &RunDirectory, live: Live) -> Result<Self, ReportError> {
        let (progress, log) = (Vec::new(), directory.progress_log()?);
        let directory = directory.clone();
        Ok(Self { progress, log, live, directory, unlogged: None, failed: None })
    }

    /// Ends the live view and returns every evaluation, in order, with the first error of writing a model or the log. A log
    /// that could not be written during the run is first written again.
    pub fn finish(mut self) -> (Vec<Progress>, Option<ReportError>) {
        self.live.finish();
        let unlogged =
            self.unlogged.filter(|_| self.directory.write_progress(&self.progress).is_err());
        (self.progress, self.failed.or(unlogged))
    }
}

impl Observer for Recorder {
    fn on_progress(&mut self, progress: &Progress) {
        if self.unlogged.is_none() {
            self.unlogged = self.log.append(progress).err();
        }
        self.progress.push(progress.clone());
        self.live.on_progress(progress);
    }

    fn on_model(&mut self, snapshot: &ModelSnapshot) {
        if let Err(error) = self.directory.write_model(&snapshot.files) {
            self.failed.get_or_insert(error);
        }
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
