//! What a log asks of a disk, one step at a time, so that tests and simulations can let each of them fail.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::CheckpointError;
use super::disk::{Disk, Filesystem};

/// The files of one log, by name.
pub trait LogDisk {
    /// The names of all files, in any order.
    fn names(&mut self) -> io::Result<Vec<String>>;

    /// All that a file holds.
    fn read(&mut self, name: &str) -> io::Result<Vec<u8>>;

    /// Makes a file of these bytes, whole or not at all, and waits until the disk has it.
    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Writes behind the end of a file. Until the next [`Self::sync`] a crash may leave any part of it.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Waits until the disk has all of a file.
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Writes anew what a file holds from a byte on up to its end, and waits until the disk has all of the file. What is
    /// in memory is what it holds, whether the disk has it or has failed to sync it before.
    fn rewrite(&mut self, name: &str, from: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts a file off after so many bytes, and waits until the disk has what is left.
    fn cut(&mut self, name: &str, bytes: u64) -> io::Result<()>;

    /// Removes a file. After a crash it may be there again.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A directory of this machine, locked.
#[derive(Debug)]
pub struct LogFolder {
    path: PathBuf,
    /// The file that was appended to last: what became of a write is told to those who have had it open since.
    open: Option<(String, File)>,
    /// Unlocked when it is closed, also by the end of the process.
    _lock: File,
}

impl LogFolder {
    /// Makes the directory where there is none, and keeps other processes out of it.
    ///
    /// # Errors
    /// Where another process has it, or the disk fails.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        make_directory(path).map_err(CheckpointError::io(path, "cannot be made"))?;
        let lock_path = path.join(LOCK);
        let unlocked = || CheckpointError::io(&lock_path, "cannot be locked");
        let lock = File::create(&lock_path).map_err(unlocked())?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), open: None, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(CheckpointError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(unlocked()(error)),
        }
    }

    fn opened(&mut self, name: &str) -> io::Result<&mut File> {
        let open = match self.open.take() {
            Some(open) if open.0 == name => open,
            _ => {
                let file = OpenOptions::new().append(true).open(self.path.join(name))?;
                (name.to_owned(), file)
            }
        };
        Ok(&mut self.open.insert(open).1)
    }

    fn sync_names(&self) -> io::Result<()> {
        Filesystem.sync_directory(&self.path)
    }
}

impl LogDisk for LogFolder {
    fn names(&mut self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn read(&mut self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name))
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = self.path.join(format!("{DRAFT}{name}"));
        Filesystem.write(&draft, bytes)?;
        fs::rename(draft, self.path.join(name))?;
        self.sync_names()
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.opened(name)?.write_all(bytes)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.opened(name)?.sync_data()
    }

    fn rewrite(&mut self, name: &str, from: u64, bytes: &[u8]) -> io::Result<()> {
        // A file that is open for appending writes at its end alone.
        let mut file = OpenOptions::new().write(true).open(self.path.join(name))?;
        file.seek(SeekFrom::Start(from))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn cut(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let file = self.opened(name)?;
        file.set_len(bytes)?;
        file.sync_all()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }
}

/// Makes a directory and those it is in, and waits until the disk has their names.
fn make_directory(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    Filesystem.create_directory(path)?;
    for parent in missing.into_iter().filter_map(Path::parent) {
        let here = Path::new(".");
        Filesystem.sync_directory(if parent == Path::new("") { here } else { parent })?;
    }
    Ok(())
}

/// What a name begins with while its file is being made.
pub(super) const DRAFT: &str = ".part-";

const LOCK: &str = "lock";
