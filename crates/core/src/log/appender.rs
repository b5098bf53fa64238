//! The writing end of a log.

use super::entry::Entry;
use super::header::{self, Owner};

/// Encodes the records of one segment. The caller writes the bytes in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appender {
    /// The CRC of the segment's header.
    segment: u32,
    /// The CRC of the last entry, or of the header.
    before: u32,
    next: u64,
    synced: u64,
}

impl Appender {
    /// Begins a segment whose first record has the number `first`, and appends its header to `out`. All records below
    /// `first` must be synced, in earlier segments.
    ///
    /// # Panics
    /// If the node's name has more than 65,535 bytes.
    pub fn begin(owner: &Owner, first: u64, out: &mut Vec<u8>) -> Self {
        Self::at(header::encode(owner, first, out), first)
    }

    /// An appender at the beginning of a segment whose header has the CRC `segment`.
    pub(super) fn at(segment: u32, first: u64) -> Self {
        Self { segment, before: segment, next: first, synced: first }
    }

    /// Appends a record to `out` and returns its number.
    ///
    /// # Panics
    /// If `body` is empty or has 4 GiB or more.
    pub fn push(&mut self, body: &[u8], out: &mut Vec<u8>) -> u64 {
        assert!(!body.is_empty(), "a record says something");
        let body_bytes = u32::try_from(body.len()).expect("records are bounded far below 4 GiB");
        let number = self.next;
        self.push_entry(body_bytes, crc32fast::hash(body), out);
        out.extend_from_slice(body);
        self.next += 1;
        number
    }

    /// Appends to `out` the mark that all records so far are synced. The caller must have synced them.
    pub fn push_mark(&mut self, out: &mut Vec<u8>) {
        self.synced = self.next;
        self.push_entry(0, 0, out);
    }

    /// The number that the next record will have.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The number below which all records are known to be synced.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Advances past an existing entry.
    pub(super) fn pass(&mut self, entry: &Entry, ends_with: u32) {
        self.before = ends_with;
        self.next += u64::from(entry.body_bytes > 0);
        self.synced = self.synced.max(entry.synced);
    }

    /// The CRCs on which the next entry depends: that of the segment's header, and that of the entry before.
    pub(super) fn place(&self) -> (u32, u32) {
        (self.segment, self.before)
    }

    fn push_entry(&mut self, body_bytes: u32, body_crc: u32, out: &mut Vec<u8>) {
        let (number, synced, before) = (self.next, self.synced, self.before);
        let entry = Entry { body_bytes, body_crc, number, synced, before };
        self.before = entry.encode(self.segment, out);
    }
}
