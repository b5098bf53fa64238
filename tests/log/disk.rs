//! A disk in memory that fails when it is told to and forgets what it may.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use gaia::checkpoint::LogDisk;
use gaia::types::Random;
use rand::RngExt;

/// What becomes of the step at which the disk fails.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// Nothing.
    Refused,
    /// Half of what was to be written.
    Torn,
    /// It is done, and nobody hears of that.
    Unheard,
}

/// All who hold a clone of it see the same disk.
#[derive(Clone, Default)]
pub struct Memory(Rc<RefCell<Files>>);

#[derive(Default)]
struct Files {
    files: BTreeMap<String, File>,
    /// After so many steps, the next one fails in this way, and all behind it are refused.
    failing: Option<(usize, Failure)>,
    /// Says that it syncs and does not.
    lies: bool,
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    /// How many of them no crash takes.
    synced: usize,
}

impl Memory {
    /// A disk that breaks its word.
    pub fn lying() -> Self {
        let disk = Self::default();
        disk.0.borrow_mut().lies = true;
        disk
    }

    pub fn fail_after(&self, steps: usize, how: Failure) {
        self.0.borrow_mut().failing = Some((steps, how));
    }

    /// Works again; answers whether it had failed.
    pub fn mend(&self) -> bool {
        let failing = self.0.borrow_mut().failing.take();
        matches!(failing, Some((0, _)))
    }

    /// Each file keeps what was synced, and of the rest some sectors at random, others as zeros or garbage, up to some
    /// length.
    pub fn lose_power(&self, random: &mut Random) {
        for file in self.0.borrow_mut().files.values_mut() {
            let length = random.random_range(file.synced..=file.bytes.len());
            file.bytes.truncate(length);
            let mut at = file.synced;
            while at < length {
                let end = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
                let sector = &mut file.bytes[at..end.min(length)];
                match random.random_range(0..4) {
                    0 => sector.fill(0),
                    1 => sector.fill_with(|| random.random()),
                    _ => {}
                }
                at = end;
            }
            file.synced = length;
        }
    }

    /// Takes a step, unless it is this one that fails: `half` is what a torn one does.
    fn step(
        &self,
        whole: impl FnOnce(&mut Files),
        half: impl FnOnce(&mut Files),
    ) -> io::Result<()> {
        let files = &mut *self.0.borrow_mut();
        match &mut files.failing {
            None => {
                whole(files);
                return Ok(());
            }
            Some((steps @ 1.., _)) => {
                *steps -= 1;
                whole(files);
                return Ok(());
            }
            Some((0, how)) => match std::mem::replace(how, Failure::Refused) {
                Failure::Refused => {}
                Failure::Torn => half(files),
                Failure::Unheard => whole(files),
            },
        }
        Err(io::Error::other("the disk is full"))
    }
}

impl Files {
    fn file(&mut self, name: &str) -> &mut File {
        self.files.get_mut(name).expect("a file that was made")
    }

    fn append(&mut self, name: &str, bytes: &[u8]) {
        self.file(name).bytes.extend_from_slice(bytes);
    }

    fn sync(&mut self, name: &str) {
        if !self.lies {
            let file = self.file(name);
            file.synced = file.bytes.len();
        }
    }
}

impl LogDisk for Memory {
    fn names(&mut self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().files.keys().cloned().collect())
    }

    fn read(&mut self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.0.borrow_mut().file(name).bytes.clone())
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = File { bytes: bytes.to_vec(), synced: bytes.len() };
        let create = |files: &mut Files| drop(files.files.insert(name.to_owned(), file));
        self.step(create, |files| {
            drop(files.files.insert(format!(".part-{name}"), File::default()))
        })
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let half = &bytes[..bytes.len() / 2];
        self.step(|files| files.append(name, bytes), |files| files.append(name, half))
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.step(|files| files.sync(name), |_| {})
    }

    fn cut(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let cut = |files: &mut Files| {
            files.file(name).bytes.truncate(bytes as usize);
            files.sync(name);
        };
        self.step(cut, |_| {})
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step(|files| drop(files.files.remove(name)), |_| {})
    }
}

const SECTOR_BYTES: usize = 64;
