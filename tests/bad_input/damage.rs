//! Whatever happens to a file, reading it ends in an answer.

use gaia_config::{Override, RunFile, topology_from_text};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{MATRIX, WAN};

/// What a hand or a disk may do to a file.
#[derive(Clone, Debug)]
enum Damage {
    Delete { at: usize, length: usize },
    Insert { at: usize, text: String },
    Repeat { at: usize, length: usize, to: usize },
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = 0..1000_usize;
    let piece = prop_oneof![
        Just("\n"),
        Just("\""),
        Just("["),
        Just("]]"),
        Just("="),
        Just("."),
        Just("{"),
        Just(","),
        Just("-1"),
        Just("1e308"),
        Just("nan"),
        Just("0"),
        Just("'x'"),
        Just("\u{0}"),
        Just("é"),
        Just("#"),
        Just("\r"),
        Just("9999999999999999999"),
        Just("[topology.wan]\n"),
        Just("[[link]]\n"),
    ];
    prop_oneof![
        (place.clone(), 1..40_usize).prop_map(|(at, length)| Damage::Delete { at, length }),
        (place.clone(), piece).prop_map(|(at, text)| Damage::Insert { at, text: text.into() }),
        (place.clone(), ".{0,8}").prop_map(|(at, text)| Damage::Insert { at, text }),
        (place.clone(), 1..40_usize, place).prop_map(|(at, length, to)| Damage::Repeat {
            at,
            length,
            to
        }),
    ]
}

fn damaged(good: &str, damages: &[Damage]) -> String {
    let mut chars: Vec<char> = good.chars().collect();
    for damage in damages {
        let within = |at: usize| at % (chars.len() + 1);
        match damage {
            Damage::Delete { at, length } => {
                let at = within(*at);
                let end = (at + length).min(chars.len());
                chars.drain(at..end);
            }
            Damage::Insert { at, text } => {
                let at = within(*at);
                chars.splice(at..at, text.chars());
            }
            Damage::Repeat { at, length, to } => {
                let (at, to) = (within(*at), within(*to));
                let end = (at + length).min(chars.len());
                let piece = chars[at..end].to_vec();
                chars.splice(to..to, piece);
            }
        }
    }
    chars.into_iter().collect()
}

/// Reads a run file; an error must be showable, and a plan must write itself out.
fn read_run(text: &str, overrides: &[Override]) {
    match RunFile::from_text("config/run/x.toml", text, overrides).and_then(|file| file.plan()) {
        Ok(plan) => {
            let again = RunFile::from_text("x.toml", &plan.to_toml(), &[]).unwrap().plan();
            assert_eq!(again.unwrap(), plan);
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(error.render(true).contains("error"));
        }
    }
}

fn read_topology(text: &str) {
    if let Err(error) = topology_from_text("config/topology/x.toml", text) {
        assert!(!error.to_string().is_empty());
        assert!(error.render(false).contains("error"));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        read_run(&text, &[]);
        read_topology(&text);
    }

    #[test]
    fn no_damage_to_a_run_file_makes_its_parser_panic(
        which in 0..5_usize,
        damages in proptest::collection::vec(damage(), 1..6),
    ) {
        let good = ["quickstart", "movielens", "mnist", "a9a", "kos"][which];
        let good = std::fs::read_to_string(format!("config/run/{good}.toml")).unwrap();
        read_run(&damaged(&good, &damages), &[]);
    }

    #[test]
    fn no_damage_to_a_topology_makes_its_parser_panic(
        which in 0..4_usize,
        damages in proptest::collection::vec(damage(), 1..6),
    ) {
        let good = ["three-regions", "gaia-2016-ss", "lan", "aws-2022-single-flow"][which];
        let good = std::fs::read_to_string(format!("config/topology/{good}.toml")).unwrap();
        read_topology(&damaged(&good, &damages));
    }

    #[test]
    fn no_damage_to_a_matrix_makes_its_parser_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        damages in proptest::collection::vec(damage(), 0..6),
    ) {
        let folder = TempDir::new().unwrap();
        let topology = folder.path().join("wan.toml");
        let name = topology.to_str().unwrap();
        for matrix in [bytes, damaged(MATRIX, &damages).into_bytes()] {
            std::fs::write(folder.path().join("matrix.csv"), matrix).unwrap();
            if let Err(error) = topology_from_text(name, WAN) {
                assert!(error.render(false).contains("matrix.csv"));
            }
        }
    }

    #[test]
    fn no_override_makes_the_parser_panic(
        any in "[a-z_.]{0,20}",
        known in 0..6_usize,
        value in ".{0,20}",
    ) {
        let known =
            ["seed", "topology.link", "sync.remote.model", "topology.file", "app", "stop"][known];
        let good = std::fs::read_to_string("config/run/quickstart.toml").unwrap();
        for key in [any.as_str(), known] {
            if let Ok(setting) = Override::parse(&format!("{key}={value}")) {
                read_run(&good, &[setting]);
            }
        }
    }
}
