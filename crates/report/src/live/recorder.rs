//! The observer of a run: it keeps every record, logs it, and passes it on to the live view.

use super::Live;
use crate::directory::{ProgressLog, ReportError, RunDirectory};
use crate::tensorboard::EventLog;
use gaia_telemetry::{InitialRecord, ModelSnapshot, Observer, Progress};

/// Observes one run: keeps and logs its evaluations, and shows them.
pub struct Recorder {
    initial: Option<InitialRecord>,
    progress: Vec<Progress>,
    log: ProgressLog,
    events: EventLog,
    metric: String,
    live: Live,
    /// Where snapshots of the model are written.
    directory: RunDirectory,
    /// The first write of a log that failed. The run goes on without its logs.
    unlogged: Option<ReportError>,
    /// The first write of a model that failed.
    failed: Option<ReportError>,
}

impl Recorder {
    /// A recorder without records, which writes into a directory and shows in `live`. `initial` is the evaluation of the
    /// initial model, if there is one.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the log of the progress, or that for TensorBoard, cannot be created.
    pub fn new(
        directory: &RunDirectory,
        live: Live,
        initial: Option<&InitialRecord>,
    ) -> Result<Self, ReportError> {
        let (progress, log) = (Vec::new(), directory.progress_log()?);
        let metric = live.metric().to_owned();
        let (directory, initial) = (directory.clone(), initial.copied());
        let events = directory.event_log(&metric, initial.as_ref())?;
        let (unlogged, failed) = (None, None);
        Ok(Self { initial, progress, log, events, metric, live, directory, unlogged, failed })
    }

    /// Ends the live view and returns every evaluation, in order, with the first error of writing a model or a log. Logs
    /// that could not be written during the run are first written again.
    pub fn finish(mut self) -> (Vec<Progress>, Option<ReportError>) {
        self.live.finish();
        let Self { metric, initial, progress, directory, unlogged, failed, .. } = self;
        let written = || directory.write_logs(&metric, initial.as_ref(), &progress);
        let unlogged = unlogged.filter(|_| written().is_err());
        (progress, failed.or(unlogged))
    }
}

impl Observer for Recorder {
    fn on_progress(&mut self, progress: &Progress) {
        if self.unlogged.is_none() {
            let logged = self.log.append(progress).and_then(|()| self.events.append(progress));
            self.unlogged = logged.err();
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
