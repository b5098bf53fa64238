//! Tests that what was acknowledged survives a loss of power at any moment.
//!
//! [`Machine`] writes real files, and knows what its disk has of them: the bytes and the names of the last syncs. At
//! each call that waits for the disk, and after each promise, it lays out what a loss of power would leave: once with
//! the names that were synced, and once with all names that were given, since a file system may write names early. From
//! each of them all that had been promised by then must be read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::{TempDir, tempdir};

use super::disk::{Filesystem, Syncer};
use super::log_disk::{LogDisk, LogFolder};
use super::{Checkpoint, CheckpointError, Checkpoints, Facts, LogConfig, LogDirectory, StateFile};
use gaia_core::log::{Owner, Record};
use gaia_core::types::{Seed, State};

/// A machine that can lose its power. All clones are the same one.
#[derive(Clone)]
struct Machine(Arc<Mutex<Inner>>);

struct Inner {
    root: TempDir,
    /// What the disk has of each file, by inode. The file is kept open, so that no later one has its inode.
    files: BTreeMap<u64, (File, Vec<u8>)>,
    /// What the disk has of each directory.
    directories: BTreeMap<u64, (File, Names)>,
    /// The numbers of what was acknowledged and is needed.
    promised: Range<u64>,
    outages: Vec<Outage>,
    /// Whether the process is killed at the next sync of a directory.
    killed_at_names: bool,
}

type Names = BTreeMap<OsString, Entry>;

/// What a name in a directory refers to.
#[derive(Clone, Copy)]
struct Entry {
    inode: u64,
    is_directory: bool,
}

/// What a loss of power leaves.
struct Outage {
    left: TempDir,
    promised: Range<u64>,
}

impl Machine {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Inner {
            root: tempdir().unwrap(),
            files: BTreeMap::new(),
            directories: BTreeMap::new(),
            promised: 0..0,
            outages: Vec::new(),
            killed_at_names: false,
        })))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.lock().unwrap().root.path().join(name)
    }

    fn open_log(&self) -> LogDirectory {
        let path = self.path("log");
        let folder = LogFolder::open_with(&path, self.clone()).unwrap();
        let nothing = |_: Record<'_>| Ok::<_, CheckpointError>(());
        LogDirectory::recover_on(Box::new(folder), &path, config(), 0, nothing).unwrap().0
    }

    /// Acknowledges these: from here on they must survive.
    fn promise(&self, numbers: Range<u64>) {
        let mut inner = self.0.lock().unwrap();
        inner.promised = numbers;
        inner.lose_power();
    }

    /// Kills the process that next syncs the names in a directory, before it does so.
    fn kill_at_names(&self) {
        self.0.lock().unwrap().killed_at_names = true;
    }

    /// What a loss of power leaves of a file.
    fn left_of(&self, name: &str) -> Vec<u8> {
        let inner = self.0.lock().unwrap();
        fs::read(inner.outage(&inner.synced_names()).left.path().join(name)).unwrap()
    }

    /// Passes what each loss of power has left to a function, with the numbers that were promised before it.
    fn check(&self, read: impl Fn(&Path, Range<u64>)) {
        let outages = std::mem::take(&mut self.0.lock().unwrap().outages);
        assert!(!outages.is_empty());
        outages.into_iter().for_each(|outage| read(outage.left.path(), outage.promised));
    }

    fn check_log(&self) {
        self.check(|left, promised| {
            let (mut next, path) = (promised.start, left.join("log"));
            let read = LogDirectory::recover(&path, config(), promised.start, |record| {
                assert_eq!((record.number, record.body), (next, &*body(next)));
                next += 1;
                Ok::<_, CheckpointError>(())
            });
            read.unwrap();
            assert!(next >= promised.end, "{promised:?} were acknowledged, {next} is the next");
        });
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        inner.lose_power();
        let inode = file.metadata()?.ino();
        let path = path_of(inode, inner.root.path()).expect("a file that is synced has a name");
        inner.files.insert(inode, (File::open(&path)?, fs::read(&path)?));
        Ok(())
    }
}

impl Syncer for Machine {
    fn sync_all(&self, file: &File) -> io::Result<()> {
        self.sync_file(file)
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        self.sync_file(file)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        inner.lose_power();
        if std::mem::take(&mut inner.killed_at_names) {
            return Err(io::Error::other("the process is killed"));
        }
        let directory = File::open(path)?;
        inner.directories.insert(directory.metadata()?.ino(), (directory, names_in(path)));
        Ok(())
    }
}

impl Inner {
    /// Lays out what a loss of power would leave, in both ways.
    fn lose_power(&mut self) {
        let mut given = BTreeMap::new();
        collect_names(self.root.path(), &mut given);
        let outages = [self.synced_names(), given].map(|names| self.outage(&names));
        self.outages.extend(outages);
    }

    fn synced_names(&self) -> BTreeMap<u64, Names> {
        let directories = self.directories.iter();
        directories.map(|(inode, (_, names))| (*inode, names.clone())).collect()
    }

    /// What is left where the directories have these names.
    fn outage(&self, directories: &BTreeMap<u64, Names>) -> Outage {
        let left = tempdir().unwrap();
        self.lay_out(directories, inode_of(self.root.path()), left.path());
        Outage { left, promised: self.promised.clone() }
    }

    fn lay_out(&self, directories: &BTreeMap<u64, Names>, directory: u64, to: &Path) {
        for (name, entry) in directories.get(&directory).into_iter().flatten() {
            let to = to.join(name);
            if entry.is_directory {
                fs::create_dir(&to).unwrap();
                self.lay_out(directories, entry.inode, &to);
            } else {
                let bytes = self.files.get(&entry.inode).map_or(&[][..], |(_, bytes)| bytes);
                fs::write(to, bytes).unwrap();
            }
        }
    }
}

fn inode_of(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

fn names_in(directory: &Path) -> Names {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let entry = |entry: fs::DirEntry| {
        let metadata = entry.metadata().unwrap();
        let (inode, is_directory) = (metadata.ino(), metadata.is_dir());
        (entry.file_name(), Entry { inode, is_directory })
    };
    entries.map(entry).collect()
}

/// Collects the names in a directory and in all those below it.
fn collect_names(directory: &Path, collected: &mut BTreeMap<u64, Names>) {
    let names = names_in(directory);
    for name in names.iter().filter(|(_, entry)| entry.is_directory).map(|(name, _)| name) {
        collect_names(&directory.join(name), collected);
    }
    collected.insert(inode_of(directory), names);
}

/// The path of a file in a directory or below it.
fn path_of(inode: u64, directory: &Path) -> Option<PathBuf> {
    names_in(directory).into_iter().find_map(|(name, entry)| {
        let path = directory.join(name);
        match entry.is_directory {
            true => path_of(inode, &path),
            false => (entry.inode == inode).then_some(path),
        }
    })
}

/// Every third record begins a segment.
fn config() -> LogConfig {
    let owner = Owner { plan: 1, node: "virginia/server0".into() };
    LogConfig { owner, segment_bytes: 210, record_bytes_max: 200 }
}

fn body(number: u64) -> Vec<u8> {
    format!("record {number:03}").into_bytes()
}

/// Appends a record and syncs it. Returns the number of the next one.
fn append(log: &mut LogDirectory) -> Result<u64, CheckpointError> {
    let number = log.append(&body(log.next_number()))?;
    log.sync()?;
    Ok(number + 1)
}

fn state(clock: u64) -> State {
    let records = BTreeMap::from([("clock".to_owned(), vec![clock as u8].into())]);
    State { tensors: BTreeMap::new(), records }
}

#[test]
fn an_acknowledged_record_survives_a_loss_of_power_at_any_moment() {
    let machine = Machine::new();
    let mut log = machine.open_log();
    for _ in 0..7 {
        let next = append(&mut log).unwrap();
        machine.promise(0..next);
    }
    assert!(log.segments().count() > 2);

    log.drop_before(5);
    machine.promise(5..7);
    for _ in 0..3 {
        let next = append(&mut log).unwrap();
        machine.promise(5..next);
    }
    machine.check_log();
}

/// Whoever opens the log acts on what a killed process had written, synced or not.
#[test]
fn a_record_that_was_read_again_survives_a_loss_of_power() {
    let machine = Machine::new();
    let mut log = machine.open_log();
    append(&mut log).unwrap();
    for number in [1, 2] {
        log.append(&body(number)).unwrap();
    }
    log.flush().unwrap();
    drop(log);

    let log = machine.open_log();
    assert_eq!(log.synced(), 3);
    machine.promise(0..3);
    machine.check_log();
}

/// Recovery reads one segment at a time, so that the length of one bounds the memory that it needs.
#[test]
fn a_log_that_does_not_wait_for_the_disk_has_segments_each_of_which_proves_those_before() {
    let machine = Machine::new();
    let mut log = machine.open_log();
    for number in 0..18 {
        log.append(&body(number)).unwrap();
        log.flush().unwrap();
        machine.promise(0..log.synced());
    }
    assert_eq!(log.segments().collect::<Vec<_>>(), [0, 4, 8, 12, 16]);
    machine.check_log();
}

#[test]
fn a_segment_whose_name_a_killed_process_has_not_synced_survives_what_is_acknowledged_in_it() {
    let machine = Machine::new();
    let mut log = machine.open_log();
    machine.kill_at_names();
    while append(&mut log).is_ok() {}
    drop(log);

    let mut log = machine.open_log();
    assert_eq!(log.segments().count(), 2, "it was killed as it began the second segment");
    let next = append(&mut log).unwrap();
    machine.promise(0..next);
    machine.check_log();
}

#[test]
fn what_an_operation_of_a_log_has_synced_is_on_the_disk_when_it_returns() {
    let machine = Machine::new();
    let mut folder = LogFolder::open_with(&machine.path("log"), machine.clone()).unwrap();
    let left = || String::from_utf8(machine.left_of("log/a")).unwrap();

    folder.create("a", b"header").unwrap();
    assert_eq!(left(), "header");
    folder.append("a", b" 1234").unwrap();
    folder.sync("a").unwrap();
    assert_eq!(left(), "header 1234");
    folder.rewrite("a", 7, b"5678").unwrap();
    assert_eq!(left(), "header 5678");
    folder.cut("a", 9).unwrap();
    assert_eq!(left(), "header 56");
}

#[test]
fn a_state_that_was_written_survives_a_loss_of_power_at_any_moment() {
    let machine = Machine::new();
    let name = "nodes/coordinator/state";
    let file = StateFile::with(&machine.path(name), 7, machine.clone()).unwrap();
    for clock in 1..4 {
        file.write(&state(clock)).unwrap();
        machine.promise(0..clock);
    }

    machine.check(|left, promised| {
        let read = StateFile::new(&left.join(name), 7).unwrap().read().unwrap();
        let clock = read.map_or(0, |state| u64::from(state.records["clock"][0]));
        assert!(clock >= promised.end, "{clock}, {promised:?}");
    });
}

#[test]
fn a_checkpoint_that_was_written_survives_a_loss_of_power_at_any_moment() {
    let machine = Machine::new();
    let disk = Box::new(Filesystem::with(machine.clone()));
    let mut checkpoints = Checkpoints::on(disk, &machine.path("checkpoints"), 1, Seed(1), 1);
    for clock in 1..4 {
        let facts = Facts { clock, ..Facts::default() };
        checkpoints.write(&Checkpoint { facts, model: None, state: state(clock) }).unwrap();
        machine.promise(0..clock);
    }

    machine.check(|left, promised| {
        let newest = Checkpoints::new(&left.join("checkpoints"), 1, Seed(1), 1).newest().unwrap();
        let clock = newest.map_or(0, |resumed| resumed.facts.clock);
        assert!(clock >= promised.end, "{clock}, {promised:?}");
    });
}
