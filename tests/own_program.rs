//! A program with an application of its own has every verb.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// The program of `examples/own_program.rs`, and a folder with its run file.
struct Bench {
    program: PathBuf,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::copy("examples/own_program.toml", folder.path().join("run.toml")).unwrap();
        Self { program: program(), folder }
    }

    fn with(&self, verb: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.current_dir(self.folder.path()).arg(verb).args(arguments).output().unwrap()
    }

    /// The result of a verb that succeeds, as JSON.
    fn json(&self, verb: &str, arguments: &[&str]) -> Value {
        let output = self.with(verb, &[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(file)).unwrap()
    }
}

/// Builds the example, which `cargo test --test NAME` alone does not.
///
/// Nothing else is compiled again: the features are those that the whole workspace selects, and variables that name the
/// package of a test are taken away, because build scripts of dependencies read them.
fn program() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    let names_package = |name: &OsString| {
        let name = name.to_string_lossy();
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
    };
    std::env::vars_os().map(|(name, _)| name).filter(names_package).for_each(|name| {
        cargo.env_remove(name);
    });
    let example = ["build", "--locked", "--quiet", "--workspace", "--example", "own_program"];
    let built = cargo.args(example).output().unwrap();
    assert!(built.status.success(), "{}", said(&built));
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join("examples/own_program")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_own_application_is_trained_compared_and_evaluated() {
    let bench = Bench::new();
    let checked = bench.json("check", &["run.toml"]);
    assert_eq!((&checked["app"], &checked["parameters"]), (&"external".into(), &200.into()));

    let summary = bench.json("train", &["run.toml", "--out", "one"]);
    bench.json("train", &["run.toml", "--out", "other"]);
    assert_eq!(bench.read("one/progress.jsonl"), bench.read("other/progress.jsonl"));
    assert!(summary["objective"].as_f64().unwrap() < 100.0, "{summary}");

    let evaluated = bench.json("evaluate", &["one/model.safetensors"]);
    assert_eq!(evaluated["trained"]["clock"], summary["clocks"]);
    assert!(evaluated["objective"].as_f64().unwrap() < 100.0, "{evaluated}");

    let compared = ["run.toml", "--remote", "bsp,asp", "--out", "compared"];
    let compared = bench.json("compare", &compared);
    assert!(compared["rows"].as_array().unwrap().len() >= 2, "{compared}");
}

/// The nodes are processes of the same program.
#[test]
fn an_own_application_is_trained_by_a_process_for_each_node() {
    let bench = Bench::new();
    let settings = ["--driver", "real", "--set", "stop.clocks=5", "--out", "real"];
    let summary = bench.json("train", &[&["run.toml"], &settings[..]].concat());
    assert_eq!(summary["copies_equal"], true);
    assert!(Path::new(&bench.folder.path().join("real/model.safetensors")).is_file());
}

#[test]
fn settings_that_the_application_does_not_take_are_named() {
    let bench = Bench::new();
    let refuse = |settings: &str, expected: &str| {
        let output = bench.with("train", &["run.toml", "--set", settings]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
    };
    refuse("app.settings.depth=3", "app.settings is unknown field `depth`");
    refuse("app.settings.examples_per_worker=0", "no examples, expected some for each worker");

    let gaia = Command::new(env!("CARGO_BIN_EXE_gaia"))
        .args(["train", "examples/own_program.toml"])
        .output()
        .unwrap();
    assert_eq!(gaia.status.code(), Some(2));
    assert!(said(&gaia).contains("app.kind is external, expected an application that is built in"));

    let gaia = Command::new(env!("CARGO_BIN_EXE_gaia"))
        .args(["check", "config/run/quickstart.toml", "--script", "train.py"])
        .output()
        .unwrap();
    assert_eq!(gaia.status.code(), Some(2));
    assert!(said(&gaia).contains("this gaia has no Python"), "{}", said(&gaia));

    // What is built in stays.
    let quick = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/run/quickstart.toml");
    let checked = bench.json("check", &[quick.to_str().unwrap()]);
    assert_eq!(checked["app"], "matrix-factorization");
}
