//! What checkpoints ask of a disk, one step at a time, so that tests can let each of them fail.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A disk. Each call has happened when it returns, and of what is written or synced a crash loses nothing after.
pub trait Disk {
    /// Makes a directory and those it is in.
    fn create_directory(&mut self, path: &Path) -> io::Result<()>;

    /// Writes a new file whole, and waits until the disk has it.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Waits until the disk has the names in a directory.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()>;

    /// Gives a directory another name at once; there is nothing of that name.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a directory and all in it.
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
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        // Only Unix opens directories; elsewhere names are the file system's own business.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}
