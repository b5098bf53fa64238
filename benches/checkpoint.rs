//! What a checkpoint of a node costs: writing it, beside a file of as many bytes that is written and synced; and how much longer
//! the node's log takes in the meantime, on the same disk.
//!
//! A checkpoint is its checksum and one copy to a buffer that the disk reads. So a disk that is slower
//! than memory decides. The node trains on, but waits for its log, and the log for the disk.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench measures, prints and writes beside itself"
)]

#[allow(dead_code, reason = "other benches measure processor time")]
mod rows;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Instant;

use gaia_checkpoint::{BegunCheckpoint, CheckpointError, LogConfig, NodeStore, NodeStoreConfig};
use gaia_core::log::Owner;
use gaia_core::types::{Clock, Content, Seed, State, Tensor};

use rows::{Rows, median};

/// The parameters of a state.
const PARAMETERS: usize = 64 << 20;
/// What a small clock adds to the log.
const GROUP_BYTES: usize = 64 << 10;
/// Groups of the log of which a median is taken where nothing else is written.
const GROUPS: usize = 100;

fn main() {
    let mut rows = Rows::new();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("room for checkpoints");
    let mut node = Node::open(&folder.path().join("node"));
    let bare = folder.path().join("bare");
    let bytes = vec![0x5a; 4 * PARAMETERS];

    let [mut wrote, mut bares, mut groups, mut alone] = [const { Vec::new() }; 4];
    for _ in 0..rows.runs() {
        bares.push(seconds(|| write_and_sync(&bare, &bytes)));
        wrote.push(node.write_checkpoint());
        let undisturbed: Vec<f64> = (0..GROUPS).map(|_| node.log_group()).collect();
        alone.push(1e3 * median_of(&undisturbed));
        groups.push(1e3 * median_of(&node.log_during_checkpoint()));
    }

    let megabytes = 4 * PARAMETERS / 1_000_000;
    let name = format!("a checkpoint of {megabytes} MB");
    rows.print(&name, "s", &wrote, ("a file of as many bytes, synced", &bares));
    let name = format!("a group of the log of {} KiB meanwhile", GROUP_BYTES >> 10);
    rows.print(&name, "ms", &groups, ("the same while nothing else is written", &alone));
}

/// A node with its files.
struct Node {
    store: NodeStore,
    state: State,
    group: Vec<u8>,
}

impl Node {
    fn open(path: &Path) -> Self {
        let owner = Owner { plan: 7, node: "virginia/server0".into() };
        let log = LogConfig { owner, segment_bytes: 64 << 20, record_bytes_max: 1 << 20 };
        let config = NodeStoreConfig { log, seed: Seed(1), keep: 1 };
        let nothing = |_: &mut (), _: gaia_core::log::Record<'_>| Ok::<_, CheckpointError>(());
        let (store, ..) =
            NodeStore::recover(path, config, |_| Ok(()), nothing).expect("a new node");

        let values = (0..PARAMETERS).map(|at| at as f32).collect();
        let tensor = Tensor { content: Content::Values, values };
        let state = State { tensors: [("values".into(), tensor)].into(), ..State::default() };
        Self { store, state, group: vec![0xa5; GROUP_BYTES] }
    }

    /// Begins a checkpoint of the state. None has the same first record as another.
    fn begin_checkpoint(&mut self) -> BegunCheckpoint {
        self.log_group();
        self.store.begin_checkpoint(Clock(0), self.state.clone()).expect("a disk that syncs")
    }

    /// The seconds that a checkpoint takes.
    fn write_checkpoint(&mut self) -> f64 {
        let begun = self.begin_checkpoint();
        seconds(|| {
            self.store.end_checkpoint(begun.write()).expect("room for a checkpoint");
        })
    }

    /// The seconds that groups of the log take while a checkpoint is written.
    fn log_during_checkpoint(&mut self) -> Vec<f64> {
        let begun = self.begin_checkpoint();
        let writing = thread::spawn(|| begun.write());
        let mut groups = vec![self.log_group()];
        while !writing.is_finished() {
            groups.push(self.log_group());
        }
        let written = writing.join().expect("a checkpoint is written without a panic");
        self.store.end_checkpoint(written).expect("room for a checkpoint");
        groups
    }

    /// The seconds that a group of the log takes.
    fn log_group(&mut self) -> f64 {
        let store = &mut self.store;
        seconds(|| {
            store.append(&self.group).expect("room for a record");
            store.sync().expect("a disk that syncs");
        })
    }
}

fn write_and_sync(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).expect("room for a file");
    file.write_all(bytes).expect("room for its bytes");
    file.sync_all().expect("a disk that syncs");
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median_of(times: &[f64]) -> f64 {
    median(times).expect("there are times")
}
