//! What a command checks of a directory before it writes there: that no other process does, and that it holds this run.

use std::fs::{File, TryLockError};
use std::path::PathBuf;

use super::Failure;
use gaia_config::{Plan, RunFile};
use gaia_report::{ReportError, RunDirectory};

/// Keeps other processes from writing a directory, until it is dropped or this process ends.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _directory: Option<File>,
}

impl DirectoryLock {
    /// Locks a directory, which gets no file by that. Where the file system or the system cannot lock a directory, nothing is
    /// locked.
    ///
    /// # Errors
    /// [`Failure::Usage`] where another process writes it.
    pub(super) fn acquire(directory: &RunDirectory) -> Result<Self, Failure> {
        let path = directory.path();
        let Ok(opened) = File::open(path) else { return Ok(Self { _directory: None }) };
        match opened.try_lock() {
            Ok(()) => Ok(Self { _directory: Some(opened) }),
            Err(TryLockError::WouldBlock) => Err(Failure::usage(format!(
                "{} is used by another process, expected another --out, or the end of that process",
                path.display()
            ))),
            Err(TryLockError::Error(_)) => Ok(Self { _directory: None }),
        }
    }
}

/// Checks that what a directory holds is of this run, as far as its nodes have to agree, before its files are replaced.
///
/// # Errors
/// [`ReportError::OtherSettings`] where it is of another.
pub(super) fn check_is_of(directory: &RunDirectory, plan: &Plan) -> Result<(), Failure> {
    let found = directory.read_run_toml()?;
    if found.is_empty() || found == plan.to_toml() {
        return Ok(());
    }
    let path: PathBuf = directory.path().join("run.toml");
    let of_directory = RunFile::from_text(&path.display().to_string(), &found, &[]);
    match of_directory.and_then(|file| file.plan()) {
        Ok(found) if found.agreement() == plan.agreement() => Ok(()),
        Ok(_) | Err(_) => Err(ReportError::OtherSettings { path }.into()),
    }
}
