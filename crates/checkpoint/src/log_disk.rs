//! The operations that a log needs of a disk, each by itself, so that tests and simulations can make each of them fail.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::CheckpointError;
use super::disk::{Syncer, SystemSyncer, check_is_file, make_directory, write_synced};
use super::uncached;

/// The files of one log, by name.
pub trait LogDisk {
    /// The names of all files, in any order.
    ///
    /// # Errors
    /// Those of the operating system.
    fn names(&mut self) -> io::Result<Vec<String>>;

    /// The contents of a file.
    ///
    /// # Errors
    /// Those of the operating system.
    fn read(&mut self, name: &str) -> io::Result<Vec<u8>>;

    /// Makes a file of these bytes, whole or not at all, and syncs it.
    ///
    /// # Errors
    /// Those of the operating system.
    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Writes at the end of a file. Until the next [`Self::sync`] a crash may leave any part of it.
    ///
    /// # Errors
    /// Those of the operating system.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Waits until the disk has all of a file.
    ///
    /// # Errors
    /// Those of the operating system.
    fn sync(&mut self, name: &str) -> io::Result<()>;

    /// Writes the end of a file again, from a byte on, and syncs the file.
    ///
    /// The bytes are those that the file has already. They are written again because an earlier sync of them may have
    /// failed, after which a new sync alone would do nothing.
    ///
    /// # Errors
    /// Those of the operating system.
    fn rewrite(&mut self, name: &str, from: u64, bytes: &[u8]) -> io::Result<()>;

    /// Shortens a file to so many bytes, and syncs it.
    ///
    /// # Errors
    /// Those of the operating system.
    fn cut(&mut self, name: &str, bytes: u64) -> io::Result<()>;

    /// Removes a file. After a crash it may be there again.
    ///
    /// # Errors
    /// Those of the operating system.
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A directory of this machine, locked until it is dropped.
#[derive(Debug)]
pub struct LogFolder<S = SystemSyncer> {
    path: PathBuf,
    /// The file that was appended to last, kept open: the operating system reports a failed write only to descriptors that
    /// were open at the time.
    open: Option<(String, File)>,
    syncer: S,
    /// Closing it unlocks the directory, also at the end of the process.
    _lock: File,
}

impl LogFolder {
    /// Opens the directory, or makes it, and locks it against other processes.
    ///
    /// # Errors
    /// [`CheckpointError::NotAFile`] where it holds a symbolic link or a pipe, [`CheckpointError::InUse`] where another
    /// process has locked it, [`CheckpointError::Io`] where the disk fails.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::open_with(path, SystemSyncer)
    }
}

impl<S: Syncer> LogFolder<S> {
    /// As [`LogFolder::open`], with other calls that wait for the disk.
    ///
    /// # Errors
    /// As [`LogFolder::open`].
    pub fn open_with(path: &Path, syncer: S) -> Result<Self, CheckpointError> {
        make_directory(path, &syncer).map_err(CheckpointError::io(path, "cannot be created"))?;
        let unlisted = || CheckpointError::io(path, "cannot be listed");
        for entry in fs::read_dir(path).map_err(unlisted())? {
            let entry = entry.map_err(unlisted())?;
            if !entry.file_type().map_err(unlisted())?.is_dir() {
                check_is_file(&entry.path())?;
            }
        }

        let lock_path = path.join(LOCK);
        let unlocked = || CheckpointError::io(&lock_path, "cannot be locked");
        let lock = File::create(&lock_path).map_err(unlocked())?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(CheckpointError::InUse { path: path.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(unlocked()(error)),
        }

        // A process that was killed may have left a segment whose name is not on the disk. What is appended to such a
        // segment would be lost with it, although it is synced.
        let named = syncer.sync_directory(path);
        named.map_err(CheckpointError::io(path, "cannot be synced"))?;
        Ok(Self { path: path.to_owned(), open: None, syncer, _lock: lock })
    }

    /// A file, opened for appending, and what syncs it.
    fn opened(&mut self, name: &str) -> io::Result<(&mut File, &S)> {
        let open = match self.open.take() {
            Some(open) if open.0 == name => open,
            _ => {
                let file = OpenOptions::new().append(true).open(self.path.join(name))?;
                (name.to_owned(), file)
            }
        };
        Ok((&mut self.open.insert(open).1, &self.syncer))
    }
}

impl<S: Syncer> LogDisk for LogFolder<S> {
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
        write_synced(&draft, [bytes], &self.syncer)?;
        fs::rename(draft, self.path.join(name))?;
        self.syncer.sync_directory(&self.path)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        uncached::append(self.opened(name)?.0, bytes)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let (file, syncer) = self.opened(name)?;
        syncer.sync_data(file)
    }

    fn rewrite(&mut self, name: &str, from: u64, bytes: &[u8]) -> io::Result<()> {
        // A file that is open for appending can only be written at its end.
        let mut file = OpenOptions::new().write(true).open(self.path.join(name))?;
        file.seek(SeekFrom::Start(from))?;
        file.write_all(bytes)?;
        self.syncer.sync_all(&file)
    }

    fn cut(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let (file, syncer) = self.opened(name)?;
        file.set_len(bytes)?;
        syncer.sync_all(file)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }
}

/// The prefix of a name while its file is being made.
pub(super) const DRAFT: &str = ".part-";

const LOCK: &str = "lock";

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The lock would be emptied, and a segment appended to, wherever the link leads.
    #[test]
    fn a_log_with_a_link_is_refused_by_name_and_nothing_is_written_where_it_leads() {
        let place = tempfile::tempdir().unwrap();
        let (folder, victim) = (place.path().join("log"), place.path().join("victim"));
        fs::write(&victim, "of somebody else").unwrap();
        for name in [LOCK, "00000000000000000000.log"] {
            fs::create_dir(&folder).unwrap();
            symlink(&victim, folder.join(name)).unwrap();
            let refused = LogFolder::open(&folder).unwrap_err().to_string();
            let expected = format!("{name} is a symbolic link, expected a file");
            assert!(refused.ends_with(&expected), "{refused}");
            fs::remove_dir_all(&folder).unwrap();
        }

        let mut log = LogFolder::open(&folder).unwrap();
        symlink(&victim, folder.join(".part-a")).unwrap();
        log.create("a", b"records").unwrap();
        assert_eq!(log.read("a").unwrap(), b"records");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
    }

    #[test]
    fn a_log_may_be_on_another_disk_that_a_link_leads_to() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("disk")).unwrap();
        symlink(place.path().join("disk"), place.path().join("log")).unwrap();
        LogFolder::open(&place.path().join("log")).unwrap();
    }
}
