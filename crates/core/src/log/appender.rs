//! The end of a log that is written.

use super::entry::Entry;
use super::header::{self, Owner};

/// Turns records into bytes for one segment, which are to be written one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appender {
    /// The CRC of the segment's header.
    segment: u32,
    /// What the entry before ends with.
    before: u32,
    next: u64,
    synced: u64,
}

impl Appender {
    /// Begins a segment: appends its header to `out`. All records below `first` are synced, in segments before.
    ///
    /// # Panics
    /// Where the node's name has more than 65,535 bytes.
    pub fn begin(owner: &Owner, first: u64, out: &mut Vec<u8>) -> Self {
        Self::at(header::encode(owner, first, out), first)
    }

    /// At the beginning of a segment.
    pub(super) fn at(segment: u32, first: u64) -> Self {
        Self { segment, before: segment, next: first, synced: first }
    }

    /// Appends a record to `out` and answers its number.
    ///
    /// # Panics
    /// Where `body` is empty or has 4 GiB or more.
    pub fn push(&mut self, body: &[u8], out: &mut Vec<u8>) -> u64 {
        assert!(!body.is_empty(), "a record says something");
        let body_bytes = u32::try_from(body.len()).expect("records are bounded far below 4 GiB");
        let number = self.next;
        self.push_entry(body_bytes, crc32fast::hash(body), out);
        out.extend_from_slice(body);
        self.next += 1;
        number
    }

    /// Appends the mark that all so far is synced, as it must be, to `out`.
    pub fn push_mark(&mut self, out: &mut Vec<u8>) {
        self.synced = self.next;
        self.push_entry(0, 0, out);
    }

    /// The number that the next record will have.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// All records below this number are known to be synced.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Goes past an entry that is there already.
    pub(super) fn pass(&mut self, entry: &Entry, ends_with: u32) {
        self.before = ends_with;
        self.next += u64::from(entry.body_bytes > 0);
        self.synced = self.synced.max(entry.synced);
    }

    /// What must stand where the next entry does: the CRC of the segment, and of the entry before.
    pub(super) fn place(&self) -> (u32, u32) {
        (self.segment, self.before)
    }

    fn push_entry(&mut self, body_bytes: u32, body_crc: u32, out: &mut Vec<u8>) {
        let (number, synced, before) = (self.next, self.synced, self.before);
        let entry = Entry { body_bytes, body_crc, number, synced, before };
        self.before = entry.encode(self.segment, out);
    }
}
