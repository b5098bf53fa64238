//! `ended-runs.jsonl`: the runs of an evaluation that have ended, one line for each run.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::ReportError;
use super::json::broken;
use super::line_file::LineFile;
use super::own::check_is_file;
use gaia_telemetry::{Progress, Summary};

/// The runs of an evaluation that have ended. Each is added to a file when it ends, so that an evaluation of hours that was
/// interrupted does not begin from the start.
#[derive(Debug)]
pub struct EndedRuns {
    /// By their settings. Of several runs with the same settings, the last one.
    known: BTreeMap<String, EndedRun>,
    lines: Mutex<LineFile>,
}

/// One run that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedRun {
    /// Its resolved settings as TOML.
    pub run_toml: String,
    /// What it came to.
    pub summary: Summary,
    /// Every evaluation of the model, in order.
    pub progress: Vec<Progress>,
}

impl EndedRuns {
    /// Reads the file, or creates it where there is none. A last line without its end, which a killed process leaves, is cut
    /// off.
    pub(super) fn open(path: PathBuf) -> Result<Self, ReportError> {
        check_is_file(&path)?;
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(ReportError::io(&path, "cannot be read"))?,
        };
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);

        let mut known = BTreeMap::new();
        for (number, line) in (1..).zip(text[..whole].split_inclusive(|byte| *byte == b'\n')) {
            let run: EndedRun = serde_json::from_slice(line).map_err(|error| {
                broken(&path, number, &error, "one run that has ended (JSON) on each line")
            })?;
            known.insert(run.run_toml.clone(), run);
        }

        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let file = opened.map_err(ReportError::io(&path, "cannot be opened"))?;
        let bytes = whole as u64;
        file.set_len(bytes).map_err(ReportError::io(&path, "cannot be written"))?;
        Ok(Self { known, lines: Mutex::new(LineFile::after(path, file, bytes)) })
    }

    /// The run with these settings that had ended when the file was opened. `None` if there was none.
    pub fn of(&self, run_toml: &str) -> Option<&EndedRun> {
        self.known.get(run_toml)
    }

    /// Adds a run to the file.
    ///
    /// The line has been handed to the operating system when the call returns. It is not synced to the disk. Of a line that
    /// cannot be written whole, nothing stays.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the file cannot be written.
    ///
    /// # Panics
    /// Never: a run is plain data.
    pub fn add(&self, run: &EndedRun) -> Result<(), ReportError> {
        let line = serde_json::to_string(run).expect("a run that has ended is plain data") + "\n";
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).append(&line)
    }
}
