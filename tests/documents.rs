//! What the documents show works: files that parse, commands that are understood, links that lead somewhere.
//!
//! The documents are the Markdown files at the top of the repository and the pages of the book in `docs/src/`.

#[path = "real_data/mod.rs"]
mod real_data;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use gaia_config::{Override, RunFile, topology_from_text};
use gaia_core::sync::{Axes, RemoteSync};
use real_data::real_data;

#[test]
fn files_shown_in_the_documents_are_right() {
    let (mut runs, mut topologies) = (0, 0);
    for name in documents() {
        for text in blocks(&document(&name), "toml") {
            if text.contains("[app]") {
                let run = RunFile::from_text("config/run/readme.toml", &text, &[]);
                run.and_then(|run| run.plan())
                    .unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
                runs += 1;
            } else if text.contains("[[data_center]]") {
                topology_from_text("config/topology/readme.toml", &text)
                    .unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
                topologies += 1;
            } else {
                part_of_a_run_file(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
            }
        }
    }
    assert!(runs >= 1 && topologies >= 1, "a run file and a topology file are shown");
}

#[test]
fn commands_shown_in_the_documents_are_understood() {
    let mut seen = 0;
    for name in documents() {
        for block in blocks(&document(&name), "sh") {
            for line in block.replace("\\\n", " ").lines() {
                let line = line.split(" #").next().unwrap_or(line).trim();
                let words: Vec<&str> = line.split_whitespace().collect();

                match words.as_slice() {
                    ["gaia", arguments @ ..]
                    | ["cargo", "run", "--release", "--", arguments @ ..] => {
                        understood(arguments);
                        seen += 1;
                    }
                    ["cargo" | "pip", ..] | [] => {}
                    [script, ..] => assert!(root().join(script).is_file(), "{name}: {line}"),
                }
            }
        }
    }
    assert!(seen >= 5, "the documents show commands");
}

#[test]
fn links_between_documents_lead_somewhere() {
    for name in documents() {
        let folder = Path::new(&name).parent().expect("a document is a file");
        for target in links(&document(&name)) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { name.clone() } else { normal(&folder.join(file)) };
            assert!(root().join(&file).exists(), "{name} links to {target}");

            if !heading.is_empty() {
                let anchors: Vec<String> = document(&file).lines().filter_map(anchor).collect();
                assert!(anchors.iter().any(|anchor| anchor == heading), "{name} links to {target}");
            }
        }
    }
}

#[test]
fn the_summary_of_the_book_lists_every_page_once() {
    let mut listed = links(&document("docs/src/SUMMARY.md"));
    listed.sort_unstable();
    let pages: Vec<String> = pages().into_iter().filter(|page| page != "SUMMARY.md").collect();
    assert_eq!(listed, pages);
}

#[test]
fn the_readme_leads_to_every_page_of_the_book() {
    let linked: BTreeSet<String> = links(&document("README.md")).into_iter().collect();
    let pages = pages().into_iter().filter(|page| page != "SUMMARY.md");
    let missing: Vec<String> =
        pages.filter(|page| !linked.contains(&format!("docs/src/{page}"))).collect();
    assert!(missing.is_empty(), "the README does not link to {}", missing.join(", "));
}

/// Time is virtual, so the same picture and table come out on every machine.
#[test]
fn the_picture_and_the_table_of_the_readme_are_what_its_command_makes() {
    let Some(data) = real_data("movielens_latest_small/ratings.csv.gz") else { return };
    let readme = document("README.md");
    let shown = blocks(&readme, "sh").into_iter().find(|block| block.contains("-- compare "));
    let shown = shown.expect("the README compares models").replace("\\\n", " ");
    let shown = shown.replace("ratings.csv", &data.display().to_string());
    let (_, arguments) = shown.split_once(" -- ").expect("cargo hands arguments over");
    let folder = tempfile::tempdir().expect("room for runs");

    let compare = Command::new(env!("CARGO_BIN_EXE_gaia"))
        .current_dir(root())
        .args(arguments.split_whitespace())
        .arg("--out")
        .arg(folder.path().join("out"))
        .output()
        .expect("the program starts");

    let complaint = String::from_utf8_lossy(&compare.stderr);
    assert!(compare.status.success(), "{complaint}");
    let (made, kept) =
        (folder.path().join("out/convergence.svg"), root().join("docs/convergence.svg"));
    let read = |path: &Path| fs::read_to_string(path).expect("a picture is text");
    assert!(
        read(&made) == read(&kept),
        "docs/convergence.svg is not the convergence.svg of the README's second command"
    );
    let printed = String::from_utf8_lossy(&compare.stdout);
    let table = blocks(&readme, "text").into_iter().find(|block| block.contains("vs LAN"));
    for line in table.expect("the README shows a table").lines() {
        assert!(printed.contains(line), "the README shows `{line}`, and its command:\n{printed}");
    }
}

/// Each row of the page is a remote model with settings, and every model has a row.
#[test]
fn the_taxonomy_places_remote_models_where_the_code_does() {
    let page = document("docs/src/taxonomy.md");
    let (_, rest) = page.split_once("## Remote models of Gaia").expect("the page has our models");
    let (ours, _) = rest.split_once("\n## ").expect("other systems follow");
    let quickstart = document("config/run/quickstart.toml");

    let mut placed = BTreeSet::new();
    for row in ours.lines().filter(|line| line.starts_with("| `model")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let settings = cells[0].trim_matches('`');
        let remote = Override::parse(&format!("sync.remote={{ {settings} }}"));
        let remote = remote.unwrap_or_else(|error| panic!("{settings}: {error}"));
        let run = RunFile::from_text("config/run/quickstart.toml", &quickstart, &[remote]);
        let plan = run.and_then(|run| run.plan());
        let remote = plan.unwrap_or_else(|error| panic!("{settings}: {error}")).remote;

        let Axes { parallelism, optimisation, scheduling, communication } = Axes::of(&remote);
        let expected =
            [parallelism.name(), optimisation.name(), scheduling.name(), communication.name()];
        assert_eq!(cells[1..], expected, "{settings}");
        placed.insert(remote.name());
    }
    assert_eq!(placed, BTreeSet::from(RemoteSync::VARIANTS));
}

/// It starts nothing: neither `cargo` nor anything else is on its path but the tools that print its head.
#[test]
fn the_soak_explains_itself_and_refuses_what_it_does_not_take_before_it_builds() {
    let tools = tempfile::tempdir().unwrap();
    for tool in ["bash", "dirname", "sed"] {
        let at = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
        let found = at.into_iter().find(|at| at.is_file());
        std::os::unix::fs::symlink(found.unwrap(), tools.path().join(tool)).unwrap();
    }
    let soak = |arguments: &[&str]| {
        let mut command = Command::new(root().join("scripts/soak"));
        let output = command.args(arguments).env("PATH", tools.path()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    for help in ["--help", "-h"] {
        let (code, said) = soak(&[help]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("scripts/soak [SECONDS [SEED]]"), "{said}");
    }
    for (arguments, expected) in [
        (&["5x"][..], "found `5x`, expected the duration of the soak in seconds"),
        (&["0"], "found `0`, expected the duration of the soak in seconds"),
        (&["60", "x"], "found `x`, expected a whole number as the seed of the faults"),
        (&["60", "1", "2"], "found 3 arguments, expected at most two"),
    ] {
        let (code, said) = soak(arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let (code, said) = soak(&["60", "1"]);
    assert_eq!(code, Some(127), "there is no cargo on its path: {said}");
}

#[test]
fn the_readme_is_read_in_three_minutes() {
    let lines = document("README.md").lines().count();
    assert!(lines <= README_LINES_MAX, "the README has {lines} lines");
}

/// A stranger reads about 50 lines a minute.
const README_LINES_MAX: usize = 150;

/// The settings of a part of a run file, laid over the quickstart, are those of a run.
fn part_of_a_run_file(text: &str) -> Result<(), String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let mut settings = Vec::new();
    collect_settings("", &table, &mut settings);

    let overrides: Result<Vec<Override>, _> =
        settings.iter().map(|setting| Override::parse(setting)).collect();
    let overrides = overrides.map_err(|error| error.to_string())?;
    let run = RunFile::read(&root().join("config/run/quickstart.toml"), &overrides);
    run.and_then(|run| run.plan()).map_err(|error| error.to_string())?;
    Ok(())
}

/// Every key of a table as `--set` takes it.
fn collect_settings(prefix: &str, table: &toml::Table, settings: &mut Vec<String>) {
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => {
                collect_settings(&format!("{prefix}{key}."), inner, settings);
            }
            value => settings.push(format!("{prefix}{key}={value}")),
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
    gaia::ComparisonPlan::new(&run, &list("--remote"), &list("--wan"))
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

/// Paths of all documents from the root of the repository.
fn documents() -> Vec<String> {
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let book = pages().into_iter().map(|page| format!("docs/src/{page}"));
    top.into_iter().map(str::to_owned).chain(book).collect()
}

/// Files of the book, its summary among them, in order.
fn pages() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs/src")).expect("the book is in this repository");
    let mut pages: Vec<String> = entries
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort_unstable();
    pages
}

/// The path without `..`, as documents are named.
fn normal(path: &Path) -> String {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => assert!(normal.pop(), "{} stays inside", path.display()),
            component => normal.push(component),
        }
    }
    normal.display().to_string()
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
