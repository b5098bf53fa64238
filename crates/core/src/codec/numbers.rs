//! Bit-packed numbers in blocks of at most 128. The widest number of a block determines the block's width.
//!
//! A full block has the layout of the bitpacking crate, with four interleaved lanes, so that vector instructions unpack
//! it. A shorter block holds its numbers one after another, the lowest bit first. Both use one byte for the width and
//! `width × count` bits, rounded up to bytes.

use bitpacking::{BitPacker, BitPacker4x};

use super::DecodeError;
use super::reader::Reader;

/// Numbers in a full block.
pub(super) const BLOCK: usize = BitPacker4x::BLOCK_LEN;

/// A block that is being filled or has been read.
pub(super) type Block = [u32; BLOCK];

/// The width in bits of the widest of some numbers, from their bitwise or.
#[inline(always)]
pub(super) fn width(or: u32) -> u8 {
    (32 - or.leading_zeros()) as u8
}

/// The size of a block in bytes. 0 for an empty block.
#[inline(always)]
pub(super) fn len(width: u8, count: usize) -> usize {
    if count == 0 { 0 } else { 1 + packed_len(width, count) }
}

/// The size of a block's numbers in bytes, without the width.
#[inline(always)]
pub(super) fn packed_len(width: u8, count: usize) -> usize {
    (usize::from(width) * count).div_ceil(8)
}

pub(super) fn write(numbers: &[u32], out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let width = width(numbers.iter().fold(0, |or, number| or | number));
    out.push(width);
    write_packed(numbers, width, out);
}

/// Appends numbers of at most `width` bits, at most a block of them, without the width.
pub(super) fn write_packed(numbers: &[u32], width: u8, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + packed_len(width, numbers.len()), 0);
    if numbers.len() == BLOCK {
        BitPacker4x::new().compress(numbers, &mut out[start..], width);
    } else {
        pack(numbers, width, &mut out[start..]);
    }
}

/// Reads `count` numbers, at most a block, into the front of `block`.
pub(super) fn read<'b>(
    reader: &mut Reader<'_>,
    count: usize,
    block: &'b mut Block,
) -> Result<&'b [u32], DecodeError> {
    if count == 0 {
        return Ok(&[]);
    }
    let width = reader.byte()?;
    if width > 32 {
        return Err(DecodeError::TooWide { bits: width });
    }
    Ok(read_packed(reader, width, count, block)?)
}

/// Reads `count` numbers of at most 32 bits each, at most a block, into the front of `block`.
pub(super) fn read_packed<'b>(
    reader: &mut Reader<'_>,
    width: u8,
    count: usize,
    block: &'b mut Block,
) -> Result<&'b mut [u32], DecodeError> {
    let bytes = reader.take(packed_len(width, count))?;
    if count == BLOCK {
        BitPacker4x::new().decompress(bytes, block, width);
    } else {
        unpack(bytes, width, &mut block[..count]);
    }
    Ok(&mut block[..count])
}

fn pack(numbers: &[u32], width: u8, out: &mut [u8]) {
    let (mut held, mut bits, mut at) = (0u64, 0, 0);
    for &number in numbers {
        held |= u64::from(number) << bits;
        bits += u32::from(width);
        while bits >= 8 {
            out[at] = held as u8;
            (held, bits, at) = (held >> 8, bits - 8, at + 1);
        }
    }
    if bits > 0 {
        out[at] = held as u8;
    }
}

fn unpack(bytes: &[u8], width: u8, numbers: &mut [u32]) {
    let mask = (1u64 << width) - 1;
    let (mut held, mut bits) = (0u64, 0);
    let mut bytes = bytes.iter();
    for number in numbers {
        while bits < u32::from(width) {
            held |= u64::from(bytes.next().copied().unwrap_or(0)) << bits;
            bits += 8;
        }
        *number = (held & mask) as u32;
        held >>= width;
        bits -= u32::from(width);
    }
}
