//! What can be wrong with a segment.

/// Why a segment is not believed. None of it is to be cut off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    #[error("is {present} bytes long where the header alone has {expected}")]
    ShortHeader { present: usize, expected: usize },
    #[error("begins with {found:02x?}, expected {expected:02x?}")]
    OtherFile { found: [u8; 4], expected: [u8; 4] },
    #[error("is of log version {found}, this program reads version {expected}")]
    OtherVersion { found: u16, expected: u16 },
    #[error("has a damaged header: its checksum is {found:08x}, its bytes give {expected:08x}")]
    DamagedHeader { found: u32, expected: u32 },
    #[error(
        "is of another run: its plan and data have hash {found:016x}, this run's {expected:016x}"
    )]
    OtherPlan { found: u64, expected: u64 },
    #[error("is the log of node `{}`, not of `{}`", found.escape_debug(), expected.escape_debug())]
    OtherNode { found: String, expected: String },
    #[error("begins with record {found}, at most {most} can be")]
    ImpossibleNumber { found: u64, most: u64 },
    #[error(
        "is damaged at byte {offset}, where record {number} is expected, which was synced: {broken}"
    )]
    Damaged { offset: usize, number: u64, broken: Broken },
    #[error("has a record {number} of {bytes} bytes at byte {offset}, {most} are the most")]
    OversizedRecord { offset: usize, number: u64, bytes: usize, most: usize },
}

/// Why bytes are not the entry that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("{present} bytes are left of an entry that has {expected}")]
    Short { present: usize, expected: usize },
    #[error("the checksum of the entry is {found:08x}, its bytes give {expected:08x}")]
    Checksum { found: u32, expected: u32 },
    #[error("the checksum of the body is {found:08x}, its bytes give {expected:08x}")]
    BodyChecksum { found: u32, expected: u32 },
    #[error("the entry has number {found}, expected {expected}")]
    Number { found: u64, expected: u64 },
    #[error(
        "the entry follows one that ends with {found:08x}, the one before it ends with {expected:08x}"
    )]
    History { found: u32, expected: u32 },
    #[error(
        "the entry says that what was before record {found} was synced, and is before record {before}"
    )]
    Synced { found: u64, before: u64 },
}
