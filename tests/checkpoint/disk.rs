//! A disk that fails at any step leaves the checkpoint before whole.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gaia_checkpoint::{Checkpoint, Checkpoints, Disk, Facts, Filesystem};
use gaia_core::types::{Content, Model, ModelLayout, Seed, State, TableLayout, Tensor};
use tempfile::tempdir;

/// What becomes of the step at which the disk fails.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// Nothing.
    Refused,
    /// Half of what was to be written.
    Torn,
    /// It is done, and the process ends before it hears of that.
    Killed,
}

/// Fails at one step and at all after it.
struct Failing {
    steps_left: Arc<AtomicUsize>,
    how: Failure,
}

impl Failing {
    /// Takes a step, unless it is this one that fails: `half` is what a torn one does.
    fn step(
        &mut self,
        whole: impl FnOnce(&mut Filesystem) -> io::Result<()>,
        half: impl FnOnce(&mut Filesystem) -> io::Result<()>,
    ) -> io::Result<()> {
        let left = self.steps_left.load(Ordering::Relaxed);
        self.steps_left.store(left.saturating_sub(1), Ordering::Relaxed);
        let disk = &mut Filesystem::new();
        match (left, self.how) {
            (2.., _) => return whole(disk),
            (1, Failure::Torn) => half(disk)?,
            (1, Failure::Killed) => whole(disk)?,
            _ => {}
        }
        Err(io::Error::other("the disk is full"))
    }
}

impl Disk for Failing {
    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        self.step(|disk| disk.create_directory(path), |_| Ok(()))
    }

    fn write(&mut self, path: &Path, parts: &[Cow<'_, [u8]>]) -> io::Result<()> {
        let whole = parts.concat();
        let half = [Cow::Borrowed(&whole[..whole.len() / 2])];
        self.step(|disk| disk.write(path, parts), |disk| disk.write(path, &half))
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        self.step(|disk| disk.sync_directory(path), |_| Ok(()))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|disk| disk.rename(from, to), |_| Ok(()))
    }

    fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        if !path.exists() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.step(
            |disk| disk.remove_directory(path),
            |_| std::fs::remove_file(path.join("manifest.json")),
        )
    }
}

/// A checkpoint whose every part says which clock it is of.
fn checkpoint(clock: u64) -> Checkpoint {
    let table = TableLayout { name: "weights".into(), rows: 3, width: 2 };
    let mut model = Model::zeros(Arc::new(ModelLayout::new(vec![table])));
    model.values.fill(clock as f32);
    let mut state = State::default();
    for (name, content) in
        [("a", Content::Values), ("b", Content::Changes), ("c", Content::Optimizer)]
    {
        let values = vec![clock as f32; 100];
        state.tensors.insert(name.into(), Tensor { content, values });
    }
    state.records.insert("clock".into(), vec![clock as u8; 50].into());
    Checkpoint { facts: Facts { clock, ..Facts::default() }, model: Some(model), state }
}

fn checkpoints(path: &Path, keep: usize) -> Checkpoints {
    Checkpoints::new(path, 1, Seed(1), keep)
}

#[test]
fn a_disk_that_fails_at_any_step_leaves_an_older_checkpoint_whole() {
    for how in [Failure::Refused, Failure::Torn, Failure::Killed] {
        for keep in [1, 2] {
            let mut reached_the_end = false;
            for step in 1..100 {
                let directory = tempdir().unwrap();
                let path = directory.path().join("checkpoints");
                checkpoints(&path, keep).write(&checkpoint(10)).unwrap();
                checkpoints(&path, keep).write(&checkpoint(20)).unwrap();
                let steps_left = Arc::new(AtomicUsize::new(step));
                let disk = Failing { steps_left: steps_left.clone(), how };
                let written =
                    Checkpoints::on(Box::new(disk), &path, 1, Seed(1), keep).write(&checkpoint(30));
                let newest = checkpoints(&path, keep).newest().unwrap().unwrap();
                let clock = newest.facts.clock;
                assert!(clock == 20 || clock == 30, "{how:?} at step {step}: {clock}");
                assert!(clock == 30 || written.is_err(), "{how:?} at step {step}");
                assert_eq!(newest.state, checkpoint(clock).state);
                // Whatever was left lying about, the next one is written, and in the end there is no more than is kept.
                checkpoints(&path, keep).write(&checkpoint(30)).unwrap();
                assert_eq!(checkpoints(&path, keep).newest().unwrap().unwrap().facts.clock, 30);
                let left = std::fs::read_dir(&path).unwrap().count();
                assert_eq!(left, keep, "{how:?} at step {step}");
                if steps_left.load(Ordering::Relaxed) > 0 {
                    reached_the_end = true;
                    break;
                }
            }
            assert!(reached_the_end, "a checkpoint takes fewer than 100 steps");
        }
    }
}

#[test]
fn a_state_that_no_file_has_room_for_is_refused_and_the_checkpoint_before_stays() {
    let directory = tempdir().unwrap();
    checkpoints(directory.path(), 1).write(&checkpoint(10)).unwrap();

    let mut large = checkpoint(20);
    let tensor = Tensor { content: Content::Changes, values: vec![0.0] };
    large.state.tensors.insert("n".repeat(100_000_000), tensor);
    let refused = checkpoints(directory.path(), 1).write(&large).unwrap_err().to_string();
    assert!(refused.contains("residuals.safetensors cannot be written: found 100"), "{refused}");
    assert!(refused.contains("names and shapes of 2 tensors"), "{refused}");

    let newest = checkpoints(directory.path(), 1).newest().unwrap().unwrap();
    assert_eq!(newest.state, checkpoint(10).state);
}

#[test]
fn the_newest_are_kept_and_one_written_again_is_not_lost() {
    let directory = tempdir().unwrap();
    let mut three = checkpoints(directory.path(), 3);
    for clock in [1, 2, 9, 10, 11, 12_345] {
        three.write(&checkpoint(clock)).unwrap();
    }
    assert_eq!(three.numbers().unwrap(), [10, 11, 12_345]);
    // A run that has gone back writes what it comes by again, and what is later stays until it is reached.
    three.write(&checkpoint(11)).unwrap();
    assert_eq!(three.numbers().unwrap(), [10, 11, 12_345]);
    // A damaged one is rewritten.
    std::fs::write(directory.path().join("clock-0011/state.msgpack"), "").unwrap();
    three.write(&checkpoint(11)).unwrap();
    assert_eq!(three.read(&directory.path().join("clock-0011")).unwrap().facts.clock, 11);
}
