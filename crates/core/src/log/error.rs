//! The errors of reading a segment.

/// Why a segment is invalid. No part of it may be truncated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The segment is shorter than its header.
    #[error("is {present} bytes long where the header alone has {expected}")]
    ShortHeader {
        /// The size of the segment in bytes.
        present: usize,
        /// The size of the header in bytes.
        expected: usize,
    },
    /// The segment begins with other magic bytes.
    #[error("begins with {found:02x?}, expected {expected:02x?}")]
    OtherFile {
        /// The first four bytes.
        found: [u8; 4],
        /// The expected magic bytes.
        expected: [u8; 4],
    },
    /// The segment has another format version.
    #[error("is of log version {found}, this program reads version {expected}")]
    OtherVersion {
        /// The version of the segment.
        found: u16,
        /// [`LOG_VERSION`](super::LOG_VERSION).
        expected: u16,
    },
    /// The CRC of the header differs from that of its bytes.
    #[error("has a damaged header: its checksum is {found:08x}, its bytes give {expected:08x}")]
    DamagedHeader {
        /// The CRC in the header.
        found: u32,
        /// The CRC of the bytes.
        expected: u32,
    },
    /// The segment belongs to another run.
    #[error(
        "is of another run: its plan and data have hash {found:016x}, this run's {expected:016x}"
    )]
    OtherPlan {
        /// The hash in the header.
        found: u64,
        /// The hash of this run's plan and data.
        expected: u64,
    },
    /// The segment belongs to another node.
    #[error("is the log of node `{}`, not of `{}`", found.escape_debug(), expected.escape_debug())]
    OtherNode {
        /// The node's name in the header, at most 100 characters of it.
        found: String,
        /// This node's name.
        expected: String,
    },
    /// The number of the first record is too large.
    #[error("begins with record {found}, at most {most} can be")]
    ImpossibleNumber {
        /// The number.
        found: u64,
        /// The largest valid number.
        most: u64,
    },
    /// A synced record is damaged.
    #[error(
        "is damaged at byte {offset}, where record {number} is expected, which was synced: {broken}"
    )]
    Damaged {
        /// The position of the entry in the segment, in bytes.
        offset: usize,
        /// The number of the record.
        number: u64,
        /// What is wrong with the entry.
        broken: Broken,
    },
    /// A record exceeds the limit of this log.
    #[error("has a record {number} of {bytes} bytes at byte {offset}, {most} are the most")]
    OversizedRecord {
        /// The position of the entry in the segment, in bytes.
        offset: usize,
        /// The number of the record.
        number: u64,
        /// The size of the record.
        bytes: usize,
        /// The limit in bytes.
        most: usize,
    },
}

/// Why bytes are not the expected entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The segment ends within the entry.
    #[error("{present} bytes are left of an entry that has {expected}")]
    Short {
        /// The number of bytes from the entry's beginning to the end of the segment.
        present: usize,
        /// The size of the entry.
        expected: usize,
    },
    /// The CRC of the entry differs from that of its bytes.
    #[error("the checksum of the entry is {found:08x}, its bytes give {expected:08x}")]
    Checksum {
        /// The CRC in the entry.
        found: u32,
        /// The CRC of the bytes.
        expected: u32,
    },
    /// The CRC of the body differs from that of its bytes.
    #[error("the checksum of the body is {found:08x}, its bytes give {expected:08x}")]
    BodyChecksum {
        /// The CRC in the entry.
        found: u32,
        /// The CRC of the bytes.
        expected: u32,
    },
    /// The entry has another number.
    #[error("the entry has number {found}, expected {expected}")]
    Number {
        /// The number in the entry.
        found: u64,
        /// The number that follows that of the entry before.
        expected: u64,
    },
    /// The entry was written after another entry than the one before it.
    #[error(
        "the entry follows one that ends with {found:08x}, the one before it ends with {expected:08x}"
    )]
    History {
        /// The CRC of the entry before, by this entry.
        found: u32,
        /// The CRC of the entry before.
        expected: u32,
    },
    /// The entry claims that records were synced which did not exist, or is a mark that does not cover all records
    /// before.
    #[error(
        "the entry says that what was before record {found} was synced, and is before record {before}"
    )]
    Synced {
        /// The number below which all records were synced, by the entry.
        found: u64,
        /// The number of the next record.
        before: u64,
    },
}
