//! The errors of reading a segment.

/// Why a segment is invalid. No part of it may be truncated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The segment is shorter than its header.
    #[error("is {present} bytes long, expected at least {expected} for the header")]
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
    #[error("is of log version {found}, expected {expected}")]
    OtherVersion {
        /// The version of the segment.
        found: u16,
        /// [`LOG_VERSION`](super::LOG_VERSION).
        expected: u16,
    },
    /// The CRC of the header differs from that of its bytes.
    #[error("has a damaged header: found checksum {found:08x}, expected {expected:08x}")]
    DamagedHeader {
        /// The CRC in the header.
        found: u32,
        /// The CRC of the bytes.
        expected: u32,
    },
    /// The segment belongs to another run.
    #[error(
        "is of another run: found hash {found:016x} of plan and data, expected {expected:016x}"
    )]
    OtherPlan {
        /// The hash in the header.
        found: u64,
        /// The hash of this run's plan and data.
        expected: u64,
    },
    /// The segment belongs to another node.
    #[error("is the log of node `{}`, expected `{}`", found.escape_debug(), expected.escape_debug())]
    OtherNode {
        /// The node's name in the header, at most 100 characters of it.
        found: String,
        /// This node's name.
        expected: String,
    },
    /// The number of the first record is too large.
    #[error("begins with record {found}, expected at most {most}")]
    ImpossibleNumber {
        /// The number.
        found: u64,
        /// The largest valid number.
        most: u64,
    },
    /// A synced record is damaged.
    #[error("is damaged at byte {offset}, expected record {number}, which was synced: {broken}")]
    Damaged {
        /// The position of the entry in the segment, in bytes.
        offset: usize,
        /// The number of the record.
        number: u64,
        /// What is wrong with the entry.
        broken: Broken,
    },
    /// A record exceeds the limit of this log.
    #[error("has a record {number} of {bytes} bytes at byte {offset}, expected at most {most}")]
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
    #[error("the entry has {present} bytes, expected {expected}")]
    Short {
        /// The number of bytes from the entry's beginning to the end of the segment.
        present: usize,
        /// The size of the entry.
        expected: usize,
    },
    /// The CRC of the entry differs from that of its bytes.
    #[error("the checksum of the entry is {found:08x}, expected {expected:08x}")]
    Checksum {
        /// The CRC in the entry.
        found: u32,
        /// The CRC of the bytes.
        expected: u32,
    },
    /// The CRC of the body differs from that of its bytes.
    #[error("the checksum of the body is {found:08x}, expected {expected:08x}")]
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
    #[error("the entry follows an entry that ends with {found:08x}, expected {expected:08x}")]
    History {
        /// The CRC of the entry before, by this entry.
        found: u32,
        /// The CRC of the entry before.
        expected: u32,
    },
    /// The entry claims that records were synced which did not exist, or is a mark that does not cover all records
    /// before.
    #[error(
        "the entry says that all records before {found} were synced, expected at most {before}"
    )]
    Synced {
        /// The number below which all records were synced, by the entry.
        found: u64,
        /// The number of the next record.
        before: u64,
    },
}
