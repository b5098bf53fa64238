//! The disk of one node, in memory. Synced bytes survive the process.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::scenario::draws::within;
use crate::scenario::fault::Moment;
use gaia_checkpoint::LogDisk;
use gaia_core::types::Random;

/// The files of one node.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<String, File>,
    /// The number of writes after which its process is killed, and the step of the last write.
    kill_at: Option<(u64, Moment)>,
}

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    synced: usize,
}

/// A process that uses a disk. Once it is killed, it has no access.
pub(super) trait DiskUser: Send + Sync {
    fn is_killed(&self) -> bool;

    fn kill(&self);
}

/// A process's access to the files.
pub(super) struct MemoryDisk {
    pub(super) files: Arc<Mutex<Files>>,
    pub(super) user: Arc<dyn DiskUser>,
}

impl Files {
    /// Schedules the kill of the process that uses these files, at a step of the `writes`-th write from here on.
    pub(super) fn kill_at_write(&mut self, writes: u64, moment: Moment) {
        self.kill_at = Some((writes, moment));
    }

    /// Cancels a scheduled kill that has not occurred.
    pub(super) fn cancel_kill(&mut self) {
        self.kill_at = None;
    }

    fn next_write_kills(&mut self) -> Option<Moment> {
        let (writes, moment) = self.kill_at.as_mut()?;
        *writes = writes.saturating_sub(1);
        let kills = (*writes == 0).then_some(*moment);
        self.kill_at.take_if(|_| kills.is_some());
        kills
    }

    /// The machine crashes: of the bytes that were not synced, a random part survives.
    pub(super) fn crash(&mut self, chance: &mut Random) {
        for file in self.files.values_mut() {
            let left = within(chance, file.synced as u64, file.bytes.len() as u64);
            file.bytes.truncate(left as usize);
        }
    }
}

impl MemoryDisk {
    fn files(&self) -> io::Result<MutexGuard<'_, Files>> {
        // Another process may use the files by then.
        if self.user.is_killed() { Err(gone()) } else { Ok(self.files.lock().unwrap()) }
    }
}

impl LogDisk for MemoryDisk {
    fn names(&mut self) -> io::Result<Vec<String>> {
        Ok(self.files()?.files.keys().cloned().collect())
    }

    fn read(&mut self, name: &str) -> io::Result<Vec<u8>> {
        let files = self.files()?;
        files
            .files
            .get(name)
            .map(|file| file.bytes.clone())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = File { bytes: bytes.to_vec(), synced: bytes.len() };
        self.files()?.files.insert(name.to_owned(), file);
        Ok(())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.files()?;
        let kills = files.next_write_kills();
        let file = files.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        let written = match kills {
            Some(Moment::Before) => 0,
            Some(Moment::Torn) => bytes.len() / 2,
            Some(Moment::After) | None => bytes.len(),
        };
        file.bytes.extend_from_slice(&bytes[..written]);
        if kills.is_none() {
            return Ok(());
        }
        drop(files);
        self.user.kill();
        Err(gone())
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let mut files = self.files()?;
        let file = files.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        file.synced = file.bytes.len();
        Ok(())
    }

    fn rewrite(&mut self, name: &str, from: u64, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.files()?;
        let file = files.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        file.bytes.truncate(from as usize);
        file.bytes.extend_from_slice(bytes);
        file.synced = file.bytes.len();
        Ok(())
    }

    fn cut(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let mut files = self.files()?;
        let file = files.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        file.bytes.truncate(bytes as usize);
        file.synced = file.bytes.len();
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.files()?.files.remove(name);
        Ok(())
    }
}

fn gone() -> io::Error {
    io::Error::other("the process is dead")
}
