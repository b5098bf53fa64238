//! How values travel.

use serde::{Deserialize, Serialize};

use super::DecodeError;
use super::blocks::{self, BLOCK, Grid};

/// How values travel in bulk frames.
///
/// The last two are block formats: consecutive values of a frame share a scale, as `blocks.rs` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueFormat {
    /// IEEE 754 single precision: 4 bytes, exact.
    F32,
    /// The upper half of a single: 2 bytes, relative error at most 2⁻⁸.
    Bf16,
    /// 33 bytes for 32 values, error at most 1/127 of the largest among them.
    Int8,
    /// 17 bytes for 32 values, error at most 1/7 of the largest among them.
    Int4,
}

impl ValueFormat {
    /// Values that share a scale, where any do: a sequence cut at multiples of this is rounded as the whole is.
    pub const BLOCK: usize = BLOCK;

    pub const ALL: [Self; 4] = [Self::F32, Self::Bf16, Self::Int8, Self::Int4];

    /// The format's name, as configuration files write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }

    /// Whether a value's rounding depends on its neighbours in the frame.
    pub fn shares_scales(self) -> bool {
        match self {
            Self::F32 | Self::Bf16 => false,
            Self::Int8 | Self::Int4 => true,
        }
    }

    /// Bytes that `count` values of one frame take.
    pub fn bytes(self, count: usize) -> usize {
        match self {
            Self::F32 => count * 4,
            Self::Bf16 => count * 2,
            Self::Int8 => count + count.div_ceil(BLOCK),
            Self::Int4 => count.div_ceil(2) + count.div_ceil(BLOCK),
        }
    }

    /// Bytes for each of many values, its part of the shared scale included.
    pub fn bytes_per_value(self) -> f64 {
        self.bytes(BLOCK) as f64 / BLOCK as f64
    }
}

/// Makes of the values of one frame, in their order there, what arrives: the nearest that the format has, ties to
/// even.
///
/// Where values share scales their neighbours matter: the sequence must be the one that is sent, holes filled
/// ([`super::fills_holes`]). Quantising what was quantised changes nothing. A finite value stays finite, the largest
/// that the format has if need be, and not-a-number stays that. So do infinities in `f32` and `bf16`; the block
/// formats make them not-a-number, and below 2⁻¹²⁸ they know only 0.
pub fn quantise(values: &mut [f32], format: ValueFormat) {
    match format {
        ValueFormat::F32 => {}
        ValueFormat::Bf16 => {
            values.iter_mut().for_each(|value| *value = from_bf16(to_bf16(*value)));
        }
        ValueFormat::Int8 => blocks::quantise(values, Grid::INT8),
        ValueFormat::Int4 => blocks::quantise(values, Grid::INT4),
    }
}

pub(super) fn write(values: &[f32], format: ValueFormat, out: &mut Vec<u8>) {
    match format {
        ValueFormat::F32 => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        ValueFormat::Bf16 => {
            out.extend(values.iter().flat_map(|value| to_bf16(*value).to_le_bytes()));
        }
        ValueFormat::Int8 => blocks::write_int8(values, out),
        ValueFormat::Int4 => blocks::write_int4(values, out),
    }
}

/// Writes values from the first index to the last, with zeros wherever no index lies.
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

/// Reads all `count` values of a section whose length was checked; `out` then holds exactly that.
pub(super) fn read(
    section: &[u8],
    count: usize,
    format: ValueFormat,
    out: &mut Vec<f32>,
) -> Result<(), DecodeError> {
    out.clear();
    match format {
        ValueFormat::F32 => {
            out.extend(section.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            Ok(())
        }
        ValueFormat::Bf16 => {
            let halves = section.as_chunks::<2>().0.iter();
            out.extend(halves.map(|bytes| from_bf16(u16::from_le_bytes(*bytes))));
            Ok(())
        }
        ValueFormat::Int8 => blocks::read_int8(section, out),
        ValueFormat::Int4 => blocks::read_int4(section, count, out),
    }
}

fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let truncated = bits >> 16;
    let half = if magnitude > INFINITY {
        // The quiet bit, lest truncation turn not-a-number into infinity.
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
/// The smallest magnitude that would round up to infinity; its upper half is the largest finite bf16.
const BF16_OVERFLOWS: u32 = 0x7f7f_8000;
