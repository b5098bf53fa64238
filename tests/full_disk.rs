//! A disk that is full when a report is written: what the run has come to is kept, and the report is written later.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod small_run;

use std::fs;
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use small_run::RUN;

/// Calls the program, which can write files of 20 kB: those of a run, but not its page. Its exit code and what it says.
fn gaia(folder: &Path, arguments: &[&str]) -> (i32, String) {
    gaia_within(40, folder, arguments)
}

/// The same with files of so many times 512 bytes.
fn gaia_within(limit: u64, folder: &Path, arguments: &[&str]) -> (i32, String) {
    let limited = format!(r#"trap "" XFSZ; ulimit -f {limit}; exec "$0" "$@""#);
    let mut command = Command::new("sh");
    command.current_dir(folder).args(["-c", &limited]).arg(cargo_bin("gaia")).args(arguments);
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_run_whose_page_cannot_be_written_is_kept_and_reported_later() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("run.toml"), RUN).unwrap();
    let (code, said) = gaia(place.path(), &["train", "run.toml", "--out", "full"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("error: full/report.html: cannot be written: "), "{said}");
    let kept = "\n  the results are kept in full: `gaia report full` writes the report once it can be written\n";
    assert!(said.contains(kept), "{said}");

    let full = place.path().join("full");
    let entries = fs::read_dir(&full).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let expect = [
        "convergence.svg",
        "events.out.tfevents.gaia",
        "model.safetensors",
        "progress.jsonl",
        "run.toml",
        "summary.json",
    ];
    assert_eq!(names, expect);

    let mut again = Command::new(cargo_bin("gaia"));
    let again = again.current_dir(place.path()).args(["report", "full"]).output().unwrap();
    assert!(again.status.success(), "{again:?}");
    assert!(full.join("report.html").is_file());
}

#[test]
fn a_comparison_whose_page_cannot_be_written_is_put_together_later() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("run.toml"), RUN).unwrap();
    let compare = ["compare", "run.toml", "--remote", "bsp,asp", "--out", "both"];
    let mut whole = Command::new(cargo_bin("gaia"));
    let whole = whole.current_dir(place.path()).args(compare).output().unwrap();
    assert!(whole.status.success(), "{whole:?}");

    let both = place.path().join("both");
    let page = fs::read(both.join("compare.html")).unwrap();
    for file in ["compare.html", "compare.json", "convergence.svg"] {
        fs::remove_file(both.join(file)).unwrap();
    }
    let (code, said) = gaia(place.path(), &["report", "both"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("cannot be written"), "{said}");

    let mut again = Command::new(cargo_bin("gaia"));
    let again = again.current_dir(place.path()).args(["report", "both"]).output().unwrap();
    assert_eq!(again.stdout, whole.stdout);
    assert_eq!(fs::read(both.join("compare.html")).unwrap(), page);
}

#[test]
fn a_resumed_run_that_cannot_be_written_leaves_no_result_of_its_interrupted_part() {
    let place = tempfile::tempdir().unwrap();
    let text = format!("{RUN}\n[checkpoint]\nevery = 15\n");
    fs::write(place.path().join("run.toml"), text).unwrap();
    let train = ["train", "run.toml", "--out", "part", "--resume", "auto"];
    let mut whole = Command::new(cargo_bin("gaia"));
    let whole = whole.current_dir(place.path()).args(train).output().unwrap();
    assert!(whole.status.success(), "{whole:?}");

    // As if it had been interrupted after its last checkpoint.
    let part = place.path().join("part");
    let summary = fs::read_to_string(part.join("summary.json")).unwrap();
    let model = fs::read(part.join("model.safetensors")).unwrap();
    let cut = summary.replace("\"stopped_by\": \"clocks\"", "\"stopped_by\": \"interrupted\"");
    assert_ne!(cut, summary);
    fs::write(part.join("summary.json"), cut).unwrap();

    // run.toml can be written, and no other file of a result.
    let (code, said) = gaia_within(9, place.path(), &train);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("cannot be written"), "{said}");
    let removed = "removes the summary and the report of the interrupted part in part: those of the whole run are \
                   written at its end";
    assert!(said.contains(removed), "{said}");
    for file in ["summary.json", "report.html", "convergence.svg"] {
        assert!(!part.join(file).exists(), "{file}");
    }

    let mut again = Command::new(cargo_bin("gaia"));
    let again = again.current_dir(place.path()).args(train).output().unwrap();
    assert!(again.status.success(), "{again:?}");
    assert_eq!(fs::read(part.join("model.safetensors")).unwrap(), model);
    let text = fs::read_to_string(part.join("summary.json")).unwrap();
    assert!(text.contains("\"stopped_by\": \"clocks\""), "{text}");
}
