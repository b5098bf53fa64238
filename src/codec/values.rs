//! How values travel.

use serde::{Deserialize, Serialize};

/// How values travel in bulk frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueFormat {
    /// IEEE 754 single precision: 4 bytes, exact.
    F32,
    /// The upper half of a single: 2 bytes, relative error at most 2⁻⁸.
    Bf16,
}

impl ValueFormat {
    /// Bytes for each value.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// What arrives when `value` is sent: the nearest that the format has, ties to even.
///
/// A finite value stays finite, the largest that the format has if need be. Infinities stay, and so does not-a-number.
pub fn quantise(value: f32, format: ValueFormat) -> f32 {
    match format {
        ValueFormat::F32 => value,
        ValueFormat::Bf16 => from_bf16(to_bf16(value)),
    }
}

pub(super) fn write(values: &[f32], format: ValueFormat, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + values.len() * format.bytes(), 0);
    match format {
        ValueFormat::F32 => {
            let (places, _) = out[start..].as_chunks_mut::<4>();
            for (place, value) in places.iter_mut().zip(values) {
                *place = value.to_le_bytes();
            }
        }
        ValueFormat::Bf16 => {
            let (places, _) = out[start..].as_chunks_mut::<2>();
            for (place, value) in places.iter_mut().zip(values) {
                *place = to_bf16(*value).to_le_bytes();
            }
        }
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
    let start = out.len();
    out.resize(start + ((last - first) as usize + 1) * format.bytes(), 0);
    for (index, value) in indexes.iter().zip(values) {
        let place = start + (index - first) as usize * format.bytes();
        match format {
            ValueFormat::F32 => out[place..place + 4].copy_from_slice(&value.to_le_bytes()),
            ValueFormat::Bf16 => {
                out[place..place + 2].copy_from_slice(&to_bf16(*value).to_le_bytes());
            }
        }
    }
}

/// Reads all of a section whose length was checked; `out` then holds exactly that.
pub(super) fn read(section: &[u8], format: ValueFormat, out: &mut Vec<f32>) {
    out.clear();
    match format {
        ValueFormat::F32 => {
            out.extend(section.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        ValueFormat::Bf16 => {
            let halves = section.as_chunks::<2>().0.iter();
            out.extend(halves.map(|bytes| from_bf16(u16::from_le_bytes(*bytes))));
        }
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
