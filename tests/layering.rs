//! Which room of `src/` may name which.
//!
//! A room may name every room of the layers below its own. Within a layer only the arrows written down here are
//! allowed, and they form no circle. A new arrow changes this table in the commit that draws it.

mod source;

use source::{SourceFile, rooms, source_files};

/// A room, and the rooms of its own layer that it may name.
struct Room {
    name: &'static str,
    beside: &'static [&'static str],
}

const fn room(name: &'static str, beside: &'static [&'static str]) -> Room {
    Room { name, beside }
}

/// From the bottom up.
const LAYERS: [&[Room]; 4] = [
    &[room("types", &[])],
    &[
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
        room("ml", &[]),
    ],
    &[
        room("node", &[]),
        room("server", &["node"]),
        room("worker", &["node"]),
        room("coordinator", &[]),
        room("recovery", &["node", "server", "worker"]),
    ],
    &[
        room("telemetry", &[]),
        room("config", &[]),
        room("data", &[]),
        room("certificates", &[]),
        room("checkpoint", &[]),
        room("driver", &["certificates", "checkpoint", "config", "telemetry"]),
        room("faults", &["certificates", "checkpoint", "config", "driver", "telemetry"]),
        room("report", &["telemetry"]),
        room("evaluation", &["config", "data", "driver", "report", "telemetry"]),
        room(
            "cli",
            &[
                "certificates",
                "checkpoint",
                "config",
                "data",
                "driver",
                "evaluation",
                "faults",
                "report",
                "telemetry",
            ],
        ),
    ],
];

/// Parts of one room that must not name each other: `(room, part, other part)`.
const STRANGERS: [(&str, &str, &str); 8] = [
    ("driver", "simulated", "emulated"),
    ("driver", "simulated", "real"),
    ("driver", "emulated", "simulated"),
    ("driver", "emulated", "real"),
    ("driver", "real", "simulated"),
    ("driver", "real", "emulated"),
    ("driver", "quic", "emulated"),
    ("driver", "quic", "real"),
];

#[test]
fn rooms_name_only_what_the_table_allows() {
    let forbidden = forbidden_arrows(&source_files());
    assert!(forbidden.is_empty(), "forbidden arrows:\n{}", forbidden.join("\n"));
}

#[test]
fn every_room_stands_in_the_table_once() {
    let mut table: Vec<&str> =
        LAYERS.iter().flat_map(|layer| layer.iter()).map(|room| room.name).collect();
    table.sort_unstable();
    assert_eq!(table, rooms());
}

#[test]
fn arrows_within_a_layer_form_no_circle() {
    for layer in LAYERS {
        for (place, room) in layer.iter().enumerate() {
            for beside in room.beside {
                let earlier = layer[..place].iter().any(|other| other.name == *beside);
                assert!(earlier, "{} names {beside}, which must stand before it", room.name);
            }
        }
    }
}

#[test]
fn every_arrow_within_a_layer_is_used() {
    let files = source_files();
    for room in LAYERS.iter().flat_map(|layer| layer.iter()) {
        for beside in room.beside {
            let used = files
                .iter()
                .filter(|file| file.room() == Some(room.name))
                .flat_map(SourceFile::namings)
                .any(|naming| naming.path.first().is_some_and(|first| first == beside));
            assert!(used, "{} does not name {beside}: take the arrow out of the table", room.name);
        }
    }
}

#[test]
fn planted_arrows_are_caught() {
    check(
        "src/types/a.rs",
        "use crate::sync::Gate;",
        &["src/types/a.rs:1: types must not name sync"],
    );
    check(
        "src/store/a.rs",
        "//! crate::server is only talked about.\n\nuse crate::{\n    types::Clock,\n    server::{Server, PeerError},\n};",
        &[
            "src/store/a.rs:5: store must not name server",
            "src/store/a.rs:5: store must not name server",
        ],
    );
    check(
        "src/worker/mod.rs",
        "fn f() { let s = \"crate::server\"; crate::coordinator::Coordinator::new(s) }",
        &["src/worker/mod.rs:1: worker must not name coordinator"],
    );
    check(
        "src/ml/apps/mod.rs",
        "mod tests {\n use super::super::super::link::Link;\n use super::super::examples;\n}",
        &["src/ml/apps/mod.rs:2: ml must not name link"],
    );
    check("src/wire/mod.rs", "use crate::*;", &["src/wire/mod.rs:1: wire must not name *"]);
    check(
        "src/codec/a.rs",
        "fn f<'a>(c: &'a char) -> bool { *c == '\"' && crate::wire::x() }",
        &["src/codec/a.rs:1: codec must not name wire"],
    );
    check(
        "src/driver/simulated/wan.rs",
        "use super::super::emulated::Meter;",
        &["src/driver/simulated/wan.rs:1: driver::simulated must not name driver::emulated"],
    );
    check(
        "src/driver/emulated/mod.rs",
        "use crate::driver::{cost::CostModel, simulated};",
        &["src/driver/emulated/mod.rs:1: driver::emulated must not name driver::simulated"],
    );
    check("src/driver/mod.rs", "pub mod emulated;\nmod simulated;\nuse crate::config::Plan;", &[]);
    check(
        "src/main.rs",
        "fn main() { gaia::driver::run() }",
        &["src/main.rs:1: main.rs must not name driver"],
    );
}

fn check(name: &str, text: &str, expect: &[&str]) {
    assert_eq!(forbidden_arrows(&[SourceFile::new(name, text)]), expect);
}

/// One line for each arrow that the tables forbid, with its file and line.
fn forbidden_arrows(files: &[SourceFile]) -> Vec<String> {
    let mut forbidden = Vec::new();
    for file in files.iter().filter(|file| file.name != "src/lib.rs") {
        let module = file.module();
        for naming in file.namings() {
            let Some(to) = naming.path.first() else { continue };
            let place = format!("{}:{}", file.name, naming.line);
            let from = file.room().unwrap_or("main.rs");
            if from != to && !may_name(from, to) {
                forbidden.push(format!("{place}: {from} must not name {to}"));
            }
            for (room, part, stranger) in STRANGERS {
                if module.starts_with(&[room.into(), part.into()])
                    && naming.path.starts_with(&[room.into(), stranger.into()])
                {
                    let line = format!("{place}: {room}::{part} must not name {room}::{stranger}");
                    forbidden.push(line);
                }
            }
        }
    }
    forbidden
}

fn may_name(from: &str, to: &str) -> bool {
    if from == "main.rs" {
        return to == "cli";
    }
    let layer_of =
        |name: &str| LAYERS.iter().position(|layer| layer.iter().any(|room| room.name == name));
    let (Some(above), Some(below)) = (layer_of(from), layer_of(to)) else { return false };
    let beside = LAYERS[above].iter().any(|room| room.name == from && room.beside.contains(&to));
    below < above || beside
}
