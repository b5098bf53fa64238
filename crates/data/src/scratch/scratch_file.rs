//! A file of blocks that has no name: the system removes it when the process ends, however it ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{DataError, FilePosition};

/// A file that blocks are added to and read from, in any order.
pub(crate) struct ScratchFile {
    file: File,
    /// What errors name: the folder, since the file has no name.
    folder: PathBuf,
    end: Mutex<u64>,
}

/// Where a block is, and what it must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    start: u64,
    bytes: u32,
    checksum: u32,
}

impl ScratchFile {
    /// # Errors
    /// [`DataError::Scratch`] where the folder cannot have one.
    pub(crate) fn new(folder: &Path) -> Result<Arc<Self>, DataError> {
        let file = tempfile::tempfile_in(folder)
            .map_err(|reason| DataError::Scratch { folder: folder.into(), reason })?;
        Ok(Arc::new(Self { file, folder: folder.into(), end: Mutex::new(0) }))
    }

    /// Adds a block, of less than 4 GiB.
    ///
    /// # Errors
    /// [`DataError::Scratch`], such as where the disk is full.
    pub(super) fn append(&self, bytes: &[u8]) -> Result<Block, DataError> {
        let unwritable = |reason| DataError::Scratch { folder: self.folder.clone(), reason };
        let length = u32::try_from(bytes.len())
            .map_err(|_| unwritable(io::ErrorKind::FileTooLarge.into()))?;
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.write_all_at(bytes, *end).map_err(unwritable)?;
        let block = Block { start: *end, bytes: length, checksum: crc32fast::hash(bytes) };
        *end += bytes.len() as u64;
        Ok(block)
    }

    /// Reads a block.
    ///
    /// # Errors
    /// [`DataError::Unreadable`], or [`DataError::Broken`] where it is not what was written.
    pub(super) fn read(&self, block: Block) -> Result<Vec<u8>, DataError> {
        let mut bytes = vec![0; block.bytes as usize];
        self.file.read_exact_at(&mut bytes, block.start).map_err(|reason| match reason.kind() {
            io::ErrorKind::UnexpectedEof => self.broken(block, "the end of the scratch file"),
            _ => DataError::Unreadable { file: self.folder.clone(), reason },
        })?;
        if crc32fast::hash(&bytes) != block.checksum {
            return Err(self.broken(block, "other bytes in the scratch file"));
        }
        Ok(bytes)
    }

    pub(super) fn broken(&self, block: Block, found: &str) -> DataError {
        let position = FilePosition::Byte(block.start);
        DataError::broken(&self.folder, position, found, "the examples that were written there")
    }
}

impl Block {
    pub(super) fn bytes(self) -> usize {
        self.bytes as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_what_was_cut_or_changed_is_one_error() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = ScratchFile::new(folder.path()).unwrap();
        let blocks = [&b"first"[..], b"", b"second"].map(|bytes| scratch.append(bytes).unwrap());
        assert_eq!(scratch.read(blocks[2]).unwrap(), b"second");
        assert_eq!(scratch.read(blocks[0]).unwrap(), b"first");
        assert_eq!(scratch.read(blocks[1]).unwrap(), b"");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");

        scratch.file.write_all_at(b"S", 5).unwrap();
        let expected = "expected the examples that were written there";
        let error = scratch.read(blocks[2]).unwrap_err().to_string();
        let place = format!("{}, byte 5: ", folder.path().display());
        assert_eq!(error, format!("{place}found other bytes in the scratch file, {expected}"));
        scratch.file.set_len(8).unwrap();
        let error = scratch.read(blocks[2]).unwrap_err().to_string();
        assert_eq!(error, format!("{place}found the end of the scratch file, {expected}"));
        assert_eq!(scratch.read(blocks[0]).unwrap(), b"first");

        let missing = folder.path().join("missing");
        let Err(error) = ScratchFile::new(&missing) else { panic!("no folder") };
        assert!(error.to_string().contains("missing, which cannot be written: "), "{error}");
    }
}
