//! The errors of decoding changes.

use std::fmt;

/// A part of encoded changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The parameters that change.
    Indexes,
    /// The changes.
    Values,
}

/// Why bytes do not encode changes to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A section ends within a field.
    #[error("the section of {section} ends {missing} bytes too early")]
    TooShort {
        /// The section.
        section: Section,
        /// The number of missing bytes of the field.
        missing: usize,
    },
    /// A section has more bytes than its contents.
    #[error("the section of {section} has {bytes} bytes after its end")]
    TrailingBytes {
        /// The section.
        section: Section,
        /// The number of excess bytes.
        bytes: usize,
    },
    /// The first byte of the index section names no form.
    #[error("index form {form} is unknown")]
    UnknownForm {
        /// The byte.
        form: u8,
    },
    /// The number of changes exceeds the shard.
    #[error(
        "found a count of {count} changes, expected at most the {parameters} parameters of the shard"
    )]
    TooMany {
        /// The number of changes.
        count: u32,
        /// The size of the shard.
        parameters: usize,
    },
    /// An index is beyond the shard.
    #[error("index {index} lies outside a shard of {parameters} parameters")]
    IndexOutOfRange {
        /// The index.
        index: u64,
        /// The size of the shard.
        parameters: usize,
    },
    /// An index is not greater than the one before it.
    #[error("an index does not follow the one before it")]
    NotAscending,
    /// The number of encoded indexes differs from the announced number.
    #[error("found at least {found} indexes, expected {expected}")]
    CountMismatch {
        /// The announced number.
        expected: usize,
        /// The encoded number, or a lower bound of it.
        found: usize,
    },
    /// The size of the value section does not match the number of indexes.
    #[error("found {bytes} bytes of values, expected {expected}")]
    ValueBytes {
        /// The size of the section.
        bytes: usize,
        /// The size that the indexes require.
        expected: usize,
    },
    /// A block of packed numbers has a width above 32 bits.
    #[error("found a number of {bits} bits, expected at most 32")]
    TooWide {
        /// The width in bits.
        bits: u8,
    },
    /// A variable-length number exceeds 32 bits.
    #[error("found a number of more than 32 bits")]
    NumberTooLong,
    /// A bitmap has an unsupported word size.
    #[error("found words of 2^{log2} parameters, expected 2^3 to 2^6")]
    UnknownWord {
        /// The binary logarithm of the word size in parameters.
        log2: u8,
    },
    /// A block of values has an invalid exponent byte.
    #[error("a block of values has scale {found}, expected 0 to 254")]
    UnknownScale {
        /// The byte.
        found: u8,
    },
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Indexes => "indexes",
            Self::Values => "values",
        })
    }
}
