//! What a directory may hold: files and directories of its own.
//!
//! Run directories are copied between machines and people. A symbolic link in one could lead to any file of the user who
//! reads it, whose text `gaia report` would put on a page, and to any directory that pages would be written to.

use std::fs::{self, FileType};
use std::path::Path;

use super::ReportError;
use gaia_model::kind_name;

/// Checks that what is there is a file itself, not a link to one. What is missing is left to the caller.
pub(super) fn check_is_file(path: &Path) -> Result<(), ReportError> {
    check(path, FileType::is_file, "a file")
}

/// Checks that what is there is a directory itself, not a link to one. What is missing is left to the caller.
pub(super) fn check_is_directory(path: &Path) -> Result<(), ReportError> {
    check(path, FileType::is_dir, "a directory")
}

fn check(
    path: &Path,
    is_own: fn(&FileType) -> bool,
    expected: &'static str,
) -> Result<(), ReportError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    let kind = metadata.file_type();
    if is_own(&kind) {
        return Ok(());
    }

    Err(ReportError::NotOwn { path: path.to_owned(), found: kind_name(kind), expected })
}
