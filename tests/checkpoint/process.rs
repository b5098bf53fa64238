//! The program itself: interrupted, killed, and resumed in its directory.
//!
//! A run logs a line for every checkpoint, and nobody reads on after the one that is waited for: so it cannot end before
//! its signal, since the pipe between holds fewer lines than the run has.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

const RUN: &str = r#"
name = "long"
seed = 3

[app]
kind = "logistic-regression"
batch = 4
data.synthetic = { examples = 40, features = 8, active = 3 }

[topology]
file = "three-regions"
defaults.workers = 1

[sync.remote]
model = "asp"

[compute]
examples_per_second = 100.0

[stop]
clocks = 3000
"#;

fn gaia(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gaia"));
    command.current_dir(folder).args(["train", "run.toml"]).args(arguments);
    command.env("RAYON_NUM_THREADS", "1").env_remove("GAIA_LOG");
    command
}

fn finished(folder: &Path, arguments: &[&str]) -> Output {
    gaia(folder, arguments).output().unwrap()
}

/// Starts a run with a checkpoint every third clock, and waits until it has written so many; nothing is read from here
/// on.
fn started(folder: &Path, out: &str, checkpoints: usize) -> (Child, BufReader<ChildStderr>) {
    let mut child = gaia(folder, &["--out", out, "--set", "checkpoint.every=3"])
        .env("GAIA_LOG", "gaia=info")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::with_capacity(64, child.stderr.take().unwrap());
    let mut text = String::new();
    while text.matches("checkpoint written").count() < checkpoints {
        assert!(said.read_line(&mut text).unwrap() > 0, "it ended early:\n{text}");
    }
    (child, said)
}

/// A folder with the run file, in which the run has come to its end undisturbed in `whole`.
fn folder() -> TempDir {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("run.toml"), RUN).unwrap();
    let whole = finished(folder.path(), &["--out", "whole", "--quiet"]);
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    folder
}

#[track_caller]
fn same_as_whole(folder: &Path, out: &str) {
    let read = |of: &str, file: &str| fs::read_to_string(folder.join(of).join(file)).unwrap();
    assert!(read(out, "progress.jsonl") == read("whole", "progress.jsonl"), "another progress");
    let summary = |of: &str| {
        let mut summary: Value = serde_json::from_str(&read(of, "summary.json")).unwrap();
        summary["wall_s"] = 0.into();
        summary
    };
    assert_eq!(summary(out), summary("whole"));
    let lines = read(out, "progress.jsonl");
    assert_eq!(lines.lines().count(), 3000, "a line for every clock");
}

fn clocks(folder: &Path, out: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.join(out).join("checkpoints")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_terminated_run_leaves_a_checkpoint_says_so_and_goes_on_to_the_same_end() {
    let folder = folder();
    let folder = folder.path();
    for signal in ["TERM", "INT"] {
        let (mut child, mut said) = started(folder, signal, 5);
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(75), "{text}");
        assert!(text.contains("interrupted at clock") && text.contains("--resume auto"), "{text}");
        assert_eq!(clocks(folder, signal).len(), 3);
        let summary = fs::read_to_string(folder.join(signal).join("summary.json")).unwrap();
        let summary: Value = serde_json::from_str(&summary).unwrap();
        assert_eq!(summary["stopped_by"], "interrupted");
        assert_eq!(summary["copies_equal"], true);
        assert!(folder.join(signal).join("model.safetensors").is_file());
        // A run does not go on by itself.
        let refused = finished(folder, &["--out", signal]);
        assert_eq!(refused.status.code(), Some(2));
        let resumed = finished(folder, &["--out", signal, "--resume", "auto"]);
        let text = String::from_utf8_lossy(&resumed.stderr);
        assert!(resumed.status.success() && text.contains("resumes from"), "{text}");
        same_as_whole(folder, signal);
    }
}

/// A full disk can cut evaluations short, and a file can be moved away: neither is a result to show.
#[test]
fn a_finished_run_that_has_lost_its_evaluations_or_its_model_is_made_again() {
    let folder = folder();
    let folder = folder.path();
    let again = |file: &str| {
        let resumed = finished(folder, &["--out", "lost", "--resume", "auto"]);
        let text = String::from_utf8_lossy(&resumed.stderr);
        let expect = format!("the run in lost has finished, and {file} is lost: trains again");
        assert!(resumed.status.success() && text.contains(&expect), "{text}");
        same_as_whole(folder, "lost");
        let model = |of: &str| fs::read(folder.join(of).join("model.safetensors")).unwrap();
        assert!(model("lost") == model("whole"), "{file}");
    };
    for checkpoints in [&[][..], &["--set", "checkpoint.every=700"]] {
        let _ = fs::remove_dir_all(folder.join("lost"));
        let first = finished(folder, &[&["--out", "lost", "--quiet"], checkpoints].concat());
        assert!(first.status.success());
        if checkpoints.is_empty() {
            fs::write(folder.join("lost/progress.jsonl"), "").unwrap();
            again("progress.jsonl");
            fs::remove_file(folder.join("lost/model.safetensors")).unwrap();
            again("its model");
            continue;
        }
        fs::write(folder.join("lost/progress.jsonl"), "").unwrap();
        let resume = [&["--out", "lost", "--resume", "auto"], checkpoints].concat();
        let resumed = finished(folder, &resume);
        let text = String::from_utf8_lossy(&resumed.stderr);
        assert!(text.contains("resumes from") && text.contains("is lost"), "{text}");
        same_as_whole(folder, "lost");
    }
}

#[test]
fn a_killed_run_goes_on_from_its_last_checkpoint_to_the_same_end() {
    let folder = folder();
    let folder = folder.path();
    let (mut child, said) = started(folder, "killed", 5);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(said);
    let resume = ["--resume", "auto", "--out", "killed", "--quiet"];
    // The newest is damaged: the one before it is as good, and a warning says so.
    let kept = clocks(folder, "killed");
    let newest = kept.iter().rfind(|name| name.starts_with("clock-")).unwrap();
    let records = folder.join("killed/checkpoints").join(newest).join("state.msgpack");
    fs::write(&records, fs::read(&records).unwrap().split_last().unwrap().1).unwrap();
    let resumed = finished(folder, &resume);
    let text = String::from_utf8_lossy(&resumed.stderr);
    assert!(resumed.status.success(), "{text}");
    assert!(text.contains("state.msgpack") && text.contains("is skipped"), "{text}");
    same_as_whole(folder, "killed");
    // A run that has come to its end is not run again.
    let again = finished(folder, &["--resume", "auto", "--out", "killed"]);
    let text = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && text.contains("has finished"), "{text}");
    same_as_whole(folder, "killed");
}

#[test]
fn a_run_goes_on_in_another_directory_from_a_checkpoint_that_is_named() {
    let folder = folder();
    let folder = folder.path();
    let out = ["--out", "first", "--set", "checkpoint.every=1000", "--quiet"];
    assert!(finished(folder, &out).status.success());
    same_as_whole(folder, "first");
    let from = "first/checkpoints/clock-1000";
    let second = finished(folder, &["--out", "second", "--resume", from, "--quiet"]);
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    same_as_whole(folder, "second");
    // Afresh, where there is nothing to go on from.
    assert!(finished(folder, &["--out", "third", "--resume", "auto", "--quiet"]).status.success());
    same_as_whole(folder, "third");
    // Another seed is another run, and neither it nor its directory is touched.
    let other = finished(folder, &["--out", "first", "--resume", "auto", "--seed", "4"]);
    let text = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{text}");
    assert!(text.contains("manifest.json is of another run"), "{text}");
    same_as_whole(folder, "first");
}
