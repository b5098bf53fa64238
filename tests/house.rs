//! What the compiler cannot say of the house: which room of a crate may name which, and that the map names every room.
//!
//! Crates hold the rest: what depends on what, and that the core has no runtime, no socket and no file.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of `crates/core`, from the bottom up. A room may name every room of the layers before its own.
const CORE: [&[Room]; 4] = [
    &[room("simd", &[]), room("types", &[])],
    &[
        room("application", &[]),
        room("codec", &[]),
        room("sync", &["codec"]),
        room("significance", &["sync"]),
        room("store", &[]),
        room("outbox", &["codec", "significance", "store", "sync"]),
        room("wire", &["codec"]),
        room("session", &["wire"]),
        room("log", &[]),
        room("topology", &[]),
        room("link", &[]),
    ],
    &[
        room("node", &[]),
        room("server", &["node"]),
        room("worker", &["node"]),
        room("coordinator", &[]),
    ],
    &[room("recovery", &[])],
];

/// The rooms of `crates/driver`: the drivers are strangers to each other.
const DRIVERS: [&[Room]; 3] = [
    &[room("run_loop", &[])],
    &[room("simulated", &[]), room("emulated", &[]), room("real", &[])],
    &[room("lib.rs", &[])],
];

/// The rooms of `crates/data`: files at the bottom, applications at the top.
const DATA: [&[Room]; 6] = [
    &[room("scratch", &[])],
    &[room("formats", &[])],
    &[room("homes", &[])],
    &[room("synthetic", &[])],
    &[room("kinds", &[])],
    &[room("trained", &[])],
];

/// What the protocol may be built from: no runtime, no socket, no file, no clock.
const CORE_DEPENDENCIES: [&str; 10] = [
    "bitpacking",
    "bytemuck",
    "bytes",
    "crc32fast",
    "rand_core",
    "rand_xoshiro",
    "rmp",
    "rmp-serde",
    "serde",
    "thiserror",
];

/// A room, and the rooms of its own layer that it may name.
struct Room {
    name: &'static str,
    beside: &'static [&'static str],
}

const fn room(name: &'static str, beside: &'static [&'static str]) -> Room {
    Room { name, beside }
}

#[test]
fn rooms_of_the_core_name_only_those_below() {
    let forbidden = forbidden_arrows("crates/core/src", &CORE);
    assert!(forbidden.is_empty(), "forbidden arrows:\n{}", forbidden.join("\n"));
}

#[test]
fn every_room_of_the_core_stands_in_the_table() {
    let mut table: Vec<String> = CORE.iter().flat_map(|layer| layer.iter()).map(name_of).collect();
    table.sort_unstable();
    assert_eq!(table, rooms("crates/core/src"));
}

#[test]
fn drivers_are_strangers_to_each_other() {
    let forbidden = forbidden_arrows("crates/driver/src", &DRIVERS);
    assert!(forbidden.is_empty(), "forbidden arrows:\n{}", forbidden.join("\n"));
}

#[test]
fn rooms_of_the_data_name_only_those_below() {
    let forbidden = forbidden_arrows("crates/data/src", &DATA);
    assert!(forbidden.is_empty(), "forbidden arrows:\n{}", forbidden.join("\n"));
    let mut table: Vec<String> = DATA.iter().flat_map(|layer| layer.iter()).map(name_of).collect();
    table.sort_unstable();
    assert_eq!(table, rooms("crates/data/src"));
}

#[test]
fn the_core_is_built_without_a_runtime() {
    let manifest = read("crates/core/Cargo.toml");
    let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
    let dependencies = manifest["dependencies"].as_table().expect("the core has dependencies");
    let names: Vec<&str> = dependencies.keys().map(String::as_str).collect();
    assert_eq!(names, CORE_DEPENDENCIES);
}

#[test]
fn the_architecture_names_every_crate_and_every_room_of_the_core() {
    let page = read("ARCHITECTURE.md");
    let crates = rooms("crates").into_iter().map(|name| format!("`crates/{name}/`"));
    let rooms = rooms("crates/core/src").into_iter().map(|name| format!("`{name}/`"));
    let missing: Vec<String> = crates.chain(rooms).filter(|name| !page.contains(name)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md does not name {}", missing.join(", "));
}

#[test]
fn planted_arrows_are_caught() {
    let names = |text, expect: &[&str]| {
        assert_eq!(arrows_of("types", text, &CORE), expect, "{text}");
    };
    names("use crate::sync::Gate;", &["types must not name sync"]);
    names("//! [`crate::sync`] is only talked about.", &[]);
    names(
        "fn f() { crate::server::new(); crate::node::new() }",
        &["types must not name node", "types must not name server"],
    );
    names(
        "use crate::{codec::{Changes, server}, node::Lane,\n    sync};",
        &["types must not name codec", "types must not name node", "types must not name sync"],
    );
    assert!(
        arrows_of("sync", "use crate::types::Clock;\nuse crate::codec::Changes;", &CORE).is_empty()
    );
}

/// One line for each arrow that a table forbids.
fn forbidden_arrows(folder: &str, layers: &[&[Room]]) -> Vec<String> {
    let mut forbidden = Vec::new();
    for room in layers.iter().flat_map(|layer| layer.iter()) {
        for file in files_in(&root().join(folder).join(room.name)) {
            let text = fs::read_to_string(&file).expect("sources are text");
            let place = file.strip_prefix(root()).expect("below the root").display().to_string();
            let arrows = arrows_of(room.name, &text, layers);
            forbidden.extend(arrows.into_iter().map(|arrow| format!("{place}: {arrow}")));
        }
    }
    forbidden
}

/// The first part of each path in the braces after `crate::`, such as `a` and `b` of `crate::{a::{C, D}, b}`.
fn grouped(code: &str) -> Vec<&str> {
    let mut firsts = Vec::new();
    for (at, found) in code.match_indices("crate::{") {
        let (mut depth, mut begun) = (1, true);
        let inside = &code[at + found.len()..];
        for (place, next) in inside.char_indices() {
            match next {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begun = true,
                letter if begun && !letter.is_whitespace() => {
                    let rest = &inside[place..];
                    let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_');
                    firsts.push(&rest[..end.unwrap_or(rest.len())]);
                    begun = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    firsts
}

/// The arrows of one file that the table forbids. Rooms are named from the root of their crate, outside comments.
fn arrows_of(from: &str, text: &str, layers: &[&[Room]]) -> Vec<String> {
    let code: Vec<&str> =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let grouped = grouped(&code);
    let named = |to: &str| {
        let path = format!("crate::{to}");
        let mut alone = code.match_indices(&path);
        grouped.contains(&to)
            || alone.any(|(at, found)| {
                !code[at + found.len()..]
                    .starts_with(|next: char| next.is_alphanumeric() || next == '_')
            })
    };
    let rooms = layers.iter().flat_map(|layer| layer.iter()).map(name_of);
    let mut found: Vec<String> = rooms
        .filter(|to| to != from && named(to) && !may_name(from, to, layers))
        .map(|to| format!("{from} must not name {to}"))
        .collect();
    found.sort_unstable();
    found
}

fn may_name(from: &str, to: &str, layers: &[&[Room]]) -> bool {
    let layer_of =
        |name| layers.iter().position(|layer| layer.iter().any(|room| room.name == name));
    let (Some(above), Some(below)) = (layer_of(from), layer_of(to)) else { return false };
    let beside = layers[above].iter().any(|room| room.name == from && room.beside.contains(&to));
    below < above || beside
}

fn name_of(room: &Room) -> String {
    room.name.to_owned()
}

/// The folders of a folder, in order.
fn rooms(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder of this repository");
    let mut rooms: Vec<String> = entries
        .map(|entry| entry.expect("readable"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    rooms.sort_unstable();
    rooms
}

/// Every source file of a room, which is a folder or a single file.
fn files_in(room: &Path) -> Vec<PathBuf> {
    if room.is_file() {
        return vec![room.to_owned()];
    }
    let entries = fs::read_dir(room).expect("a room of this repository");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|kind| kind == "rs"))
        .flat_map(|path| files_in(&path))
        .collect();
    files.sort_unstable();
    files
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("a file of this repository")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
