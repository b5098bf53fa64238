//! A disk in memory that fails when it is told to and forgets what it may.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use gaia_checkpoint::LogDisk;
use gaia_core::types::Random;
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
    /// Half of it, and what is asked behind it works again.
    Passing,
}

/// All who hold a clone of it see the same disk.
#[derive(Clone, Default)]
pub struct Memory(Rc<RefCell<Files>>);

#[derive(Default)]
struct Files {
    files: BTreeMap<String, File>,
    /// After so many steps, the next one fails in this way, and all behind it are refused but for one that passes.
    failing: Option<(usize, Failure)>,
    failed: bool,
    /// Says that it syncs and does not.
    lies: bool,
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    /// How many of them no crash takes.
    synced: usize,
    /// Those that a failed sync has let go: they are read as long as the machine runs, and no later sync writes them.
    doomed: Range<usize>,
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
        let files = &mut *self.0.borrow_mut();
        files.failing = None;
        std::mem::take(&mut files.failed)
    }

    /// Each file keeps what was synced, and of the rest some sectors at random, others as zeros or garbage, up to some
    /// length.
    pub fn lose_power(&self, random: &mut Random) {
        for file in self.0.borrow_mut().files.values_mut() {
            file.bytes[std::mem::take(&mut file.doomed)].fill(0);
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
        let how = match &mut files.failing {
            Some((0, how)) => *how,
            working => {
                if let Some((steps, _)) = working {
                    *steps -= 1;
                }
                whole(files);
                return Ok(());
            }
        };
        files.failed = true;
        files.failing = match how {
            Failure::Passing => None,
            _ => Some((0, Failure::Refused)),
        };
        match how {
            Failure::Refused => {}
            Failure::Torn | Failure::Passing => half(files),
            Failure::Unheard => whole(files),
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

    fn fail_to_sync(&mut self, name: &str) {
        let file = self.file(name);
        if file.doomed.is_empty() {
            file.doomed.start = file.synced;
        }
        file.doomed.end = file.bytes.len();
    }

    fn rewrite(&mut self, name: &str, from: usize, bytes: &[u8]) {
        let file = self.file(name);
        file.bytes[from..].copy_from_slice(bytes);
        file.doomed.end = file.doomed.end.min(from);
        file.doomed.start = file.doomed.start.min(from);
        self.sync(name);
    }

    fn cut(&mut self, name: &str, bytes: usize) {
        let file = self.file(name);
        file.bytes.truncate(bytes);
        file.doomed.end = file.doomed.end.min(bytes);
        file.doomed.start = file.doomed.start.min(bytes);
        self.sync(name);
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
        let file = File { bytes: bytes.to_vec(), synced: bytes.len(), doomed: 0..0 };
        let create = |files: &mut Files| drop(files.files.insert(name.to_owned(), file));
        let draft = |files: &mut Files| {
            drop(files.files.insert(format!(".part-{name}"), File::default()));
        };
        self.step(create, draft)
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let half = &bytes[..bytes.len() / 2];
        self.step(|files| files.append(name, bytes), |files| files.append(name, half))
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.step(|files| files.sync(name), |files| files.fail_to_sync(name))
    }

    fn rewrite(&mut self, name: &str, from: u64, bytes: &[u8]) -> io::Result<()> {
        let from = from as usize;
        self.step(|files| files.rewrite(name, from, bytes), |files| files.fail_to_sync(name))
    }

    fn cut(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        self.step(|files| files.cut(name, bytes as usize), |_| {})
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step(|files| drop(files.files.remove(name)), |_| {})
    }
}

const SECTOR_BYTES: usize = 64;
