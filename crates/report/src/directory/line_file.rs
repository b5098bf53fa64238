//! A file that grows a line at a time.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use super::ReportError;

/// Appends whole lines to a file.
#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
    /// The length of the lines that are whole.
    bytes: u64,
}

impl LineFile {
    /// Appends after the first `bytes` bytes of a file, which are whole lines. `file` writes behind them.
    pub(super) fn after(path: PathBuf, file: File, bytes: u64) -> Self {
        Self { path, file, bytes }
    }

    /// Appends a line, which has its end.
    ///
    /// The line has been handed to the operating system when the call returns. It is not synced to the disk. Of a line that
    /// cannot be written whole, nothing stays.
    ///
    /// # Errors
    /// [`ReportError::Io`] where the file cannot be written.
    pub(super) fn append(&mut self, line: &str) -> Result<(), ReportError> {
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            let _cut_off = self.file.set_len(self.bytes);
            return Err(ReportError::io(&self.path, "cannot be written")(error));
        }
        self.bytes += line.len() as u64;
        Ok(())
    }
}
