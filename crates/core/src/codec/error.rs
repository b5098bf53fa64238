//! What can be wrong with encoded changes.

use std::fmt;

/// A part of encoded changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Indexes,
    Values,
}

/// Why bytes are no changes to this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the section of {section} ends {missing} bytes too early")]
    TooShort { section: Section, missing: usize },
    #[error("the section of {section} goes on for {bytes} bytes after its end")]
    TrailingBytes { section: Section, bytes: usize },
    #[error("index form {form} is none of those known")]
    UnknownForm { form: u8 },
    #[error("{count} changes are claimed for a shard of {parameters} parameters")]
    TooMany { count: u32, parameters: usize },
    #[error("index {index} lies outside a shard of {parameters} parameters")]
    IndexOutOfRange { index: u64, parameters: usize },
    #[error("an index does not follow the one before it")]
    NotAscending,
    #[error("{expected} indexes were announced, at least {found} are coded")]
    CountMismatch { expected: usize, found: usize },
    #[error("values take {bytes} bytes, the indexes ask for {expected}")]
    ValueBytes { bytes: usize, expected: usize },
    #[error("a number {bits} bits wide where at most 32 fit")]
    TooWide { bits: u8 },
    #[error("a number longer than 32 bits")]
    NumberTooLong,
    #[error("words of 2^{log2} parameters where 2^3 to 2^6 are known")]
    UnknownWord { log2: u8 },
    #[error("a block of values has scale {found} where 0 to 254 are known")]
    UnknownScale { found: u8 },
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Indexes => "indexes",
            Self::Values => "values",
        })
    }
}
