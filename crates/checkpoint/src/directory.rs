//! The checkpoints of one run or node: writes new ones, removes old ones, finds the newest that is whole.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::disk::{Disk, Filesystem, check_is_file};
use super::error::{CheckpointError, shown};
use super::manifest::{Facts, FileMark, Manifest};
use super::marked_file::MarkedFile;
use super::{Checkpoint, Resumed, tensors};
use gaia_core::types::{Seed, State, messagepack};
use gaia_model::{HeaderTooLong, model_bytes};

/// The directory `checkpoints/` of one run or node.
pub struct Checkpoints {
    path: PathBuf,
    plan: String,
    seed: Seed,
    keep: usize,
    order: Order,
    disk: Box<dyn Disk>,
}

/// The number that checkpoints are named after and ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Clocks,
    Records,
}

impl Checkpoints {
    /// The checkpoints under `path` of the run whose plan and data have the hash `plan`. The newest `keep` are kept.
    ///
    /// # Panics
    /// Where `keep` is 0.
    pub fn new(path: &Path, plan: u64, seed: Seed, keep: usize) -> Self {
        Self::on(Box::new(Filesystem::new()), path, plan, seed, keep)
    }

    /// As [`Self::new`], with another disk to write to.
    ///
    /// # Panics
    /// Where `keep` is 0.
    pub fn on(disk: Box<dyn Disk>, path: &Path, plan: u64, seed: Seed, keep: usize) -> Self {
        assert!(keep > 0, "the newest checkpoint is kept");
        let plan = format!("{plan:016x}");
        Self { path: path.to_owned(), plan, seed, keep, order: Order::Clocks, disk }
    }

    /// Orders them by the first record of the log that each needs. A node, which may write several in one clock, uses this
    /// order.
    #[must_use]
    pub fn by_records(self) -> Self {
        Self { order: Order::Records, ..self }
    }

    /// Writes a checkpoint, then removes the oldest ones. Returns the directory of the new one.
    ///
    /// # Errors
    /// Where the disk fails. The earlier checkpoints are still there.
    ///
    /// # Panics
    /// Where they are ordered by records and this one names none.
    pub fn write(&mut self, checkpoint: &Checkpoint) -> Result<PathBuf, CheckpointError> {
        let number = self.order.of(&checkpoint.facts).expect("a node's checkpoint names a record");
        let path = self.path.join(self.order.name(number));
        // A resumed run repeats to the bit, so that a checkpoint of this number is the same, unless it is damaged.
        if self.read(&path).is_err() {
            self.replace(&path, checkpoint)?;
        }
        self.prune(number);
        Ok(path)
    }

    /// Reads one checkpoint.
    ///
    /// # Errors
    /// Where it is not whole, or of another run or version.
    pub fn read(&self, path: &Path) -> Result<Resumed, CheckpointError> {
        if path.is_file() {
            let problem = "found a file, expected the folder of a checkpoint";
            return Err(CheckpointError::unreadable(path, problem));
        }

        let at = path.join(MANIFEST);
        check_is_file(&at)?;
        let text = fs::read(&at).map_err(CheckpointError::io(&at, CANNOT_READ))?;
        let manifest = Manifest::read(&at, &text)?;

        if manifest.plan != self.plan {
            let (found, expected) = (shown(&manifest.plan), self.plan.clone());
            return Err(CheckpointError::OtherPlan { path: at, found, expected });
        }

        if self.order.of(&manifest.run).is_none() {
            return Err(CheckpointError::unreadable(
                &at,
                "found no record number of a log, expected one",
            ));
        }

        let mut files: BTreeMap<&str, &FileMark> = BTreeMap::new();
        files.extend(manifest.files.iter().map(|file| (file.name.as_str(), file)));

        if let Some(model) = files.remove(MODEL) {
            MarkedFile::open(path, model)?.read()?;
        }

        let mut mark = |name: &str| {
            let missing = || CheckpointError::unreadable(&at, format!("`{name}` is not listed"));
            files.remove(name).ok_or_else(missing)
        };

        let mut state = State::default();
        for (content, name) in tensors::FILES {
            tensors::read(path, mark(name)?, content, &mut state.tensors)?;
        }

        let records = MarkedFile::open(path, mark(RECORDS)?)?.read()?;
        state.records = messagepack::decode(&records)
            .map_err(|error| CheckpointError::unreadable(&path.join(RECORDS), error))?;

        if let Some(name) = files.keys().next() {
            return Err(CheckpointError::unreadable(&at, format!("lists `{name}`")));
        }

        Ok(Resumed { path: path.to_owned(), facts: manifest.run, state })
    }

    /// Reads the newest checkpoint that is whole. `None` where there is no checkpoint.
    ///
    /// # Errors
    /// Where there are some and none is whole and of this run: the newest one's error.
    pub fn newest(&self) -> Result<Option<Resumed>, CheckpointError> {
        let mut first = None;
        for number in self.numbers()?.into_iter().rev() {
            match self.read(&self.path.join(self.order.name(number))) {
                Ok(resumed) => return Ok(Some(resumed)),
                Err(error) => {
                    warn!(%error, "a checkpoint cannot be used and is skipped");
                    first.get_or_insert(error);
                }
            }
        }
        let path = self.path.clone();
        let none = |newest| Err(CheckpointError::NoneWhole { path, newest: Box::new(newest) });
        first.map_or(Ok(None), none)
    }

    /// The clocks, or first records, of all checkpoints, whole or not, ascending.
    ///
    /// # Errors
    /// Where the directory cannot be listed.
    pub fn numbers(&self) -> Result<Vec<u64>, CheckpointError> {
        let entries = self.entries()?;
        let mut numbers: Vec<u64> =
            entries.iter().filter_map(|name| self.order.number(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
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

    /// Writes a checkpoint beside its place, then renames it.
    fn replace(&mut self, path: &Path, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let name = path.file_name().expect("a checkpoint has a name").to_string_lossy();
        let draft = self.path.join(format!("{DRAFT}{name}"));
        self.remove(&draft)?;
        self.disk.create_directory(&draft).map_err(unwritten(&draft))?;

        let mut marks = Vec::new();
        for (name, parts) in self.files(checkpoint) {
            let file = draft.join(name);
            let parts = parts
                .map_err(|error| CheckpointError::TooManyTensors { path: file.clone(), error })?;
            let (written, mark) =
                rayon::join(|| self.disk.write(&file, &parts), || FileMark::of(name, &parts));
            written.map_err(unwritten(&file))?;
            marks.push(mark);
        }

        let manifest = Manifest::new(&self.plan, self.seed.0, checkpoint.facts.clone(), marks);
        let file = draft.join(MANIFEST);
        let manifest = [Cow::Owned(manifest.to_json().into())];
        self.disk.write(&file, &manifest).map_err(unwritten(&file))?;
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
    ) -> impl Iterator<Item = (&'static str, Parts<'c>)> + use<'c> {
        let Checkpoint { model, state, .. } = checkpoint;
        let whole = |bytes| vec![Cow::Owned(bytes)];
        let model = model
            .iter()
            .map(move |model| (MODEL, model_bytes(model, &BTreeMap::new(), None).map(whole)));
        let tensors = tensors::FILES.into_iter();
        let tensors = tensors.map(|(content, name)| (name, tensors::state_file(state, content)));
        let records =
            std::iter::once_with(move || (RECORDS, Ok(whole(messagepack::encode(&state.records)))));
        model.chain(tensors).chain(records)
    }

    /// Removes all but the newest up to `written`, and drafts. A failure leaves an old checkpoint and is logged.
    fn prune(&mut self, written: u64) {
        let Ok(names) = self.entries() else { return };
        let numbers = names.iter().filter_map(|name| self.order.number(name));
        let mut older: Vec<u64> = numbers.filter(|number| *number < written).collect();
        older.sort_unstable();
        older.truncate((older.len() + 1).saturating_sub(self.keep));
        let drafts = names.into_iter().filter(|name| name.starts_with(DRAFT));
        let order = self.order;
        for name in older.into_iter().map(|number| order.name(number)).chain(drafts) {
            if let Err(error) = self.remove(&self.path.join(name)) {
                warn!(%error, "an old checkpoint was not removed");
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

/// The content of a file.
type Parts<'c> = Result<Vec<Cow<'c, [u8]>>, HeaderTooLong>;

fn unwritten(path: &Path) -> impl FnOnce(io::Error) -> CheckpointError + use<> {
    CheckpointError::io(path, "cannot be written")
}

impl Order {
    fn prefix(self) -> &'static str {
        match self {
            Self::Clocks => "clock-",
            Self::Records => "record-",
        }
    }

    /// The number of a checkpoint. `None` where it is ordered by records and has none.
    fn of(self, facts: &Facts) -> Option<u64> {
        match self {
            Self::Clocks => Some(facts.clock),
            Self::Records => facts.first_record,
        }
    }

    fn name(self, number: u64) -> String {
        format!("{}{number:04}", self.prefix())
    }

    /// The number in a name.
    fn number(self, text: &str) -> Option<u64> {
        let number = text.strip_prefix(self.prefix())?.parse().ok()?;
        (self.name(number) == text).then_some(number)
    }
}

/// The prefix of a name while its checkpoint is being written.
const DRAFT: &str = ".part-";

const MANIFEST: &str = "manifest.json";
const MODEL: &str = "model.safetensors";
const RECORDS: &str = "state.msgpack";
const CANNOT_READ: &str = "cannot be read";
const CANNOT_LIST: &str = "cannot be listed";
