//! A file of a checkpoint: read in parts by all processors, and checked against the manifest.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crc32fast::Hasher;
use rayon::prelude::*;

use super::disk::check_is_file;
use super::error::CheckpointError;
use super::manifest::FileMark;

/// A file of the right length. Its checksum is verified once all bytes are read.
pub(super) struct MarkedFile<'m> {
    path: PathBuf,
    mark: &'m FileMark,
    length: usize,
}

impl<'m> MarkedFile<'m> {
    /// Opens a file that the manifest lists.
    ///
    /// # Errors
    /// Where there is no such file, it is a symbolic link, or it has another length.
    pub(super) fn open(directory: &Path, mark: &'m FileMark) -> Result<Self, CheckpointError> {
        let path = directory.join(&mark.name);
        check_is_file(&path)?;
        let unread = CheckpointError::io(&path, CANNOT_READ);
        let (found, expected) = (fs::metadata(&path).map_err(unread)?.len(), mark.bytes);
        if found != expected {
            return Err(CheckpointError::WrongLength { path, found, expected });
        }
        let too_long =
            |_| CheckpointError::unreadable(&path, "its length exceeds the address space");
        let length = usize::try_from(found).map_err(too_long)?;
        Ok(Self { path, mark, length })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// Where it cannot be read, or is damaged.
    pub(super) fn read(&self) -> Result<Vec<u8>, CheckpointError> {
        let (mut bytes, mut whole) = (vec![0; self.length], Hasher::new());
        self.read_part(0, &mut bytes, &mut whole)?;
        self.check(&whole)?;
        Ok(bytes)
    }

    /// Reads a part of it, and adds it to the checksum of the parts before.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub(super) fn read_part(
        &self,
        from: usize,
        bytes: &mut [u8],
        before: &mut Hasher,
    ) -> Result<(), CheckpointError> {
        let parts = bytes.par_chunks_mut(PART_BYTES).enumerate().map(|(number, part)| {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start((from + number * PART_BYTES) as u64))?;
            file.read_exact(part)?;
            let mut hasher = Hasher::new();
            hasher.update(part);
            Ok(hasher)
        });
        let parts = parts.collect::<io::Result<Vec<Hasher>>>();
        let parts = parts.map_err(CheckpointError::io(&self.path, CANNOT_READ))?;
        parts.iter().for_each(|part| before.combine(part));
        Ok(())
    }

    /// Verifies the checksum of all parts.
    ///
    /// # Errors
    /// Where it is not that of the manifest.
    pub(super) fn check(&self, whole: &Hasher) -> Result<(), CheckpointError> {
        let (found, expected) = (whole.clone().finalize(), self.mark.crc32);
        if found != expected {
            let path = self.path.clone();
            return Err(CheckpointError::WrongChecksum { path, found, expected });
        }
        Ok(())
    }
}

/// What one thread reads and checks at a time. It must fit the cache, since it is read twice.
const PART_BYTES: usize = 2 << 20;

const CANNOT_READ: &str = "cannot be read";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_several_parts_is_read_whole_and_checked_in_each() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let whole: Vec<u8> = (0..2 * PART_BYTES + 5).map(|at| (at % 251) as u8).collect();
        let mark = FileMark::of("file", &[&whole]);
        let read = || MarkedFile::open(folder.path(), &mark)?.read();
        fs::write(&path, &whole).unwrap();
        assert!(read().unwrap() == whole);
        for at in [PART_BYTES - 1, PART_BYTES, 2 * PART_BYTES + 4] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            let error = read().unwrap_err();
            assert!(matches!(error, CheckpointError::WrongChecksum { .. }), "{at}: {error}");
        }
        fs::write(&path, &whole[1..]).unwrap();
        assert!(matches!(read().unwrap_err(), CheckpointError::WrongLength { .. }));
    }
}
