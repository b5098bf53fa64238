//! The manifest: the run of a checkpoint, how far it had come, and the length and checksum of each file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{CheckpointError, shown};

/// How far a run had come, in a form that people and tools can read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Every data center has finished this clock.
    pub clock: u64,
    /// The first record of the node's log that is to be replayed on the state. `None` for a state without a log.
    pub first_record: Option<u64>,
    /// Virtual nanoseconds since the run began.
    pub time_ns: u64,
    /// The clocks of each data center.
    pub clocks: Vec<ClockOf>,
    /// How far the frames of each link have come.
    pub watermarks: Vec<LinkMark>,
}

/// The clocks of one data center.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockOf {
    /// Its name in the topology.
    pub data_center: String,
    /// The last clock that all its workers have finished.
    pub clock: u64,
    /// The clock of each worker. With its seed it determines which examples the worker visits next.
    pub workers: Vec<u64>,
}

/// How far the frames between two mirrors have come, by their sequence numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkMark {
    /// The data center that this is the state of.
    pub from: String,
    /// The data center at the other end.
    pub to: String,
    /// The shard whose servers the link joins.
    pub shard: u16,
    /// The last frame that `from` has sent to `to`.
    pub sent: u64,
    /// The last frame of `to` that `from` has applied.
    pub received: u64,
}

/// The contents of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) version: u32,
    /// The version of the program. The contents of a state may change with it.
    pub(super) program: String,
    /// A hash of the plan and its data.
    pub(super) plan: String,
    /// The seed of every random number.
    pub(super) seed: u64,
    pub(super) run: Facts,
    pub(super) files: Vec<FileMark>,
    /// CRC-32 of this manifest in one line with this field 0.
    pub(super) crc32: u32,
}

/// The length and the checksum of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileMark {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) crc32: u32,
}

/// The part of a manifest that every version has.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
    program: String,
}

impl Manifest {
    pub(super) fn new(plan: &str, seed: u64, run: Facts, files: Vec<FileMark>) -> Self {
        let (program, plan) = (PROGRAM.to_owned(), plan.to_owned());
        let mut manifest = Self { version: VERSION, program, plan, seed, run, files, crc32: 0 };
        manifest.crc32 = manifest.checksum();
        manifest
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a manifest is plain data") + "\n"
    }

    /// Reads a manifest; `path` is for errors.
    pub(super) fn read(path: &Path, text: &[u8]) -> Result<Self, CheckpointError> {
        let unreadable = |error| CheckpointError::unreadable(path, error);
        let any: AnyVersion = serde_json::from_slice(text).map_err(unreadable)?;
        if any.version != VERSION || any.program != PROGRAM {
            return Err(CheckpointError::OtherVersion {
                path: path.to_owned(),
                found: format!("{} (gaia {})", any.version, shown(&any.program)),
                expected: format!("{VERSION} (gaia {PROGRAM})"),
            });
        }
        let manifest: Self = serde_json::from_slice(text).map_err(unreadable)?;
        let found = manifest.checksum();
        if found != manifest.crc32 {
            let (path, expected) = (path.to_owned(), manifest.crc32);
            return Err(CheckpointError::WrongChecksum { path, found, expected });
        }
        Ok(manifest)
    }

    fn checksum(&self) -> u32 {
        let bare = Self { crc32: 0, ..self.clone() };
        crc32fast::hash(&serde_json::to_vec(&bare).expect("a manifest is plain data"))
    }
}

impl FileMark {
    pub(super) fn of(name: &str, parts: &[impl AsRef<[u8]>]) -> Self {
        let mut checksum = crc32fast::Hasher::new();
        parts.iter().for_each(|part| checksum.update(part.as_ref()));
        let bytes = parts.iter().map(|part| part.as_ref().len() as u64).sum();
        Self { name: name.to_owned(), bytes, crc32: checksum.finalize() }
    }
}

/// The version of the files' layout.
const VERSION: u32 = 4;
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_refused_or_harmless() {
        let dc = |clock| ClockOf { data_center: "north".into(), clock, workers: vec![clock, 9] };
        let (from, to) = ("north".to_owned(), "south".to_owned());
        let mark = LinkMark { from, to, shard: 1, sent: 300, received: 299 };

        let run = Facts {
            clock: 8,
            first_record: Some(77),
            time_ns: 1_234_567,
            clocks: vec![dc(8), dc(10)],
            watermarks: vec![mark],
        };

        let files =
            vec![FileMark::of("state.msgpack", &["some ", "bytes"]), FileMark::of("empty", &[""])];
        let manifest = Manifest::new("00ff", 7, run, files);
        let good = manifest.to_json().into_bytes();
        let read = |text: &[u8]| Manifest::read(Path::new("manifest.json"), text);

        assert_eq!(read(&good).unwrap(), manifest);

        for bit in 0..good.len() * 8 {
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A flipped bit may turn a space into the end of a line.
            if let Ok(read) = read(&flipped) {
                assert!(good[bit / 8].is_ascii_whitespace(), "bit {bit}");
                assert_eq!(read, manifest);
            }
        }
    }
}
