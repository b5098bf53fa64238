//! Writes that do not pass through the operating system's cache of files.
//!
//! A checkpoint and the log of a dense model are as long as the model, and only a node that has crashed reads them. In the
//! cache each of their bytes would be copied to a page that nobody reads, which takes processor time and memory from
//! training. A disk reads them from a buffer of the process instead (`O_DIRECT` in open(2) of Linux), in whole blocks. The
//! ends that fill no block go through the cache, and so does everything where the system or its file system cannot do it.

use std::fs::File;
use std::io::{self, Write};

/// Writes at the end of a file. What was written is on disk after the next sync, as after any other write.
///
/// # Errors
/// Those of the operating system. Any part may have been written.
pub(super) fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() < UNCACHED_BYTES_MIN {
        return file.write_all(bytes);
    }
    let end = file.metadata()?.len();
    let to_block = (end.next_multiple_of(BLOCK_BYTES as u64) - end) as usize;
    let (head, rest) = bytes.split_at(to_block);
    file.write_all(head)?;
    let written = system::write_blocks(file, rest)?;
    file.write_all(&rest[written..])
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io::{self, ErrorKind, Write};

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::{BLOCK_BYTES, PIECE_BYTES};

    /// Writes whole blocks at the end of a file that ends with one. Returns how many bytes it has written: less than all whole
    /// blocks where the file system does not write around its cache.
    pub(super) fn write_blocks(file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        let flags = fcntl_getfl(&*file)?;
        if fcntl_setfl(&*file, flags | OFlags::DIRECT).is_err() {
            return Ok(0);
        }
        let written = write_pieces(file, bytes);
        fcntl_setfl(&*file, flags)?;
        written
    }

    fn write_pieces(file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        let mut space = vec![0; PIECE_BYTES + BLOCK_BYTES];
        let start = space.as_ptr().align_offset(BLOCK_BYTES);
        let buffer = &mut space[start..][..PIECE_BYTES];

        let whole = bytes.len() - bytes.len() % BLOCK_BYTES;
        let mut written = 0;
        while written < whole {
            let piece = &bytes[written..whole];
            let piece = &piece[..piece.len().min(PIECE_BYTES)];
            buffer[..piece.len()].copy_from_slice(piece);
            match file.write(&buffer[..piece.len()]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Its blocks are larger, or a write of a part has ended within one.
                Err(error) if error.kind() == ErrorKind::InvalidInput => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;

    pub(super) fn write_blocks(_: &mut File, _: &[u8]) -> io::Result<usize> {
        Ok(0)
    }
}

/// From this size on a write costs more in the cache than the disk's own latency.
const UNCACHED_BYTES_MIN: usize = 1 << 20;

/// A page. Disks have blocks of this size or of a part of it.
const BLOCK_BYTES: usize = 4096;

/// What is written at once. It stays in the cache of a processor between the copy and the write, and a small write of another
/// file waits for no more than this on the disk. Four times as much is a tenth faster.
const PIECE_BYTES: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_file_has_the_bytes_of_all_writes_in_order_wherever_its_blocks_begin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let lengths =
            [3, UNCACHED_BYTES_MIN, BLOCK_BYTES, 5 * PIECE_BYTES / 2 + 7, 1, 2 * PIECE_BYTES];
        let mut expected = Vec::new();
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();

        for (at, length) in lengths.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|byte| (byte / 251 + byte + at) as u8).collect();
            append(&mut file, &bytes).unwrap();
            expected.extend_from_slice(&bytes);
        }

        file.sync_all().unwrap();
        assert!(std::fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn a_file_that_may_not_be_written_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, b"read alone").unwrap();
        let mut file = File::open(&path).unwrap();
        append(&mut file, &vec![1; 2 * UNCACHED_BYTES_MIN]).unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), b"read alone");
    }
}
