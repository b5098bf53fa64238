//! Checkpoints of a node and its log together: state and what has come since make the node as it was.

use std::fs;
use std::path::Path;

use gaia_checkpoint::{
    Checkpoint, CheckpointError, Checkpoints, Facts, LogConfig, NodeStore, NodeStoreConfig,
    Recovered, Resumed,
};
use gaia_core::log::Owner;
use gaia_core::types::{Clock, Seed, State};
use tempfile::tempdir;

/// A node that keeps all that it received.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    received: Vec<u8>,
    /// Of which so much is from a checkpoint.
    restored: usize,
}

fn config() -> NodeStoreConfig {
    let owner = Owner { plan: 5, node: "virginia/server0".into() };
    let log = LogConfig { owner, segment_bytes: 120, record_bytes_max: 100 };
    NodeStoreConfig { log, seed: Seed(1), keep: 2 }
}

fn restore(resumed: Option<Resumed>) -> Result<Node, CheckpointError> {
    let received = resumed.map_or(Vec::new(), |resumed| resumed.state.records["received"].to_vec());
    Ok(Node { restored: received.len(), received })
}

fn recover(path: &Path) -> Result<(NodeStore, Node, Recovered), CheckpointError> {
    NodeStore::recover(path, config(), restore, |node: &mut Node, record| {
        node.received.extend(record.body);
        Ok(())
    })
}

/// The clock of all checkpoints: they are told apart by their records.
const CLOCK: Clock = Clock(3);

/// One record of one byte.
fn write(store: &mut NodeStore, node: &mut Node, byte: u8) {
    store.append(&[byte]).unwrap();
    node.received.push(byte);
    store.sync().unwrap();
}

fn state(node: &Node) -> State {
    let mut state = State::default();
    state.records.insert("received".into(), node.received.clone().into());
    state
}

fn keep(store: &mut NodeStore, node: &Node) {
    let begun = store.begin_checkpoint(CLOCK, state(node)).unwrap();
    store.end_checkpoint(begun.write()).unwrap();
}

fn segments(store: &NodeStore) -> Vec<u64> {
    store.log().segments().collect()
}

#[test]
fn a_node_goes_on_from_its_newest_checkpoint_and_what_was_logged_after_it() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("nodes/virginia/server-0");
    let mut expected = Node::default();
    for run in 0..8 {
        let (mut store, mut node, recovered) = recover(&path).unwrap();
        assert_eq!(node.received, expected.received);
        assert_eq!(recovered.records as usize, node.received.len() - node.restored);
        for byte in 0..7 {
            write(&mut store, &mut node, run * 10 + byte);
            if (run + byte) % 5 == 4 {
                keep(&mut store, &node);
            }
        }
        expected = node;
    }
}

#[test]
fn the_last_checkpoints_are_kept_and_of_the_log_what_they_need() {
    let directory = tempdir().unwrap();
    let (mut store, mut node, _) = recover(directory.path()).unwrap();
    for byte in 0..6 {
        write(&mut store, &mut node, byte);
    }
    // Each segment takes two.
    assert_eq!(segments(&store), [0, 2, 4, 6]);
    for (received, kept, left) in [
        (7, &[7][..], &[6][..]),
        (8, &[7, 8], &[6, 8]),
        (9, &[8, 9], &[8]),
        (12, &[9, 12], &[8, 10, 12]),
    ] {
        while node.received.len() < received {
            write(&mut store, &mut node, received as u8);
        }
        keep(&mut store, &node);
        let names = fs::read_dir(directory.path().join("checkpoints")).unwrap();
        let mut names: Vec<String> =
            names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, kept.iter().map(|at| format!("record-{at:04}")).collect::<Vec<_>>());
        assert_eq!(segments(&store), left, "after {received}");
    }
    // The same again is the same, though its clock has not moved either.
    keep(&mut store, &node);
    drop(store);
    let (_, again, _) = recover(directory.path()).unwrap();
    assert_eq!((again.restored, again.received), (12, node.received));
}

#[test]
fn the_log_goes_on_while_a_checkpoint_is_written_and_keeps_what_the_one_before_needs() {
    let directory = tempdir().unwrap();
    let (mut store, mut node, _) = recover(directory.path()).unwrap();
    (0..5).for_each(|byte| write(&mut store, &mut node, byte));
    keep(&mut store, &node);
    (5..9).for_each(|byte| write(&mut store, &mut node, byte));
    keep(&mut store, &node);
    assert_eq!(segments(&store), [4, 6, 8]);

    // The process ends before the third is written, and after it is, but before that is known.
    for is_written in [false, true] {
        (9..14).for_each(|byte| write(&mut store, &mut node, byte));
        let begun = store.begin_checkpoint(CLOCK, state(&node)).unwrap();
        let began_at = node.received.len();
        (14..17).for_each(|byte| write(&mut store, &mut node, byte));
        let before = segments(&store);
        assert!(before.contains(&8), "{before:?}");
        let written = is_written.then(|| begun.write());
        assert_eq!(segments(&store), before);

        drop((store, written));
        let (again, found, _) = recover(directory.path()).unwrap();
        assert_eq!(found.received, node.received);
        assert_eq!(found.restored, if is_written { began_at } else { 9 });
        (store, node) = (again, found);
    }
}

#[test]
fn a_checkpoint_that_could_not_be_written_leaves_the_ones_before_and_their_log() {
    let directory = tempdir().unwrap();
    let (mut store, mut node, _) = recover(directory.path()).unwrap();
    (0..5).for_each(|byte| write(&mut store, &mut node, byte));
    keep(&mut store, &node);
    (5..9).for_each(|byte| write(&mut store, &mut node, byte));
    let before = segments(&store);

    let checkpoints = directory.path().join("checkpoints");
    let aside = directory.path().join("aside");
    fs::rename(&checkpoints, &aside).unwrap();
    fs::write(&checkpoints, "no folder").unwrap();
    let begun = store.begin_checkpoint(CLOCK, state(&node)).unwrap();
    let refused = store.end_checkpoint(begun.write()).unwrap_err();
    assert!(refused.to_string().contains("checkpoints"), "{refused}");
    assert_eq!(segments(&store), before);

    fs::remove_file(&checkpoints).unwrap();
    fs::rename(&aside, &checkpoints).unwrap();
    keep(&mut store, &node);
    drop(store);
    let (_, found, _) = recover(directory.path()).unwrap();
    assert_eq!((found.restored, found.received), (9, node.received));
}

#[test]
fn where_the_newest_checkpoint_is_damaged_the_one_before_and_a_longer_log_give_the_same_node() {
    let directory = tempdir().unwrap();
    let (mut store, mut node, _) = recover(directory.path()).unwrap();
    for byte in 0..20 {
        write(&mut store, &mut node, byte);
        if byte % 6 == 5 {
            keep(&mut store, &node);
        }
    }
    drop(store);
    let (store, whole, _) = recover(directory.path()).unwrap();
    assert_eq!((whole.restored, &whole.received), (18, &node.received));
    drop(store);
    let damage = |name: &str| {
        fs::write(directory.path().join("checkpoints").join(name).join("state.msgpack"), "")
            .unwrap();
    };
    damage("record-0018");
    let (store, older, _) = recover(directory.path()).unwrap();
    assert_eq!((older.restored, &older.received), (12, &node.received));
    drop(store);
    damage("record-0012");
    let error = recover(directory.path()).err().unwrap();
    assert!(matches!(error, CheckpointError::NoneWhole { .. }), "{error}");
}

/// Receives a byte that is not written, and keeps a checkpoint in its place.
fn replace(store: &mut NodeStore, node: &mut Node, byte: u8) {
    node.received.push(byte);
    let begun = store.begin_replacing(CLOCK, state(node)).unwrap();
    store.end_checkpoint(begun.write()).unwrap();
}

#[test]
fn a_checkpoint_in_place_of_inputs_is_not_taken_for_the_one_before() {
    let directory = tempdir().unwrap();
    let (mut store, mut node, _) = recover(directory.path()).unwrap();
    write(&mut store, &mut node, 0);
    keep(&mut store, &node);
    for byte in 1..5 {
        replace(&mut store, &mut node, byte);
        drop(store);
        let (again, found, recovered) = recover(directory.path()).unwrap();
        assert_eq!((&found.received, recovered.records), (&node.received, 0));
        store = again;
        replace(&mut store, &mut node, 10 * byte);
    }
    write(&mut store, &mut node, 7);
    drop(store);
    let (_, found, recovered) = recover(directory.path()).unwrap();
    assert_eq!((found.received, recovered.records), (node.received, 1));
}

#[test]
fn a_log_that_goes_on_from_a_checkpoint_in_place_of_inputs_does_so_from_none_before() {
    for records in 0..3 {
        let directory = tempdir().unwrap();
        let (mut store, mut node, _) = recover(directory.path()).unwrap();
        (0..3).for_each(|byte| write(&mut store, &mut node, byte));
        keep(&mut store, &node);
        write(&mut store, &mut node, 3);
        replace(&mut store, &mut node, 4);
        for byte in 5..5 + records {
            drop(store);
            (store, node, _) = recover(directory.path()).unwrap();
            write(&mut store, &mut node, byte);
        }
        drop(store);

        let newest = directory.path().join("checkpoints/record-0004");
        let (whole, found, _) = recover(directory.path()).unwrap();
        assert_eq!((found.restored, found.received), (5, node.received));
        drop(whole);
        fs::write(newest.join("state.msgpack"), "").unwrap();
        let said = recover(directory.path()).err().unwrap().to_string();
        let expected =
            "log goes on from checkpoint record-0004 alone, expected that checkpoint whole";
        assert!(said.ends_with(expected), "{said}");
    }
}

#[test]
fn a_checkpoint_whose_records_the_log_lacks_is_refused() {
    let directory = tempdir().unwrap();
    let (mut store, mut node, _) = recover(directory.path()).unwrap();
    for byte in 0..9 {
        write(&mut store, &mut node, byte);
    }
    keep(&mut store, &node);
    drop(store);
    let log = directory.path().join("log");
    let last = log.join("00000000000000000008.log");
    let header = &fs::read(&last).unwrap()[..44];
    fs::write(&last, header).unwrap();
    let said = recover(directory.path()).err().unwrap().to_string();
    assert!(said.ends_with("log lacks record 9: its next record is 8"), "{said}");
    fs::remove_dir_all(&log).unwrap();
    let said = recover(directory.path()).err().unwrap().to_string();
    assert!(said.ends_with("log lacks record 9: it has no records"), "{said}");
}

#[test]
fn a_checkpoint_of_a_run_is_none_of_a_node() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("checkpoints");
    let mut of_run = Checkpoints::new(&path, 5, Seed(1), 1);
    let facts = Facts { clock: CLOCK.0, ..Facts::default() };
    let checkpoint = Checkpoint { facts, model: None, state: state(&Node::default()) };
    let written = of_run.write(&checkpoint).unwrap();
    assert!(recover(directory.path()).is_ok(), "it is of another name");
    fs::rename(written, path.join("record-0003")).unwrap();
    let said = recover(directory.path()).err().unwrap().to_string();
    assert!(
        said.contains("manifest.json cannot be read: found no record number of a log"),
        "{said}"
    );
}

#[test]
fn a_checkpoint_holds_nothing_that_a_crash_may_take() {
    let directory = tempdir().unwrap();
    let (mut store, mut node, _) = recover(directory.path()).unwrap();
    write(&mut store, &mut node, 0);
    store.append(&[1]).unwrap();
    assert_eq!(store.log().synced(), 1);
    let _begun = store.begin_checkpoint(CLOCK, state(&node)).unwrap();
    assert_eq!(store.log().synced(), 2);
}
