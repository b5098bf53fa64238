//! Data files as streams of bytes and of rows, plain or gzip by what they begin with.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::error::{DataError, Place, shown};

/// A data file, decompressed on the way.
pub(super) struct Source<'a> {
    file: PathBuf,
    bytes: Box<dyn BufRead + 'a>,
    line: Vec<u8>,
    /// Rows handed out.
    rows: u64,
}

impl Source<'static> {
    pub(super) fn open(file: &Path) -> Result<Self, DataError> {
        let unreadable = |reason| DataError::Unreadable { file: file.into(), reason };
        let opened = File::open(file).map_err(unreadable)?;
        let metadata = opened.metadata().map_err(unreadable)?;
        if metadata.is_dir() {
            return Err(DataError::broken(file, Place::Whole, "a folder", "a file"));
        }
        Self::new(file, opened)
    }
}

impl<'a> Source<'a> {
    /// Reads what `bytes` delivers, under the name of `file`.
    pub(super) fn new(file: &Path, bytes: impl Read + 'a) -> Result<Self, DataError> {
        let mut bytes = BufReader::with_capacity(BUFFER_BYTES, bytes);
        let start = bytes
            .fill_buf()
            .map_err(|reason| DataError::Unreadable { file: file.into(), reason })?;
        let bytes: Box<dyn BufRead + 'a> = if start.starts_with(&GZIP_MAGIC) {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(bytes)))
        } else {
            Box::new(bytes)
        };
        Ok(Self { file: file.into(), bytes, line: Vec::new(), rows: 0 })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The next line without its end, and its number from 1; `None` at the end of the file.
    pub(super) fn row(&mut self) -> Result<Option<(u64, &[u8])>, DataError> {
        self.line.clear();
        let row = self.rows + 1;
        let mut limited = (&mut self.bytes).take(ROW_BYTES_MAX + 1);
        let read = limited.read_until(b'\n', &mut self.line);
        let read = read.map_err(|reason| unpack_error(&self.file, Place::Row(row), reason))?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 > ROW_BYTES_MAX {
            let expected = format!("a row of at most {ROW_BYTES_MAX} bytes");
            return Err(DataError::broken(
                &self.file,
                Place::Row(row),
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

    /// Reads up to `most` bytes from `at`, fewer only where the file ends. Memory grows with what is there,
    /// not with what is asked for.
    pub(super) fn bytes(&mut self, at: u64, most: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        (&mut self.bytes)
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(|reason| unpack_error(&self.file, Place::Byte(at), reason))?;
        Ok(bytes)
    }
}

/// What is wrong with a file that stops giving bytes halfway.
fn unpack_error(file: &Path, place: Place, reason: std::io::Error) -> DataError {
    match reason.kind() {
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
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const BUFFER_BYTES: usize = 1 << 16;

/// Bytes in one row; a file without line ends must not fill the memory.
const ROW_BYTES_MAX: u64 = 1 << 24;
