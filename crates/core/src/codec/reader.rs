//! A bounds-checked reader of one section, and the variable-length encoding of numbers.

use super::{DecodeError, Section};

/// The unread rest of one section.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    section: Section,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], section: Section) -> Self {
        Self { rest: bytes, section }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            let missing = count - self.rest.len();
            return Err(DecodeError::TooShort { section: self.section, missing });
        };
        self.rest = rest;
        Ok(taken)
    }

    /// All bytes that have not been taken.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    /// Reads a number of seven bits a byte, the lowest first. A set top bit means that another byte follows.
    pub(super) fn varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(value).map_err(|_| DecodeError::NumberTooLong);
            }
        }
        Err(DecodeError::NumberTooLong)
    }

    pub(super) fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::TrailingBytes { section: self.section, bytes }),
        }
    }
}

pub(super) fn write_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn varint_len(value: u32) -> usize {
    (32 - (value | 1).leading_zeros() as usize).div_ceil(7)
}
