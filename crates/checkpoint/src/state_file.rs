//! The state of one small state machine in one file, which is replaced whole.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `GAIC` |
//! | 4 | 2 | version of the file |
//! | 6 | 2 | zero |
//! | 8 | 8 | hash of the plan |
//! | 16 | 8 | bytes of the records |
//! | 24 | 4 | CRC-32 of the 24 bytes before and of the records |
//! | 28 | n | the records by name, as MessagePack |
//!
//! The file is written under another name, synced and renamed, so that it is whole under its own name.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::disk::{Syncer, SystemSyncer, check_is_file, make_directory, write_synced};
use super::error::CheckpointError;
use gaia_core::types::{State, messagepack};

/// The file of one state machine.
#[derive(Debug)]
pub struct StateFile<S = SystemSyncer> {
    path: PathBuf,
    plan: u64,
    syncer: S,
}

impl StateFile {
    /// The file at `path`, for the run whose plan has the hash `plan`. Its directory is made where there is none.
    ///
    /// # Errors
    /// Where the disk fails.
    pub fn new(path: &Path, plan: u64) -> Result<Self, CheckpointError> {
        Self::with(path, plan, SystemSyncer)
    }
}

impl<S: Syncer> StateFile<S> {
    /// As [`StateFile::new`], with other calls that wait for the disk.
    pub(super) fn with(path: &Path, plan: u64, syncer: S) -> Result<Self, CheckpointError> {
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        make_directory(folder, &syncer)
            .map_err(CheckpointError::io(folder, "cannot be created"))?;
        Ok(Self { path: path.to_owned(), plan, syncer })
    }

    /// Writes the state, and replaces the one that was written before.
    ///
    /// # Errors
    /// Where the disk fails. The state that was written before is still there.
    ///
    /// # Panics
    /// Where the state has tensors.
    pub fn write(&self, state: &State) -> Result<(), CheckpointError> {
        assert!(state.tensors.is_empty(), "a small machine has no tensors");

        let records = messagepack::encode(&state.records);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + records.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.plan.to_le_bytes());
        bytes.extend_from_slice(&(records.len() as u64).to_le_bytes());

        let crc = crc(&bytes, &records);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&records);

        let draft = self.path.with_extension("part");
        let unwritten = |path: &Path| CheckpointError::io(path, "cannot be written");
        write_synced(&draft, [&bytes[..]], &self.syncer).map_err(unwritten(&draft))?;
        std::fs::rename(&draft, &self.path).map_err(unwritten(&self.path))?;

        let folder = self.path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or_else(|| Path::new("."));
        self.syncer.sync_directory(folder).map_err(unwritten(folder))
    }

    /// Reads the state that was written last. `None` where none was.
    ///
    /// # Errors
    /// Where the file is damaged, or of another version or plan.
    pub fn read(&self) -> Result<Option<State>, CheckpointError> {
        let path = &self.path;
        check_is_file(path)?;
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(CheckpointError::io(path, "cannot be read"))?,
        };

        let unreadable = |problem: String| CheckpointError::unreadable(path, problem);
        let (header, records) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| {
            unreadable(format!("found {} bytes, expected a complete header", bytes.len()))
        })?;

        let field = |at: usize| {
            let field = header[at..at + 8].first_chunk().expect("eight bytes of the header");
            u64::from_le_bytes(*field)
        };

        if header[..4] != *MAGIC {
            return Err(unreadable(format!(
                "begins with {:02x?}, expected {MAGIC:02x?}",
                &header[..4]
            )));
        }

        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != VERSION {
            return Err(unreadable(format!("found version {version}, expected {VERSION}")));
        }

        let (found, expected) = (records.len() as u64, field(16));
        if found != expected {
            return Err(CheckpointError::WrongLength { path: path.clone(), found, expected });
        }

        let expected = u32::from_le_bytes([header[24], header[25], header[26], header[27]]);
        let found = crc(&header[..24], records);
        if found != expected {
            return Err(CheckpointError::WrongChecksum { path: path.clone(), found, expected });
        }

        if field(8) != self.plan {
            let text = |plan: u64| format!("{plan:016x}");
            let (found, expected) = (text(field(8)), text(self.plan));
            return Err(CheckpointError::OtherPlan { path: path.clone(), found, expected });
        }

        let records: BTreeMap<String, Bytes> =
            messagepack::decode(records).map_err(|error| unreadable(error.to_string()))?;
        Ok(Some(State { tensors: BTreeMap::new(), records }))
    }
}

fn crc(header: &[u8], records: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(header);
    crc.update(records);
    crc.finalize()
}

const MAGIC: &[u8; 4] = b"GAIC";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;

    fn state(clock: u8) -> State {
        let records = BTreeMap::from([("clock".to_owned(), vec![clock].into())]);
        State { tensors: BTreeMap::new(), records }
    }

    #[test]
    fn the_last_state_reads_back_and_every_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes/coordinator/state");
        let file = StateFile::new(&path, 7).unwrap();

        assert_eq!(file.read().unwrap(), None);
        file.write(&state(1)).unwrap();
        file.write(&state(2)).unwrap();
        assert_eq!(file.read().unwrap(), Some(state(2)));

        let whole = std::fs::read(&path).unwrap();
        for bit in 0..8 * whole.len() {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, damaged).unwrap();
            assert!(file.read().is_err(), "bit {bit}");
        }

        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(file.read().is_err(), "{length} bytes");
        }

        std::fs::write(&path, &whole).unwrap();

        let other = StateFile::new(&path, 8).unwrap().read().unwrap_err();
        assert!(matches!(other, CheckpointError::OtherPlan { .. }), "{other}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_is_not_read_and_is_replaced_and_so_is_one_in_that_of_its_draft() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("state"), folder.path().join("victim"));
        std::fs::write(&victim, "of somebody else").unwrap();
        for name in ["state", "state.part"] {
            std::os::unix::fs::symlink(&victim, folder.path().join(name)).unwrap();
        }

        let file = StateFile::new(&path, 7).unwrap();
        let refused = file.read().unwrap_err().to_string();
        assert!(refused.ends_with("state is a symbolic link, expected a file"), "{refused}");
        file.write(&state(1)).unwrap();
        assert_eq!(file.read().unwrap(), Some(state(1)));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "of somebody else");
    }
}
