//! The file of a run that TensorBoard reads: the figures of each evaluation as scalars, whose step is the clock.
//!
//! This room decides which figures there are and what they are called. The format is TensorBoard's: `record` has its
//! framing, `event` its messages. Times are the driver's, so that two simulated runs of one seed write the same bytes.

mod event;
mod record;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::directory::ReportError;
use event::{Scalar, scalars, version};
use gaia_model::new_file;
use gaia_telemetry::{DcProgress, InitialRecord, Progress};
use record::framed;

/// Appends evaluations to the file.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    metric: String,
}

impl EventLog {
    /// Creates the file, and removes the one that is there. `metric` is the name of the held-out metric; the initial model is
    /// at step 0, where it was evaluated.
    pub(crate) fn create(
        path: &Path,
        metric: &str,
        initial: Option<&InitialRecord>,
    ) -> Result<Self, ReportError> {
        let file = new_file(path).map_err(ReportError::io(path, "cannot be created"))?;
        let mut log = Self { path: path.into(), file, metric: metric.into() };
        log.write(&version())?;
        initial.map_or(Ok(()), |initial| log.begin(initial))?;
        Ok(log)
    }

    fn begin(&mut self, initial: &InitialRecord) -> Result<(), ReportError> {
        let found = vec![
            Scalar::new(format!("objective/{ALL}"), initial.objective),
            Scalar::new(format!("{}/{ALL}", self.metric), initial.metric),
        ];
        self.write(&scalars(0.0, 0, &found))
    }

    /// Appends an evaluation. The record has been handed to the operating system when the call returns.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the file cannot be written.
    pub fn append(&mut self, progress: &Progress) -> Result<(), ReportError> {
        let mut found = vec![
            Scalar::new(format!("objective/{ALL}"), progress.objective),
            Scalar::new(format!("{}/{ALL}", self.metric), progress.metric),
            Scalar::new(format!("WAN bytes/{ALL}"), progress.wan_bytes as f64),
        ];
        for dc in &progress.data_centers {
            found.extend(self.of_data_center(dc));
        }
        self.write(&scalars(progress.time_s, progress.clock, &found))
    }

    fn of_data_center(&self, dc: &DcProgress) -> Vec<Scalar> {
        let name = &dc.name;
        let mut found = vec![
            Scalar::new(format!("objective/{name}"), dc.objective),
            Scalar::new(format!("{}/{name}", self.metric), dc.metric),
            Scalar::new(format!("clock/{name}"), dc.clock as f64),
            Scalar::new(format!("WAN bytes/{name}"), dc.wan_sent_bytes as f64),
            Scalar::new(format!("reads held back (s)/{name}"), dc.blocked_s),
        ];
        for (to, bytes) in &dc.sent_bytes {
            found.push(Scalar::new(format!("bytes of links/{name} to {to}"), *bytes as f64));
        }
        for waited in &dc.waited {
            let whom = waited.from.as_deref().unwrap_or("its own workers");
            let tag = format!("waited (s)/{name} for {whom}, {}", waited.cause);
            found.push(Scalar::new(tag, waited.seconds));
        }
        found
    }

    fn write(&mut self, event: &[u8]) -> Result<(), ReportError> {
        self.file
            .write_all(&framed(event))
            .map_err(ReportError::io(&self.path, "cannot be written"))
    }
}

/// The curve of the run among those of its data centers.
const ALL: &str = "all";
