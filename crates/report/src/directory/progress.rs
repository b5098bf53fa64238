//! `progress.jsonl`: one record for each evaluation, one line for each record.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::ReportError;
use super::json::broken;
use super::line_file::LineFile;
use super::own::check_is_file;
use gaia_model::new_file;
use gaia_telemetry::Progress;

/// Appends to `progress.jsonl`.
#[derive(Debug)]
pub struct ProgressLog(LineFile);

impl ProgressLog {
    /// Creates the file, and removes the one that is there.
    pub(super) fn create(path: PathBuf) -> Result<Self, ReportError> {
        let file = new_file(&path).map_err(ReportError::io(&path, "cannot be created"))?;
        Ok(Self(LineFile::after(path, file, 0)))
    }

    /// Appends one record as a line.
    ///
    /// The line has been handed to the operating system when the call returns. It is not synced to the disk. Of a line that
    /// cannot be written whole, nothing stays.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the file cannot be written.
    pub fn append(&mut self, progress: &Progress) -> Result<(), ReportError> {
        self.0.append(&line_of(progress))
    }
}

/// A record as a line.
pub(super) fn line_of(progress: &Progress) -> String {
    serde_json::to_string(progress).expect("a progress record is plain data") + "\n"
}

/// Reads `progress.jsonl`; an error names the line. Blank lines are skipped.
pub(super) fn read_progress(path: &Path) -> Result<Vec<Progress>, ReportError> {
    check_is_file(path)?;
    let file = File::open(path).map_err(ReportError::io(path, "cannot be opened"))?;
    let mut records = Vec::new();
    let mut line = Vec::new();
    let mut reader = BufReader::new(file);

    for number in 1.. {
        line.clear();

        let read =
            reader.read_until(b'\n', &mut line).map_err(ReportError::io(path, "cannot be read"))?;
        if read == 0 {
            break;
        }

        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }

        let record = serde_json::from_slice(&line).map_err(|error| {
            broken(path, number, &error, "one progress record (JSON) on each line")
        })?;

        records.push(record);
    }

    Ok(records)
}
