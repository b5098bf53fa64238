//! The formats of values on the wire.

use serde::{Deserialize, Serialize};

use super::DecodeError;
use super::blocks::{self, BLOCK, Grid};
use crate::types::packed::bytes_of;

/// The format of values in bulk frames.
///
/// `Int8`, `Int4` and `Int2` are block formats: 32 consecutive values of a frame share a scale, after the OCP Microscaling
/// Formats specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueFormat {
    /// IEEE 754 single precision: 4 bytes, exact.
    F32,
    /// The upper half of a single: 2 bytes, relative error at most 2⁻⁸.
    Bf16,
    /// 33 bytes for 32 values. The error is at most 1/127 of the largest of them.
    Int8,
    /// 17 bytes for 32 values. The error is at most 1/7 of the largest of them.
    Int4,
    /// 9 bytes for 32 values, each of which is 0 or the block's scale with either sign. The error is at most 0.71
    /// of the largest of them. For sparse rounds, whose values differ little in size and whose errors follow in later rounds.
    Int2,
}

impl ValueFormat {
    /// The number of values that share a scale in block formats. A sequence that is split at multiples of it is rounded
    /// as the whole is.
    pub const BLOCK: usize = BLOCK;

    /// All formats, the most precise first.
    pub const ALL: [Self; 5] = [Self::F32, Self::Bf16, Self::Int8, Self::Int4, Self::Int2];

    /// The format's name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Int2 => "int2",
        }
    }

    /// Whether the format is a block format: a value's rounding depends on its neighbours in the frame.
    pub fn shares_scales(self) -> bool {
        match self {
            Self::F32 | Self::Bf16 => false,
            Self::Int8 | Self::Int4 | Self::Int2 => true,
        }
    }

    /// The size in bytes of `count` values of one frame.
    pub fn bytes(self, count: usize) -> usize {
        match self {
            Self::F32 => count * 4,
            Self::Bf16 => count * 2,
            Self::Int8 => count + count.div_ceil(BLOCK),
            Self::Int4 => count.div_ceil(2) + count.div_ceil(BLOCK),
            Self::Int2 => count.div_ceil(4) + count.div_ceil(BLOCK),
        }
    }

    /// The size in bytes of one of many values, including its part of the shared scale.
    pub fn bytes_per_value(self) -> f64 {
        self.bytes(BLOCK) as f64 / BLOCK as f64
    }
}

/// Rounds the values of one frame to what the receiver decodes: the nearest value of the format, ties to even.
///
/// In block formats the rounding of a value depends on its neighbours. So `values` must be the sequence that is sent,
/// with holes filled ([`super::fills_holes`]). Idempotent.
///
/// A finite value stays finite, at most the largest of the format. A value that is not a number stays so. Infinities
/// stay infinite in `f32` and `bf16`; in block formats they become not-a-number. In block formats values below 2⁻¹²⁸
/// become 0.
pub fn quantise(values: &mut [f32], format: ValueFormat) {
    match format {
        ValueFormat::F32 => {}
        ValueFormat::Bf16 => {
            values.iter_mut().for_each(|value| *value = from_bf16(to_bf16(*value)));
        }
        ValueFormat::Int8 => blocks::quantise(values, Grid::INT8),
        ValueFormat::Int4 => blocks::quantise(values, Grid::INT4),
        ValueFormat::Int2 => blocks::quantise(values, Grid::INT2),
    }
}

pub(super) fn write(values: &[f32], format: ValueFormat, out: &mut Vec<u8>) {
    match format {
        ValueFormat::F32 => out.extend_from_slice(&bytes_of(values)),
        ValueFormat::Bf16 => {
            let start = out.len();
            out.resize(start + 2 * values.len(), 0);
            for (half, value) in out[start..].as_chunks_mut().0.iter_mut().zip(values) {
                *half = to_bf16(*value).to_le_bytes();
            }
        }
        ValueFormat::Int8 => blocks::write_int8(values, out),
        ValueFormat::Int4 => blocks::write_int4(values, out),
        ValueFormat::Int2 => blocks::write_int2(values, out),
    }
}

/// Writes a value for each parameter from the first index to the last, with zeros between the indexes.
pub(super) fn write_spread(
    indexes: &[u32],
    values: &[f32],
    format: ValueFormat,
    out: &mut Vec<u8>,
) {
    let (Some(first), Some(last)) = (indexes.first(), indexes.last()) else { return };
    let span = (last - first) as usize + 1;
    if span == values.len() {
        return write(values, format, out);
    }
    let mut spread = vec![0.0; span];
    for (index, value) in indexes.iter().zip(values) {
        spread[(index - first) as usize] = *value;
    }
    write(&spread, format, out);
}

/// Reads the `count` values of a section whose length was checked. They replace the contents of `out`.
pub(super) fn read(
    section: &[u8],
    count: usize,
    format: ValueFormat,
    out: &mut Vec<f32>,
) -> Result<(), DecodeError> {
    // Of other formats every value is overwritten, so that nothing has to be cleared.
    match format {
        ValueFormat::F32 => out.clear(),
        _ => out.resize(count, 0.0),
    }
    match format {
        ValueFormat::F32 => {
            out.extend(section.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            Ok(())
        }
        ValueFormat::Bf16 => {
            for (value, bytes) in out.iter_mut().zip(section.as_chunks::<2>().0) {
                *value = from_bf16(u16::from_le_bytes(*bytes));
            }
            Ok(())
        }
        ValueFormat::Int8 => blocks::read_int8(section, out),
        ValueFormat::Int4 => blocks::read_int4(section, out),
        ValueFormat::Int2 => blocks::read_int2(section, out),
    }
}

fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let truncated = bits >> 16;
    let half = if magnitude > INFINITY {
        // Sets the quiet bit, because truncation could turn a NaN into infinity.
        truncated | 0x40
    } else if magnitude >= BF16_OVERFLOWS {
        truncated
    } else {
        bits.wrapping_add(0x7fff + (truncated & 1)) >> 16
    };
    half as u16
}

fn from_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// The bits of infinity.
const INFINITY: u32 = 0x7f80_0000;
/// The smallest magnitude that would round up to infinity. Its upper half is the largest finite bf16.
const BF16_OVERFLOWS: u32 = 0x7f7f_8000;
