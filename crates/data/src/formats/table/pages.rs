//! What the pages of a Parquet file claim, checked before they are decoded.
//!
//! A decoder makes room for what a page header claims. A page of a few bytes may claim gigabytes, of values or of bytes once
//! it is decompressed. So a file may expand as a gzip file may: to at most [`EXPANSION_MAX`] times its size, beyond a first
//! [`UNPACKED_BYTES_FREE`].

use parquet::basic::{Encoding, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;

use super::thrift::PageHeader;
use crate::formats::source::{EXPANSION_MAX, UNPACKED_BYTES_FREE};

/// The bytes that a file may still expand to.
#[derive(Debug)]
pub(super) struct Allowance {
    file_bytes: u64,
    rest: u64,
}

/// What was found, and what was expected instead.
pub(super) type Found = (String, String);

impl Allowance {
    /// The allowance of a file of this many bytes.
    pub(super) fn of_file(file_bytes: u64) -> Self {
        let rest = UNPACKED_BYTES_FREE.max(file_bytes.saturating_mul(EXPANSION_MAX));
        Self { file_bytes, rest }
    }

    /// Checks the chunks of some columns of a row group, and what their pages claim.
    pub(super) fn check(
        &mut self,
        file: &impl ChunkReader,
        group: &RowGroupMetaData,
        is_read: impl Fn(usize) -> bool,
    ) -> Result<(), Found> {
        let chunks = group.columns().iter().enumerate();
        chunks.filter(|(leaf, _)| is_read(*leaf)).try_for_each(|(_, chunk)| self.chunk(file, chunk))
    }

    /// Checks the pages of the chunk of one column.
    fn chunk(&mut self, file: &impl ChunkReader, chunk: &ColumnChunkMetaData) -> Result<(), Found> {
        let whole = || "column chunks that lie in the file".to_owned();
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let claimed = (start, chunk.compressed_size(), chunk.num_values());
        let (Ok(start), Ok(length), Ok(values)) =
            (u64::try_from(claimed.0), u64::try_from(claimed.1), u64::try_from(claimed.2))
        else {
            return Err((format!("a column chunk with the sizes {claimed:?}"), whole()));
        };
        let end = start.saturating_add(length);
        if end > self.file_bytes {
            return Err((format!("a column chunk that ends at byte {end}"), whole()));
        }
        self.spend(values.saturating_mul(VALUE_BYTES))?;

        let (mut at, mut counted) = (start, 0);
        while at < end {
            let header = header(file, at, end)
                .ok_or_else(|| (format!("no page header at byte {at}"), whole()))?;
            counted += self.page(header, chunk.column_type())?;
            at = at.saturating_add(header.length).saturating_add(header.compressed as u64);
        }

        if at > end || counted > values {
            let found = format!("pages of {counted} values that end at byte {at}");
            return Err((found, format!("{values} values to byte {end}")));
        }
        Ok(())
    }

    /// Checks a page, and returns how many values of the column it has.
    fn page(&mut self, header: PageHeader, kind: Type) -> Result<u64, Found> {
        let PageHeader { uncompressed, compressed, values, encoding, .. } = header;
        if uncompressed < 0 || compressed < 0 || values < 0 {
            let found = format!("a page of {values} values in {compressed} bytes");
            return Err((found, "sizes from 0".into()));
        }
        self.spend(uncompressed as u64)?;

        // A value may repeat nearly all of the one before it: a short page is then as long as its square.
        if kind == Type::BYTE_ARRAY && encoding == Encoding::DELTA_BYTE_ARRAY as i64 {
            let expected = "text in plain, dictionary or delta-length encoding";
            return Err(("text as differences (DELTA_BYTE_ARRAY)".into(), expected.into()));
        }
        if !header.is_dictionary() {
            return Ok(values as u64);
        }
        // The values of a dictionary are plain, and none takes less than a byte.
        if values > uncompressed {
            let found = format!("a dictionary of {values} values in {uncompressed} bytes");
            return Err((found, "at most a value for each byte".into()));
        }
        Ok(0)
    }

    fn spend(&mut self, bytes: u64) -> Result<(), Found> {
        self.rest = self.rest.checked_sub(bytes).ok_or_else(|| {
            let expected = format!("a file that expands to at most {EXPANSION_MAX} times its size");
            ("more values than the file may expand to".into(), expected)
        })?;
        Ok(())
    }
}

/// The page header at a place, before the end of its chunk.
fn header(file: &impl ChunkReader, at: u64, end: u64) -> Option<PageHeader> {
    HEADER_BYTES.iter().find_map(|most| {
        let bytes = file.get_bytes(at, (end - at).min(*most) as usize).ok()?;
        PageHeader::read(&bytes)
    })
}

/// Bytes of a value in memory.
const VALUE_BYTES: u64 = 4;

/// How many bytes are tried as a header. Statistics in it may be long.
const HEADER_BYTES: [u64; 3] = [1 << 8, 1 << 13, 1 << 20];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_claim_more_than_their_bytes_can_hold_are_refused() {
        let page = PageHeader {
            length: 20,
            kind: 2,
            uncompressed: 400,
            compressed: 90,
            values: 100,
            encoding: Encoding::PLAIN as i64,
        };
        let check = |page: PageHeader, kind: Type, says: &str| {
            let found = Allowance::of_file(1 << 20).page(page, kind);
            let words = found.map_or_else(|(found, _)| found, |values| format!("{values} values"));
            assert!(words.contains(says), "{words}");
        };
        let huge = i64::from(i32::MAX);
        check(page, Type::INT32, "0 values");
        check(PageHeader { kind: 0, ..page }, Type::INT32, "100 values");
        check(
            PageHeader { values: huge, ..page },
            Type::INT32,
            "a dictionary of 2147483647 values in 400 bytes",
        );
        check(PageHeader { uncompressed: huge, ..page }, Type::INT32, "more values than the file");
        check(
            PageHeader { compressed: -1, ..page },
            Type::INT32,
            "a page of 100 values in -1 bytes",
        );
        let differences = PageHeader { encoding: Encoding::DELTA_BYTE_ARRAY as i64, ..page };
        check(differences, Type::BYTE_ARRAY, "text as differences");
    }
}
