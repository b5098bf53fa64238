//! Records as JSON.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ReportError;
use super::own::check_is_file;

/// A record as its file and `--json` show it: indented JSON with a newline at its end.
///
/// # Panics
/// Where the record has a map whose keys are not strings.
pub fn to_json<T: Serialize>(record: &T) -> String {
    let text = serde_json::to_string_pretty(record);
    text.expect("records are plain data with string keys") + "\n"
}

/// Reads a file of one record; `expected` names the record in the error.
pub(super) fn read_json<T: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
) -> Result<T, ReportError> {
    check_is_file(path)?;
    let text = fs::read(path).map_err(ReportError::io(path, "cannot be read"))?;
    serde_json::from_slice(&text).map_err(|error| broken(path, error.line(), &error, expected))
}

/// The error that the JSON at a line of a file is not what was expected.
pub(super) fn broken(
    path: &Path,
    line: usize,
    error: &serde_json::Error,
    expected: &'static str,
) -> ReportError {
    // The error repeats at its end the place that the report of it already names.
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let problem = text.strip_suffix(&place).unwrap_or(&text).to_owned();

    ReportError::Broken { path: path.to_owned(), line, column: error.column(), problem, expected }
}
