//! The formats of values on the wire.

use serde::{Deserialize, Serialize};

use super::DecodeError;
use super::blocks::{self, BLOCK, Grid};
use crate::simd::{self, Level, Work};
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
/// stay infinite in `f32` and `bf16`; in block formats they become not-a-number. In block formats values up to
/// 2⁻¹²⁷ become 0.
pub fn quantise(values: &mut [f32], format: ValueFormat) {
    quantise_at(Level::best(), values, format);
}

/// Appends values without indexes.
pub fn encode_values(values: &[f32], format: ValueFormat, out: &mut Vec<u8>) {
    out.reserve(format.bytes(values.len()));
    write(values, format, out);
}

/// Decodes `count` values that [`encode_values`] wrote. They replace the contents of `out`.
///
/// # Errors
/// If the bytes are not as many as so many values take, or are no values.
pub fn decode_values(
    bytes: &[u8],
    count: usize,
    format: ValueFormat,
    out: &mut Vec<f32>,
) -> Result<(), DecodeError> {
    check_bytes(bytes, count, format)?;
    read(bytes, count, format, out)
}

/// Whether so many values take these bytes.
pub(super) fn check_bytes(
    bytes: &[u8],
    count: usize,
    format: ValueFormat,
) -> Result<(), DecodeError> {
    let expected = format.bytes(count);
    if bytes.len() != expected {
        return Err(DecodeError::ValueBytes { bytes: bytes.len(), expected });
    }
    Ok(())
}

/// Appends the values of one frame.
pub(super) fn write(values: &[f32], format: ValueFormat, out: &mut Vec<u8>) {
    write_at(Level::best(), values, format, out);
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
    // Every value is overwritten, so that nothing has to be cleared.
    out.resize(count, 0.0);
    read_at(Level::best(), section, format, out)
}

/// [`quantise`] with the instructions of a level.
fn quantise_at(level: Level, values: &mut [f32], format: ValueFormat) {
    simd::run(level, Quantise { values, format });
}

/// [`write`] with the instructions of a level.
fn write_at(level: Level, values: &[f32], format: ValueFormat, out: &mut Vec<u8>) {
    simd::run(level, Write { values, format, out });
}

/// [`read`] with the instructions of a level, into as many values as the section has.
fn read_at(
    level: Level,
    section: &[u8],
    format: ValueFormat,
    out: &mut [f32],
) -> Result<(), DecodeError> {
    simd::run(level, Read { section, format, out })
}

struct Quantise<'a> {
    values: &'a mut [f32],
    format: ValueFormat,
}

struct Write<'a> {
    values: &'a [f32],
    format: ValueFormat,
    out: &'a mut Vec<u8>,
}

struct Read<'a> {
    section: &'a [u8],
    format: ValueFormat,
    out: &'a mut [f32],
}

impl Work for Quantise<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { values, format } = self;
        match format {
            ValueFormat::F32 => {}
            ValueFormat::Bf16 => quantise_bf16(values),
            ValueFormat::Int8 => blocks::quantise(values, Grid::INT8),
            ValueFormat::Int4 => blocks::quantise(values, Grid::INT4),
            ValueFormat::Int2 => blocks::quantise(values, Grid::INT2),
        }
    }
}

impl Work for Write<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { values, format, out } = self;
        match format {
            ValueFormat::F32 => out.extend_from_slice(&bytes_of(values)),
            ValueFormat::Bf16 => write_bf16(values, out),
            ValueFormat::Int8 => blocks::write_int8(values, out),
            ValueFormat::Int4 => blocks::write_int4(values, out),
            ValueFormat::Int2 => blocks::write_int2(values, out),
        }
    }
}

impl Work for Read<'_> {
    type Output = Result<(), DecodeError>;

    #[inline(always)]
    fn run(self) -> Result<(), DecodeError> {
        let Self { section, format, out } = self;
        match format {
            ValueFormat::F32 => {
                read_each(section, out, f32::from_le_bytes);
                Ok(())
            }
            ValueFormat::Bf16 => {
                read_each(section, out, from_bf16_bytes);
                Ok(())
            }
            ValueFormat::Int8 => blocks::read_int8(section, out),
            ValueFormat::Int4 => blocks::read_int4(section, out),
            ValueFormat::Int2 => blocks::read_int2(section, out),
        }
    }
}

#[inline(always)]
fn quantise_bf16(values: &mut [f32]) {
    for values in values.chunks_mut(PIECE) {
        simd::prefetch_behind(values);
        for value in values {
            *value = from_bf16(to_bf16(*value));
        }
    }
}

#[inline(always)]
fn write_bf16(values: &[f32], out: &mut Vec<u8>) {
    let mut halves = [[0; 2]; PIECE];
    out.reserve(2 * values.len());
    for values in values.chunks(PIECE) {
        simd::prefetch_behind(values);
        for (half, value) in halves.iter_mut().zip(values) {
            *half = to_bf16(*value).to_le_bytes();
        }
        simd::append(halves[..values.len()].as_flattened(), out);
    }
}

/// Reads numbers of `BYTES` bytes each.
#[inline(always)]
fn read_each<const BYTES: usize>(
    section: &[u8],
    out: &mut [f32],
    read: impl Fn([u8; BYTES]) -> f32,
) {
    let numbers = section.as_chunks::<BYTES>().0.chunks(PIECE);
    for (values, numbers) in out.chunks_mut(PIECE).zip(numbers) {
        simd::prefetch_behind(values);
        simd::prefetch_behind(numbers);
        for (value, number) in values.iter_mut().zip(numbers) {
            *value = read(*number);
        }
    }
}

#[inline(always)]
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

#[inline(always)]
fn from_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

#[inline(always)]
fn from_bf16_bytes(half: [u8; 2]) -> f32 {
    from_bf16(u16::from_le_bytes(half))
}

/// The number of values that are coded before memory is asked for again. Encoded ones are collected, so that `out` need
/// not be cleared first.
const PIECE: usize = 128;
/// The bits of infinity.
const INFINITY: u32 = 0x7f80_0000;
/// The smallest magnitude that would round up to infinity. Its upper half is the largest finite bf16.
const BF16_OVERFLOWS: u32 = 0x7f7f_8000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values in every region of single precision, of many sizes and of about one.
    fn anything() -> impl Strategy<Value = f32> {
        let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN];
        let subnormal = |bits: u32| f32::from_bits(bits & 0x807f_ffff);
        let not_a_number = |bits: u32| f32::from_bits(bits | 0x7f80_0001);
        prop_oneof![
            4 => any::<u32>().prop_map(f32::from_bits),
            8 => -4.0f32..4.0,
            1 => prop::sample::select(special.to_vec()),
            1 => any::<u32>().prop_map(subnormal),
            1 => any::<u32>().prop_map(not_a_number),
        ]
    }

    fn bits_of(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    proptest! {
        /// Lengths are no multiples of a block, of a piece of blocks, or of a vector.
        #[test]
        fn every_instruction_set_codes_values_to_the_same_bits(
            values in proptest::collection::vec(anything(), 0..700),
            damage in any::<u8>(),
            format in prop::sample::select(ValueFormat::ALL.to_vec()),
        ) {
            let coded = Level::available().map(|level| {
                let mut rounded = values.clone();
                quantise_at(level, &mut rounded, format);
                let mut bytes = vec![0xee];
                write_at(level, &values, format, &mut bytes);
                let read = |section: &[u8]| {
                    let mut arrived = vec![9.0; values.len()];
                    let result = read_at(level, section, format, &mut arrived);
                    (result, bits_of(&arrived))
                };
                // Every byte means something, so that any but a scale of 255 decodes.
                let damaged: Vec<u8> = bytes[1..].iter().map(|byte| byte.wrapping_add(damage)).collect();
                (bits_of(&rounded), read(&bytes[1..]), read(&damaged), bytes)
            });
            let coded: Vec<_> = coded.collect();

            let (rounded, arrived, _, bytes) = &coded[0];
            prop_assert_eq!(bytes.len(), 1 + format.bytes(values.len()));
            prop_assert_eq!(arrived, &(Ok(()), rounded.clone()));
            for other in &coded {
                prop_assert_eq!(other, &coded[0]);
            }
        }
    }
}
