//! The operations that checkpoints need of a disk, each by itself, so that tests can make each of them fail.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use gaia_model::{kind_name, new_file};

use super::error::CheckpointError;

/// A disk. When a call returns, it is complete, and no later crash loses what it has written or synced.
pub trait Disk {
    /// Makes a directory and its parents.
    ///
    /// # Errors
    /// Those of the operating system.
    fn create_directory(&mut self, path: &Path) -> io::Result<()>;

    /// Writes a new file whole and syncs it. A file or symbolic link of this name is replaced.
    ///
    /// # Errors
    /// Those of the operating system.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Syncs the names in a directory.
    ///
    /// # Errors
    /// Those of the operating system.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()>;

    /// Renames a directory atomically. Nothing has the new name.
    ///
    /// # Errors
    /// Those of the operating system.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a directory and its contents.
    ///
    /// # Errors
    /// Those of the operating system.
    fn remove_directory(&mut self, path: &Path) -> io::Result<()>;
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filesystem;

impl Disk for Filesystem {
    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = new_file(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        // Only Unix can open a directory. Elsewhere the file system syncs names by itself.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}

/// Checks, before a file is opened, that it is a file itself: a symbolic link could lead to any file of the user who
/// runs this, a pipe would block. What is missing is left to the opening.
///
/// # Errors
/// [`CheckpointError::NotAFile`].
pub(super) fn check_is_file(path: &Path) -> Result<(), CheckpointError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if metadata.is_file() {
        return Ok(());
    }
    let found = kind_name(metadata.file_type());
    Err(CheckpointError::NotAFile { path: path.to_owned(), found })
}
