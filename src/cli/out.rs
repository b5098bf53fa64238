//! The directory that `--out` names, before anything that takes time.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Failure, Resume};
use gaia_report::RunDirectory;

/// That a command can write its results where `--out` says. A directory that was made for it and has nothing in it when this is
/// dropped is removed.
#[derive(Debug)]
pub(super) struct Claim {
    made: Option<PathBuf>,
}

impl Claim {
    /// Checks the directory, and makes it where there is none. What is in it need not be of this very run: that is checked once
    /// the run is known.
    ///
    /// # Errors
    /// If the directory cannot be made or written, or holds something else than `resume` takes.
    pub(super) fn of(out: Option<&Path>, resume: &Resume) -> Result<Self, Failure> {
        let Some(out) = out else { return Ok(Self { made: None }) };
        let claim = Self { made: (!out.exists()).then(|| out.to_owned()) };
        RunDirectory::claim(out, *resume != Resume::Never).map_err(Failure::out)?;
        Ok(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(made) = &self.made {
            // Only an empty directory can be removed in this way.
            let _is_used = fs::remove_dir(made);
        }
    }
}
