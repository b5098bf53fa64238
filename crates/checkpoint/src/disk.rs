//! The operations that checkpoints need of a disk, each by itself, so that tests can make each of them fail.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use gaia_model::{kind_name, new_file};

use super::error::CheckpointError;
use super::uncached;

/// A disk. When a call returns, it is complete, and no later crash loses what it has written or synced.
pub trait Disk: Send {
    /// Makes a directory and its parents.
    ///
    /// # Errors
    /// Those of the operating system.
    fn create_directory(&mut self, path: &Path) -> io::Result<()>;

    /// Writes a new file of these parts and syncs it. A file or symbolic link of this name is replaced.
    ///
    /// # Errors
    /// Those of the operating system.
    fn write(&mut self, path: &Path, parts: &[Cow<'_, [u8]>]) -> io::Result<()>;

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

/// The calls that wait for a disk. What writes files takes them as a parameter, so that tests can have a disk that keeps
/// nothing but what was synced.
pub trait Syncer {
    /// Waits until the disk has a file.
    ///
    /// # Errors
    /// Those of the operating system. What the disk has of the file is then unknown.
    fn sync_all(&self, file: &File) -> io::Result<()>;

    /// Waits until the disk has the bytes of a file, and as many of them as the file has.
    ///
    /// # Errors
    /// As [`Self::sync_all`].
    fn sync_data(&self, file: &File) -> io::Result<()>;

    /// Waits until the disk has the names in a directory.
    ///
    /// # Errors
    /// As [`Self::sync_all`].
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The calls of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSyncer;

impl Syncer for SystemSyncer {
    fn sync_all(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        // Only Unix can open a directory. Elsewhere the file system syncs names by itself.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filesystem<S = SystemSyncer> {
    syncer: S,
}

impl Filesystem {
    /// The disk, with the calls of the operating system.
    pub fn new() -> Self {
        Self::with(SystemSyncer)
    }
}

impl<S: Syncer> Filesystem<S> {
    /// The disk, with other calls that wait for it.
    pub fn with(syncer: S) -> Self {
        Self { syncer }
    }
}

impl<S: Syncer + Send> Disk for Filesystem<S> {
    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write(&mut self, path: &Path, parts: &[Cow<'_, [u8]>]) -> io::Result<()> {
        write_synced(path, parts.iter().map(|part| &**part), &self.syncer)
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        self.syncer.sync_directory(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}

/// As [`Disk::write`].
///
/// What is large is synced piece by piece: a log on the same file system may have to wait for all that others have written, and
/// a server that waits for its log answers nobody.
pub(super) fn write_synced<'p>(
    path: &Path,
    parts: impl IntoIterator<Item = &'p [u8]>,
    syncer: &impl Syncer,
) -> io::Result<()> {
    let mut file = new_file(path)?;
    let mut unsynced = 0;
    for piece in parts.into_iter().flat_map(|part| part.chunks(PIECE_BYTES)) {
        if unsynced + piece.len() > PIECE_BYTES {
            syncer.sync_data(&file)?;
            unsynced = 0;
        }
        uncached::append(&mut file, piece)?;
        unsynced += piece.len();
    }
    syncer.sync_all(&file)
}

/// A tenth of a second of a fast disk.
const PIECE_BYTES: usize = 64 << 20;

/// Makes a directory and its parents, and syncs their names.
pub(super) fn make_directory(path: &Path, syncer: &impl Syncer) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(path)?;
    missing.into_iter().filter_map(Path::parent).try_for_each(|parent| {
        let here = Path::new(".");
        syncer.sync_directory(if parent == Path::new("") { here } else { parent })
    })
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
