//! Checkpoints that are torn, changed, of another run or of another version are refused, by one error that names the
//! file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gaia_checkpoint::{CheckpointError, Checkpoints};
use gaia_core::types::Seed;
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

use super::training::Training;

const APP: &str = "[app]\nkind = \"logistic-regression\"\nbatch = 16\ndata.synthetic = { examples = 300, features = 10, active = 4 }";

const FILES: [&str; 6] = [
    "manifest.json",
    "model.safetensors",
    "optimizer.safetensors",
    "residuals.safetensors",
    "state.msgpack",
    "values.safetensors",
];

/// A small run that was stopped after its first two clocks.
fn stopped() -> (Training, TempDir) {
    let training = Training::new(APP, &["topology.defaults.servers=1"]);
    let directory = tempdir().unwrap();
    let first = training.one_clock(directory.path(), None);
    assert!(matches!(first, gaia_driver::Ending::Interrupted { .. }));
    let from = training.checkpoints(directory.path()).newest().unwrap();
    training.one_clock(directory.path(), from);
    (training, directory)
}

fn refused(checkpoints: &Checkpoints, path: &Path) -> String {
    checkpoints.read(path).expect_err("it is damaged").to_string()
}

#[test]
fn a_checkpoint_is_of_these_files() {
    let (_, directory) = stopped();
    let mut names: Vec<String> = fs::read_dir(directory.path().join("clock-0002"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, FILES);
}

#[test]
fn a_file_that_is_cut_or_lacks_is_refused_by_name_and_the_one_before_is_taken() {
    let (training, directory) = stopped();
    let checkpoints = training.checkpoints(directory.path());
    let path = directory.path().join("clock-0002");
    for name in FILES {
        let file = path.join(name);
        let whole = fs::read(&file).unwrap();
        for length in [0, 1, whole.len() / 2, whole.len() - 1] {
            // The last byte of the manifest is a line's end that nobody needs.
            if name == "manifest.json" && length == whole.len() - 1 {
                continue;
            }
            fs::write(&file, &whole[..length]).unwrap();
            let error = refused(&checkpoints, &path);
            assert!(error.contains(name), "{name} of {length} bytes: {error}");
            assert_eq!(checkpoints.newest().unwrap().unwrap().facts.clock, 1);
        }
        fs::remove_file(&file).unwrap();
        let error = refused(&checkpoints, &path);
        assert!(error.contains(name), "without {name}: {error}");
        fs::write(&file, &whole).unwrap();
    }
    assert_eq!(checkpoints.newest().unwrap().unwrap().facts.clock, 2);
}

#[test]
fn a_checkpoint_of_another_plan_or_version_is_refused() {
    let (training, directory) = stopped();
    let path = directory.path().join("clock-0002");
    let other = Training::new(APP, &["topology.defaults.servers=1", "seed=8"]);
    let error = refused(&other.checkpoints(directory.path()), &path);
    assert!(error.contains("manifest.json is of another run"), "{error}");
    let none = other.checkpoints(directory.path()).newest().unwrap_err();
    assert!(matches!(none, CheckpointError::NoneWhole { .. }), "{none}");
    // How often and how many are kept is no part of what a run is.
    let same = ["topology.defaults.servers=1", "checkpoint.every=2", "checkpoint.keep=9"];
    let same = Training::new(APP, &same);
    assert!(same.checkpoints(directory.path()).read(&path).is_ok());
    let file = path.join("manifest.json");
    let text = fs::read_to_string(&file).unwrap();
    for (from, to) in
        [("\"version\": 4,", "\"version\": 3,"), ("\"program\": \"", "\"program\": \"9")]
    {
        fs::write(&file, text.replace(from, to)).unwrap();
        let error = refused(&training.checkpoints(directory.path()), &path);
        assert!(error.contains("manifest.json is of checkpoint version"), "{error}");
    }
}

/// A manifest whose checksum is right, but whose names lead elsewhere, as nobody but an attacker writes it.
#[test]
fn a_manifest_that_names_files_elsewhere_is_refused_and_they_are_not_read() {
    let (training, directory) = stopped();
    let checkpoints = training.checkpoints(directory.path());
    let path = directory.path().join("clock-0002");
    let outside = directory.path().join("state.msgpack");
    fs::copy(path.join("state.msgpack"), &outside).unwrap();
    let absolute = outside.display().to_string();

    for name in ["../state.msgpack", &absolute, "a/../../state.msgpack", "\u{1b}[2J"] {
        // In place of a file that is needed, and beside all of them.
        for replaced in [true, false] {
            let file = path.join("manifest.json");
            let good = fs::read(&file).unwrap();
            let mut manifest: Manifest = serde_json::from_slice(&good).unwrap();
            let mut found = manifest.files.last().unwrap().clone();
            found.name = name.into();
            if replaced {
                manifest.files.pop();
            }
            manifest.files.push(found);
            manifest.crc32 = 0;
            manifest.crc32 = crc32fast::hash(&serde_json::to_vec(&manifest).unwrap());

            fs::write(&file, serde_json::to_vec(&manifest).unwrap()).unwrap();
            let error = refused(&checkpoints, &path);
            fs::write(&file, good).unwrap();

            let expected = if replaced {
                "`state.msgpack` is not listed".to_owned()
            } else {
                format!("manifest.json cannot be read: lists `{}`", name.escape_default())
            };
            assert!(error.contains(&expected), "{error}\nshould say {expected}");
        }
    }
    assert_eq!(checkpoints.newest().unwrap().unwrap().facts.clock, 2);
}

/// A manifest as its file has it, so that tests can forge one.
#[derive(serde::Serialize, serde::Deserialize)]
struct Manifest {
    version: u32,
    program: String,
    plan: String,
    seed: u64,
    run: gaia_checkpoint::Facts,
    files: Vec<ListedFile>,
    crc32: u32,
}

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct ListedFile {
    name: String,
    bytes: u64,
    crc32: u32,
}

#[cfg(unix)]
#[test]
fn a_link_or_a_pipe_in_a_checkpoint_is_refused_by_name_and_the_one_before_is_taken() {
    let (training, directory) = stopped();
    let checkpoints = training.checkpoints(directory.path());
    let path = directory.path().join("clock-0002");
    for name in FILES {
        let (file, outside) = (path.join(name), directory.path().join("outside"));
        fs::rename(&file, &outside).unwrap();
        std::os::unix::fs::symlink(&outside, &file).unwrap();
        let error = refused(&checkpoints, &path);
        let expected = format!("{name} is a symbolic link, expected a file");
        assert!(error.contains(&expected), "{error}");
        assert_eq!(checkpoints.newest().unwrap().unwrap().facts.clock, 1);

        fs::remove_file(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        let error = refused(&checkpoints, &path);
        let expected = format!("{name} is a pipe, socket or device, expected a file");
        assert!(error.contains(&expected), "{error}");

        fs::remove_file(&file).unwrap();
        fs::rename(&outside, &file).unwrap();
    }
}

/// Only the link goes, whatever it has the name of: the checkpoint to be written, a draft, one to be removed.
#[cfg(unix)]
#[test]
fn nothing_is_written_or_removed_where_links_among_checkpoints_lead() {
    let (training, directory) = stopped();
    let outside = tempdir().unwrap();
    let victim = outside.path().join("values.safetensors");
    fs::write(&victim, "of somebody else").unwrap();
    let from = training.checkpoints(directory.path()).newest().unwrap();
    for name in [".part-clock-0003", "clock-0003", "clock-0000"] {
        std::os::unix::fs::symlink(outside.path(), directory.path().join(name)).unwrap();
    }

    training.one_clock(directory.path(), from);
    assert_eq!(training.checkpoints(directory.path()).newest().unwrap().unwrap().facts.clock, 3);
    assert!(!directory.path().join("clock-0003").is_symlink());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_without_checkpoints_has_no_newest() {
    let directory = tempdir().unwrap();
    for path in [directory.path().to_owned(), directory.path().join("none")] {
        assert!(Checkpoints::new(&path, 1, Seed(1), 1).newest().unwrap().is_none());
    }
}

#[test]
fn state_that_does_not_fit_the_plan_is_an_error() {
    let (training, directory) = stopped();
    let good = training.checkpoints(directory.path()).newest().unwrap().unwrap();
    let names: Vec<String> = good.state.records.keys().cloned().collect();
    for name in names {
        // What MessagePack never uses, a text, nothing at all.
        for bytes in [Some(&b"\xc1"[..]), Some(b"\xa1x"), None] {
            let mut damaged = good.clone();
            match bytes {
                Some(bytes) => damaged.state.records.insert(name.clone(), bytes.into()),
                None => damaged.state.records.remove(&name),
            };
            let error = training.resume(directory.path(), damaged).err().unwrap().to_string();
            assert!(error.contains("clock-0002") && error.contains(&name), "{name}: {error}");
        }
    }
    for name in good.state.tensors.keys() {
        let mut damaged = good.clone();
        damaged.state.tensors.get_mut(name).unwrap().values.push(0.0);
        let error = training.resume(directory.path(), damaged).err().unwrap().to_string();
        assert!(error.contains(name), "{error}");
    }
}

fn path_of(directory: &TempDir, file: usize) -> PathBuf {
    directory.path().join("clock-0002").join(FILES[file])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    #[test]
    fn a_flipped_bit_of_any_file_is_found(file in 1..FILES.len(), places in prop::collection::vec(0.0..1.0_f64, 40)) {
        let (training, directory) = stopped();
        let checkpoints = training.checkpoints(directory.path());
        let file = path_of(&directory, file);
        let whole = fs::read(&file).unwrap();
        for place in places {
            let bit = (place * (whole.len() * 8) as f64) as usize;
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, &flipped).unwrap();
            let error = refused(&checkpoints, file.parent().unwrap());
            prop_assert!(error.contains(&*file.to_string_lossy()), "{error}");
            prop_assert_eq!(checkpoints.newest().unwrap().unwrap().facts.clock, 1);
        }
    }
}
