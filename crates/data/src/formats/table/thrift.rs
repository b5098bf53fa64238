//! The headers of the pages of a Parquet file, in Thrift's compact protocol: as much of them as says how large a page is.

/// What the header of a page claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Bytes of the header itself.
    pub(super) length: u64,
    pub(super) kind: i64,
    pub(super) uncompressed: i64,
    pub(super) compressed: i64,
    /// Values of the page, or of the dictionary that it holds.
    pub(super) values: i64,
    pub(super) encoding: i64,
}

impl PageHeader {
    /// Reads the header at the start of some bytes. `None` where it goes beyond them or is none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut header = Self::default();
        let mut compact = Compact { bytes, at: 0 };
        compact.structure(0, 0, &mut |outer, field, value| match (outer, field) {
            (0, 1) => header.kind = value,
            (0, 2) => header.uncompressed = value,
            (0, 3) => header.compressed = value,
            (DATA_PAGE | DICTIONARY_PAGE | DATA_PAGE_V2, 1) => header.values = value,
            (DATA_PAGE, 2) | (DATA_PAGE_V2, 4) => header.encoding = value,
            _ => {}
        })?;
        header.length = compact.at as u64;
        Some(header)
    }

    pub(super) fn is_dictionary(&self) -> bool {
        self.kind == 2
    }
}

/// Bytes in the compact protocol, from a place on.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Compact<'_> {
    /// Reads a structure. `found` is told the whole numbers in it and in the structures that are its fields: the number of
    /// the outer field or 0, the number of the field, and the value.
    fn structure(
        &mut self,
        depth: usize,
        outer: i64,
        found: &mut impl FnMut(i64, i64, i64),
    ) -> Option<()> {
        let mut field = 0_i64;
        loop {
            let start = self.byte()?;
            if start == 0 {
                return Some(());
            }
            let (step, kind) = (i64::from(start >> 4), start & 0x0f);
            field = if step == 0 { self.signed()? } else { field.checked_add(step)? };
            match kind {
                4..=6 => {
                    let value = self.signed()?;
                    if depth < 2 {
                        found(outer, field, value);
                    }
                }
                STRUCTURE if depth == 0 => self.structure(1, field, found)?,
                _ => self.skip(kind, depth, false)?,
            }
        }
    }

    /// Skips a value. Truth values take a byte in lists and none in fields.
    fn skip(&mut self, kind: u8, depth: usize, in_list: bool) -> Option<()> {
        if depth == DEPTH_MAX {
            return None;
        }
        match kind {
            1 | 2 if in_list => self.forward(1),
            1 | 2 => Some(()),
            3 => self.forward(1),
            4..=6 => self.unsigned().map(|_| ()),
            7 => self.forward(8),
            8 => {
                let length = self.unsigned()?;
                self.forward(length)
            }
            9 | 10 => {
                let start = self.byte()?;
                let length = match start >> 4 {
                    15 => self.unsigned()?,
                    short => u64::from(short),
                };
                // Each element takes at least a byte, so that a length beyond the bytes ends soon.
                (0..length).try_for_each(|_| self.skip(start & 0x0f, depth + 1, true))
            }
            STRUCTURE => self.structure(depth + 1, 0, &mut |_, _, _| {}),
            _ => None,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn forward(&mut self, by: u64) -> Option<()> {
        let at = self.at.checked_add(usize::try_from(by).ok()?)?;
        self.at = (at <= self.bytes.len()).then_some(at)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A number with its sign in the lowest bit.
    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

/// The type of a structure.
const STRUCTURE: u8 = 12;

/// Structures within structures. Headers of pages have three levels.
const DEPTH_MAX: usize = 8;

/// The fields of a page header that hold what depends on the kind of the page.
const DATA_PAGE: i64 = 5;
const DICTIONARY_PAGE: i64 = 7;
const DATA_PAGE_V2: i64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_how_large_its_page_is_and_a_part_of_one_says_nothing() {
        // Fields 1 to 3, field 5 with 300 values in encoding 8 and two more encodings, statistics with text, the end.
        let header = [
            0x15, 0, 0x15, 0x80, 0x10, 0x15, 0x20, 0x2c, 0x15, 0xd8, 0x04, 0x15, 0x10, 0x15, 6,
            0x15, 6, 0x1c, 0x18, 2, b'a', b'b', 0, 0, 0, 9,
        ];
        let expected = PageHeader {
            length: header.len() as u64 - 1,
            kind: 0,
            uncompressed: 1024,
            compressed: 16,
            values: 300,
            encoding: 8,
        };
        assert_eq!(PageHeader::read(&header), Some(expected));
        assert!((0..header.len() - 1).all(|length| PageHeader::read(&header[..length]).is_none()));
    }

    #[test]
    fn nesting_without_end_and_lists_of_any_length_are_no_header() {
        assert_eq!(PageHeader::read(&[0x1c; 1000]), None);
        let list = [0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0];
        assert_eq!(PageHeader::read(&list), None);
    }
}
