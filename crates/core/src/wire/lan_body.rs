//! The body of a LAN message in pieces: values are sent from the memory that they are in.

use std::borrow::Cow;

use super::lan::{LanFrames, LanKind};
use crate::types::SharedValues;
use crate::types::packed::bytes_of;

/// The body of a message. A clone holds the same values.
#[derive(Clone, Debug, Default)]
pub struct LanBody {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Values(SharedValues),
}

impl LanBody {
    /// The bytes at the end, to which more can be appended.
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        if !matches!(self.pieces.last(), Some(Piece::Bytes(_))) {
            self.pieces.push(Piece::Bytes(Vec::new()));
        }
        match self.pieces.last_mut() {
            Some(Piece::Bytes(bytes)) => bytes,
            _ => unreachable!("the last piece is of bytes"),
        }
    }

    /// Appends values, four bytes each.
    pub(crate) fn push_values(&mut self, values: &SharedValues) {
        if values.len() < FEW_VALUES {
            self.bytes_mut().extend_from_slice(&bytes_of(values));
        } else {
            self.pieces.push(Piece::Values(values.clone()));
        }
    }

    /// The frames of the message.
    pub fn frames(&self, kind: LanKind) -> LanFrames<'_> {
        LanFrames::new(kind, self.pieces.iter().map(Piece::bytes).collect())
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces.iter().map(Piece::bytes).collect::<Vec<_>>().concat()
    }
}

impl From<Vec<u8>> for LanBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self { pieces: vec![Piece::Bytes(bytes)] }
    }
}

impl Piece {
    fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::Values(values) => bytes_of(values),
        }
    }
}

/// So few values are copied: a piece costs as much.
const FEW_VALUES: usize = 256;
