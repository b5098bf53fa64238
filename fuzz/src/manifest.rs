//! The manifest of a checkpoint whose other files are whole, as it is and sealed again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gaia_checkpoint::{
    Checkpoint, CheckpointError, Checkpoints, ClockOf, Facts, LinkMark, Resumed,
};
use gaia_core::types::{Content, Model, ModelLayout, Seed as Chance, State, TableLayout, Tensor};

use super::files::{check_error, in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "manifest", check, seeds };

fn check(data: &[u8]) {
    in_folder(|folder| {
        for of_node in [false, true] {
            let (checkpoints, path) = written(folder, of_node);
            check_answer(&path, read(&checkpoints, &path, data));
            if let Err(CheckpointError::WrongChecksum { found, .. }) = checkpoints.read(&path)
                && let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_slice(data)
            {
                fields.insert("crc32".into(), found.into());
                let sealed = serde_json::Value::Object(fields).to_string();
                check_answer(&path, read(&checkpoints, &path, sealed.as_bytes()));
            }
        }
    });
}

fn read(
    checkpoints: &Checkpoints,
    path: &Path,
    manifest: &[u8],
) -> Result<Resumed, CheckpointError> {
    write(path, MANIFEST, manifest);
    checkpoints.read(path)
}

fn check_answer(path: &Path, answer: Result<Resumed, CheckpointError>) {
    match answer {
        Ok(resumed) => assert_eq!(resumed.state, state(), "files are as their marks say"),
        Err(error) => {
            assert!(error.is_bad_input());
            check_error(&error, &path.join(MANIFEST));
        }
    }
}

/// A checkpoint that is there once for each thread, but for its manifest.
fn written(folder: &Path, of_node: bool) -> (Checkpoints, PathBuf) {
    let folder = folder.join("manifests").join(if of_node { "node" } else { "run" });
    let mut checkpoints = Checkpoints::new(&folder, 7, Chance(1), 1);
    if of_node {
        checkpoints = checkpoints.by_records();
    }
    let name = if of_node { "record-0077" } else { "clock-0008" };
    let path = folder.join(name);
    if !path.exists() {
        checkpoints.write(&checkpoint(of_node)).expect("room for a small checkpoint");
    }
    (checkpoints, path)
}

fn checkpoint(of_node: bool) -> Checkpoint {
    let table = TableLayout { name: "weights".into(), rows: 3, width: 2 };
    let model = Model::zeros(Arc::new(ModelLayout::new(vec![table])));
    let dc = |name: &str, clock| ClockOf {
        data_center: name.into(),
        clock,
        workers: vec![clock, clock + 1],
    };
    let (from, to) = ("north".to_owned(), "south".to_owned());
    let facts = Facts {
        clock: 8,
        first_record: of_node.then_some(77),
        time_ns: 1_234_567,
        clocks: vec![dc("north", 8), dc("south", 9)],
        watermarks: vec![LinkMark { from, to, shard: 0, sent: 30, received: 29 }],
    };
    Checkpoint { facts, model: (!of_node).then_some(model), state: state() }
}

fn state() -> State {
    let mut state = State::default();
    let values = vec![1.0, -2.0];
    state.tensors.insert("a".into(), Tensor { content: Content::Values, values });
    state.records.insert("clock".into(), vec![8].into());
    state
}

fn seeds() -> Vec<Seed> {
    let manifest = |of_node| {
        let mut text = Vec::new();
        in_folder(|folder| {
            let (_, path) = written(&folder.join("seeds"), of_node);
            text = fs::read(path.join(MANIFEST)).expect("a manifest that was written");
        });
        text
    };
    vec![("node", manifest(true)), ("run", manifest(false))]
}

const MANIFEST: &str = "manifest.json";
