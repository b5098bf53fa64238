//! Data files as streams of bytes and of rows, plain or gzip. The first bytes of a file decide which.
//!
//! A reader keeps a few times what it reads, so that the size of a plain file bounds the memory. The size of a compressed
//! file does not: deflate expands one byte to at most 1032, and a few megabytes would fill any memory. So a gzip file may
//! expand to at most [`EXPANSION_MAX`] times its size, beyond a first [`UNPACKED_BYTES_FREE`]. Rows of numbers and
//! photographs expand 3 to 15 times. A file that expands more must be decompressed by the user.

use std::cell::Cell;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use crate::error::{DataError, FilePosition, shown};
use crate::formats::data_file::DataFile;

/// A data file, decompressed while it is read.
pub(crate) struct Source<'a> {
    file: PathBuf,
    bytes: Box<dyn BufRead + 'a>,
    line: Vec<u8>,
    /// Rows returned so far.
    rows: u64,
}

impl Source<'static> {
    pub(crate) fn open(file: &Path) -> Result<Self, DataError> {
        Self::new(file, DataFile::open(file)?)
    }
}

impl<'a> Source<'a> {
    /// Reads from `bytes`. Errors name `file`.
    pub(crate) fn new(file: &Path, bytes: impl Read + 'a) -> Result<Self, DataError> {
        let packed = Rc::new(Cell::new(0));
        let bytes = Counted { bytes, count: Rc::clone(&packed) };
        let mut bytes = BufReader::with_capacity(BUFFER_BYTES, bytes);
        let start = bytes
            .fill_buf()
            .map_err(|reason| DataError::Unreadable { file: file.into(), reason })?;
        let bytes: Box<dyn BufRead + 'a> = if start.starts_with(&GZIP_MAGIC) {
            let unpacked = Unpacked { decoder: MultiGzDecoder::new(bytes), packed, count: 0 };
            Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked))
        } else {
            Box::new(bytes)
        };
        Ok(Self { file: file.into(), bytes, line: Vec::new(), rows: 0 })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// All bytes of the file.
    pub(crate) fn into_bytes(self) -> Box<dyn BufRead + 'a> {
        self.bytes
    }

    /// The next line without its end, and its number from 1; `None` at the end of the file.
    pub(crate) fn row(&mut self) -> Result<Option<(u64, &[u8])>, DataError> {
        self.line.clear();

        let row = self.rows + 1;
        let mut limited = (&mut self.bytes).take(ROW_BYTES_MAX + 1);
        let read = limited.read_until(b'\n', &mut self.line);
        let read =
            read.map_err(|reason| unpack_error(&self.file, FilePosition::Row(row), reason))?;

        if read == 0 {
            return Ok(None);
        }

        if read as u64 > ROW_BYTES_MAX {
            let expected = format!("a row of at most {ROW_BYTES_MAX} bytes");
            return Err(DataError::broken(
                &self.file,
                FilePosition::Row(row),
                shown(&self.line),
                expected,
            ));
        }

        self.rows = row;

        let mut line = self.line.as_slice();
        line = line.strip_suffix(b"\n").unwrap_or(line);
        line = line.strip_suffix(b"\r").unwrap_or(line);

        if row == 1 {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }

        Ok(Some((row, line)))
    }

    /// Reads up to `most` bytes from `at`, fewer only where the file ends. Memory grows with the bytes that are there and
    /// not with `most`.
    pub(crate) fn bytes(&mut self, at: u64, most: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        (&mut self.bytes)
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(|reason| unpack_error(&self.file, FilePosition::Byte(at), reason))?;
        Ok(bytes)
    }
}

/// Counts the bytes that are read from a file.
struct Counted<R> {
    bytes: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.bytes.read(into)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

/// The contents of a gzip stream, up to the allowed expansion.
struct Unpacked<R> {
    decoder: MultiGzDecoder<R>,
    /// Bytes of the file that have been read.
    packed: Rc<Cell<u64>>,
    count: u64,
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.decoder.read(into)?;
        self.count += read as u64;
        let most = UNPACKED_BYTES_FREE.max(self.packed.get().saturating_mul(EXPANSION_MAX));
        if self.count > most {
            return Err(ErrorKind::FileTooLarge.into());
        }
        Ok(read)
    }
}

/// The largest number that a file with this many entries may give for its features or words.
///
/// Models have parameters for each of them, so that otherwise a file of a few bytes could fill the memory. In published
/// data sets nearly every feature occurs, and has many entries. Hashed features of a small sample may be more than its
/// entries.
pub(crate) fn width_max(entries: usize) -> usize {
    WIDTH_FREE.max(entries.saturating_mul(WIDTH_PER_ENTRY))
}

/// The error of a file that cannot be read to its end.
pub(crate) fn unpack_error(file: &Path, place: FilePosition, reason: std::io::Error) -> DataError {
    match reason.kind() {
        ErrorKind::FileTooLarge => {
            let expected = format!(
                "a gzip file that expands to at most {EXPANSION_MAX} times its size; one that is meant to do more can \
                 be unpacked first"
            );
            DataError::broken(file, place, "more bytes than the file may expand to", expected)
        }
        ErrorKind::UnexpectedEof => {
            DataError::broken(file, place, "the end of a cut gzip stream", "a whole gzip file")
        }
        ErrorKind::InvalidInput | ErrorKind::InvalidData => {
            DataError::broken(file, place, format!("broken gzip ({reason})"), "a whole gzip file")
        }
        _ => DataError::Unreadable { file: file.into(), reason },
    }
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const BUFFER_BYTES: usize = 1 << 16;

/// Bytes of the decompressed file for each byte of the compressed one.
pub(crate) const EXPANSION_MAX: u64 = 100;

/// Bytes that any gzip file may expand to, however small it is: a small file may repeat one value many times.
pub(crate) const UNPACKED_BYTES_FREE: u64 = 1 << 26;

/// Features or words that any file may have, however few its entries are.
const WIDTH_FREE: usize = 1 << 20;

/// Features or words for each entry of a file.
const WIDTH_PER_ENTRY: usize = 64;

/// Bytes in one row. A file without line ends must not fill the memory.
pub(crate) const ROW_BYTES_MAX: u64 = 1 << 24;
