//! The checkpoints of one run: writes new ones, lets old ones go, finds the newest that is whole.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::disk::{Disk, Filesystem};
use super::error::CheckpointError;
use super::manifest::{FileMark, Manifest};
use super::{Checkpoint, MANIFEST, MODEL, RECORDS, Resumed, tensors};
use crate::types::{Seed, State};

/// The directory `checkpoints/` of one run.
pub struct Checkpoints {
    path: PathBuf,
    plan: String,
    seed: Seed,
    keep: usize,
    disk: Box<dyn Disk>,
}

impl Checkpoints {
    /// The checkpoints under `path` of the run whose plan and data have the hash `plan`; the newest `keep` stay, at
    /// least 1.
    pub fn new(path: &Path, plan: u64, seed: Seed, keep: usize) -> Self {
        Self::on(Box::new(Filesystem), path, plan, seed, keep)
    }

    /// As [`Self::new`], on another disk.
    pub fn on(disk: Box<dyn Disk>, path: &Path, plan: u64, seed: Seed, keep: usize) -> Self {
        assert!(keep > 0, "the newest checkpoint is kept");
        Self { path: path.to_owned(), plan: format!("{plan:016x}"), seed, keep, disk }
    }

    /// Writes a checkpoint, then lets the oldest go. Where the disk fails, those that were there still are.
    pub fn write(&mut self, checkpoint: &Checkpoint) -> Result<PathBuf, CheckpointError> {
        let clock = checkpoint.facts.clock;
        let path = self.path.join(name(clock));
        // A run repeats to the bit: what a resumed one comes by again is there already, unless it is damaged.
        if self.read(&path).is_err() {
            self.replace(&path, clock, checkpoint)?;
        }
        self.prune(clock);
        Ok(path)
    }

    /// Reads one checkpoint.
    ///
    /// # Errors
    /// Where it is not whole, or of another run or version.
    pub fn read(&self, path: &Path) -> Result<Resumed, CheckpointError> {
        let at = path.join(MANIFEST);
        let text = fs::read(&at).map_err(CheckpointError::io(&at, CANNOT_READ))?;
        let manifest = Manifest::read(&at, &text)?;
        if manifest.plan != self.plan {
            let (found, expected) = (manifest.plan, self.plan.clone());
            return Err(CheckpointError::OtherPlan { path: at, found, expected });
        }
        let mut files: BTreeMap<&str, &FileMark> = BTreeMap::new();
        files.extend(manifest.files.iter().map(|file| (file.name.as_str(), file)));
        let mut read = |name: &str| {
            let missing = || CheckpointError::unreadable(&at, format!("`{name}` is not listed"));
            read_file(path, files.remove(name).ok_or_else(missing)?)
        };
        read(MODEL)?;
        let mut state = State::default();
        for (content, name) in tensors::FILES {
            tensors::read(&path.join(name), content, &read(name)?, &mut state.tensors)?;
        }
        let records = read(RECORDS)?;
        state.records = rmp_serde::from_slice(&records)
            .map_err(|error| CheckpointError::unreadable(&path.join(RECORDS), error))?;
        if let Some(name) = files.keys().next() {
            return Err(CheckpointError::unreadable(&at, format!("lists `{name}`")));
        }
        Ok(Resumed { path: path.to_owned(), facts: manifest.run, state })
    }

    /// Reads the newest checkpoint that is whole; `None` where there is none of any kind.
    ///
    /// # Errors
    /// Where there are some and none is whole and of this run: the newest one's error.
    pub fn newest(&self) -> Result<Option<Resumed>, CheckpointError> {
        let mut first = None;
        for clock in self.clocks()?.into_iter().rev() {
            match self.read(&self.path.join(name(clock))) {
                Ok(resumed) => return Ok(Some(resumed)),
                Err(error) => {
                    warn!(%error, "a checkpoint is left out");
                    first.get_or_insert(error);
                }
            }
        }
        let path = self.path.clone();
        let none = |newest| Err(CheckpointError::NoneWhole { path, newest: Box::new(newest) });
        first.map_or(Ok(None), none)
    }

    /// The clocks that there are checkpoints of, whole or not, ascending.
    pub fn clocks(&self) -> Result<Vec<u64>, CheckpointError> {
        let mut clocks: Vec<u64> = self.entries()?.iter().filter_map(|name| clock(name)).collect();
        clocks.sort_unstable();
        Ok(clocks)
    }

    fn entries(&self) -> Result<Vec<String>, CheckpointError> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(CheckpointError::io(&self.path, CANNOT_LIST))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(CheckpointError::io(&self.path, CANNOT_LIST))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    /// Writes a checkpoint beside its place, and then moves it there.
    fn replace(
        &mut self,
        path: &Path,
        clock: u64,
        checkpoint: &Checkpoint,
    ) -> Result<(), CheckpointError> {
        let draft = self.path.join(format!("{DRAFT}{}", name(clock)));
        self.remove(&draft)?;
        self.disk.create_directory(&draft).map_err(unwritten(&draft))?;
        let mut marks = Vec::new();
        for (name, bytes) in self.files(checkpoint) {
            let file = draft.join(name);
            self.disk.write(&file, &bytes).map_err(unwritten(&file))?;
            marks.push(FileMark::of(name, &bytes));
        }
        let manifest = Manifest::new(&self.plan, self.seed.0, checkpoint.facts.clone(), marks);
        let file = draft.join(MANIFEST);
        self.disk.write(&file, manifest.to_json().as_bytes()).map_err(unwritten(&file))?;
        self.disk.sync_directory(&draft).map_err(unwritten(&draft))?;
        self.remove(path)?;
        self.disk.rename(&draft, path).map_err(unwritten(path))?;
        let parent = self.path.parent().filter(|parent| *parent != Path::new(""));
        for directory in [Some(self.path.as_path()), parent].into_iter().flatten() {
            self.disk.sync_directory(directory).map_err(unwritten(directory))?;
        }
        Ok(())
    }

    fn files<'c>(
        &self,
        checkpoint: &'c Checkpoint,
    ) -> impl Iterator<Item = (&'static str, Vec<u8>)> + use<'c> {
        let Checkpoint { model, state, .. } = checkpoint;
        let model = std::iter::once_with(|| (MODEL, tensors::model_file(model)));
        let tensors = tensors::FILES.into_iter();
        let tensors = tensors.map(|(content, name)| (name, tensors::state_file(state, content)));
        let records = std::iter::once_with(|| {
            let records = rmp_serde::to_vec(&state.records);
            (RECORDS, records.expect("a vector takes all records"))
        });
        model.chain(tensors).chain(records)
    }

    /// Removes all but the newest up to `written`, and drafts. What cannot be removed only takes up room.
    fn prune(&mut self, written: u64) {
        let Ok(names) = self.entries() else { return };
        let mut older: Vec<u64> =
            names.iter().filter_map(|name| clock(name)).filter(|clock| *clock < written).collect();
        older.sort_unstable();
        older.truncate((older.len() + 1).saturating_sub(self.keep));
        let drafts = names.into_iter().filter(|name| name.starts_with(DRAFT));
        for name in older.into_iter().map(name).chain(drafts) {
            if let Err(error) = self.remove(&self.path.join(name)) {
                warn!(%error, "an old checkpoint stays");
            }
        }
    }

    fn remove(&mut self, path: &Path) -> Result<(), CheckpointError> {
        match self.disk.remove_directory(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(CheckpointError::io(path, "cannot be removed")),
        }
    }
}

fn unwritten(path: &Path) -> impl FnOnce(io::Error) -> CheckpointError + use<> {
    CheckpointError::io(path, "cannot be written")
}

/// Reads a file that must be as its mark says.
fn read_file(directory: &Path, mark: &FileMark) -> Result<Vec<u8>, CheckpointError> {
    let path = directory.join(&mark.name);
    let io = || CheckpointError::io(&path, CANNOT_READ);
    let (found, expected) = (fs::metadata(&path).map_err(io())?.len(), mark.bytes);
    if found != expected {
        return Err(CheckpointError::WrongLength { path, found, expected });
    }
    let bytes = fs::read(&path).map_err(io())?;
    let (found, expected) = (crc32fast::hash(&bytes), mark.crc32);
    if found != expected {
        return Err(CheckpointError::WrongChecksum { path, found, expected });
    }
    Ok(bytes)
}

/// The name of a clock's checkpoint.
fn name(clock: u64) -> String {
    format!("{PREFIX}{clock:04}")
}

/// The clock that a name is of.
fn clock(text: &str) -> Option<u64> {
    let clock = text.strip_prefix(PREFIX)?.parse().ok()?;
    (name(clock) == text).then_some(clock)
}

const PREFIX: &str = "clock-";

/// What a name begins with while its checkpoint is being written.
const DRAFT: &str = ".part-";

const CANNOT_READ: &str = "cannot be read";
const CANNOT_LIST: &str = "cannot be listed";
