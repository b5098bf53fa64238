//! Serialisation of `f32` vectors as one byte string of four bytes for each number, little-endian.
//!
//! MessagePack takes five bytes for each number of an array, and a call of the serialiser.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// For `#[serde(with = "packed")]`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(&bytes_of(values))
}

/// For `#[serde(with = "packed")]`.
///
/// # Errors
/// Those of the deserializer, and where the length is not a multiple of four bytes.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    deserializer.deserialize_bytes(Values)
}

/// The bytes of numbers: the memory of the numbers themselves, where the machine is little-endian.
pub(crate) fn bytes_of(values: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(values))
    } else {
        Cow::Owned(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }
}

/// The numbers in a byte string. `None` if its length is not a multiple of four.
pub(crate) fn unpack(bytes: &[u8]) -> Option<Vec<f32>> {
    let (numbers, rest) = bytes.as_chunks();
    rest.is_empty().then(|| numbers_of(numbers).collect())
}

/// Numbers of four little-endian bytes each.
pub fn numbers_of(bytes: &[[u8; 4]]) -> impl ExactSizeIterator<Item = f32> + '_ {
    bytes.iter().map(|number| f32::from_le_bytes(*number))
}

struct Values;

impl Visitor<'_> for Values {
    type Value = Vec<f32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("four bytes for each number")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<f32>, E> {
        unpack(bytes).ok_or_else(|| E::invalid_length(bytes.len(), &self))
    }
}
