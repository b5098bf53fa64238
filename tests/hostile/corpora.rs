//! Every corpus of `fuzz/`, and changes to it, through the function that the fuzzer runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::allocations::peak_of;
use super::fuzz::{Mutations, TARGETS, Target};

/// Mutations of each target's corpus; some seconds for all targets, most of them for the pages of reports.
const MUTATIONS: usize = 1000;

/// What one input may make any reader hold. The largest shard that a target decodes for has 2²⁰ parameters, which are
/// 4 MiB as values and as much as indexes, and growing vectors hold up to three times what is in them.
const HELD_BYTES_MAX: usize = 48 << 20;

fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target.name)
}

/// The files of a corpus, by name.
fn corpus(target: &Target) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder(target))
        .unwrap_or_else(|error| panic!("corpus of {}: {error}", target.name));
    let read = |file: PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(file).unwrap())
    };
    files.map(|file| read(file.unwrap().path())).collect()
}

#[test]
fn every_corpus_is_answered_within_its_memory() {
    for target in TARGETS {
        for (name, bytes) in corpus(target) {
            let ((), most) = peak_of(|| (target.check)(&bytes));
            assert!(most <= HELD_BYTES_MAX, "{} {name} held {most} bytes", target.name);
        }
    }
}

#[test]
fn mutations_of_every_corpus_are_answered_within_their_memory() {
    for target in TARGETS {
        let mut mutations = Mutations::new(target, corpus(target).into_values().collect(), 1);
        for run in 0..MUTATIONS {
            let input = mutations.next_input();
            let ((), most) = peak_of(|| (target.check)(&input));
            assert!(most <= HELD_BYTES_MAX, "{} {run} held {most} bytes", target.name);
        }
    }
}

#[test]
fn seeds_are_what_the_encoders_of_today_write() {
    for target in TARGETS {
        let corpus = corpus(target);
        for (name, bytes) in (target.seeds)() {
            let stored = corpus.get(name);
            assert!(
                stored == Some(&bytes),
                "{} {name} is stale: cargo run --no-default-features --example seeds, in fuzz/",
                target.name
            );
        }
    }
}

#[test]
fn every_target_has_its_program_and_nothing_else_has_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let named: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""))
        .collect();
    let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(named, targets);
    assert!(targets.is_sorted(), "in the order of their names");
    let mut folders: Vec<_> = fs::read_dir(root.join("corpus"))
        .unwrap()
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(folders, targets);
}

#[test]
fn corpora_stay_small() {
    let bytes: usize =
        TARGETS.iter().flat_map(|target| corpus(target).into_values()).map(|b| b.len()).sum();
    assert!(bytes < 300_000, "{bytes} bytes");
}
