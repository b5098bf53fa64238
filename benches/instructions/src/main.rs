//! Counts the instructions that hot paths of the core take, and compares them with those in `counts.txt`.
//!
//! A count is the same in every run, however busy the machine is, so a change of 5 % is a change of the code. It is not a
//! time: it knows nothing of memory and of how many instructions run at once. `scripts/bench` measures times.
//!
//! Run it as `cargo run --profile profiling --package gaia-instructions`. With `--write` it replaces `counts.txt`. It
//! needs Valgrind, under whose Callgrind it runs itself again with `--count`. Valgrind's processor has no AVX-512, so
//! counts are those of the code for AVX2, which the same sources are compiled to.
//!
//! Exit codes: 0 if all counts are as on record, or were made otherwise; 1 if one is not, or is missing; 2 if nothing
//! could be counted.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod callgrind;
mod cases;
mod counts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use counts::Counts;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--count"] => {
            callgrind::count_all();
            ExitCode::SUCCESS
        }
        [] => compare().unwrap_or_else(refuse),
        ["--write"] => write().unwrap_or_else(refuse),
        _ => refuse("found unknown arguments, expected none or `--write`".into()),
    }
}

/// Prints every count beside the one on record.
fn compare() -> Result<ExitCode, String> {
    let path = counts_path();
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let recorded = Counts::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let counted = callgrind::run()?;
    let comparison = counted.against(&recorded);
    print!("{comparison}");
    if comparison.passes() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("If the change is meant, the same command with `-- --write` records it.");
    Ok(ExitCode::from(1))
}

fn write() -> Result<ExitCode, String> {
    let (path, counted) = (counts_path(), callgrind::run()?);
    fs::write(&path, counted.to_string())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{} counts in {}", counted.rows.len(), path.display());
    Ok(ExitCode::SUCCESS)
}

fn refuse(error: String) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(2)
}

fn counts_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.txt")
}
