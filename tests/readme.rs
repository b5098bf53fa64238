//! What the documents show works: files that parse, commands that are understood, links that lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gaia_config::{Override, RunFile, topology_from_text};

#[test]
fn files_shown_in_the_readme_are_right() {
    let blocks = blocks(&document("README.md"), "toml");
    assert!(blocks.len() >= 2, "a run file and a topology file are shown");
    for text in blocks {
        if text.contains("[app]") {
            let run = RunFile::from_text("config/run/readme.toml", &text, &[]);
            run.and_then(|run| run.plan()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        } else {
            topology_from_text("config/topology/readme.toml", &text)
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }
}

#[test]
fn commands_shown_in_the_documents_are_understood() {
    let mut seen = 0;
    for name in ["README.md", "CONTRIBUTING.md"] {
        for block in blocks(&document(name), "sh") {
            for line in block.replace("\\\n", " ").lines() {
                let line = line.split(" #").next().unwrap_or(line).trim();
                let words: Vec<&str> = line.split_whitespace().collect();
                match words.as_slice() {
                    ["gaia", arguments @ ..]
                    | ["cargo", "run", "--release", "--", arguments @ ..] => {
                        understood(arguments);
                        seen += 1;
                    }
                    ["cargo", ..] | [] => {}
                    [script, ..] => assert!(root().join(script).is_file(), "{name}: {line}"),
                }
            }
        }
    }
    assert!(seen >= 5, "the README shows commands");
}

#[test]
fn links_between_documents_lead_somewhere() {
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        for target in links(&document(name)) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { name } else { file };
            assert!(root().join(file).exists(), "{name} links to {target}");
            if !heading.is_empty() {
                let anchors: Vec<String> = document(file).lines().filter_map(anchor).collect();
                assert!(anchors.iter().any(|anchor| anchor == heading), "{name} links to {target}");
            }
        }
    }
}

/// The program knows every flag, and the run file takes every setting and WAN.
fn understood(arguments: &[&str]) {
    let shown = arguments.join(" ");
    let help = Command::new(env!("CARGO_BIN_EXE_gaia")).args(arguments).arg("--help").output();
    let help = help.expect("the program starts");
    let complaint = String::from_utf8_lossy(&help.stderr);
    assert!(help.status.success(), "gaia {shown}: {complaint}");
    let Some(file) = arguments.iter().find(|argument| argument.ends_with(".toml")) else { return };
    let flag = |name: &str| {
        let after = arguments.iter().enumerate().filter(|(_, argument)| **argument == name);
        after.map(|(at, _)| arguments[at + 1].to_owned()).collect::<Vec<_>>()
    };
    let overrides: Vec<Override> = flag("--set")
        .iter()
        .map(|setting| Override::parse(setting).unwrap_or_else(|error| panic!("{shown}: {error}")))
        .collect();
    let run = RunFile::read(&root().join(file), &overrides);
    let run = run.unwrap_or_else(|error| panic!("{shown}: {error}"));
    run.plan().unwrap_or_else(|error| panic!("{shown}: {error}"));
    let list = |name: &str| -> Vec<String> {
        flag(name).iter().flat_map(|value| value.split(',').map(str::to_owned)).collect()
    };
    gaia::variants(&run, &list("--remote"), &list("--wan"))
        .unwrap_or_else(|error| panic!("{shown}: {error}"));
}

/// The fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let after = text.split(fence.as_str()).skip(1);
    after.filter_map(|rest| rest.split("```").next().map(str::to_owned)).collect()
}

/// Targets of links and pictures inside the repository.
fn links(text: &str) -> Vec<String> {
    let after = text.split("](").skip(1);
    let targets = after.filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.starts_with("http")).map(str::to_owned).collect()
}

/// What a heading's line is linked to by.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-'));
    Some(kept.map(|char| if char == ' ' { '-' } else { char }).collect())
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
