//! The index form for randomly scattered indexes: their gaps as Rice codes, which suit geometric distributions (Golomb,
//! IEEE Trans. Information Theory 12, 1966; Rice, JPL Publication 79-22, 1979).
//!
//! A gap has two parts: its low bits in binary, and the rest in unary. In blocks of up to 128 gaps the two parts are
//! stored apart, so that the low bits can be unpacked at once and the unary part read from set bit to set bit. A block
//! is one byte with the number of low bits, then the packed low bits, then the unary parts. A unary part has as many
//! zeros as the upper part says, and a one. The lowest bit comes first, and the last byte is padded.

use super::DecodeError;
use super::gaps::{check, for_each_block};
use super::numbers::{self, BLOCK};
use super::reader::{Reader, varint_len, write_varint};

/// How a block's gaps are split.
#[derive(Clone, Copy, Debug)]
struct Split {
    /// The number of low bits, at most 31.
    low: u8,
    /// The size of the block's unary parts in bits.
    unary: usize,
}

#[inline(always)]
pub(super) fn len(indexes: &[u32]) -> usize {
    let Some(first) = indexes.first() else { return 0 };
    let mut bytes = varint_len(*first);
    for_each_block(indexes, |gaps| {
        let split = Split::of(gaps);
        bytes += 1 + numbers::packed_len(split.low, gaps.len()) + split.unary.div_ceil(8);
    });
    bytes
}

/// A bound on the size of `count` ascending indexes of which the last is `span - 1` after the first.
///
/// A block whose gaps have the mean `m` takes less than `3 + log₂(1 + m)` bits for each gap, and the logarithm is
/// concave, so that blocks with different means take less in all.
pub(super) fn len_max(count: usize, span: usize) -> usize {
    let bits = 4 + (span / count.max(1)).max(1).ilog2() as usize;
    5 + (count * bits).div_ceil(8) + 3 * count.div_ceil(BLOCK)
}

pub(super) fn write(indexes: &[u32], out: &mut Vec<u8>) {
    let Some(first) = indexes.first() else { return };
    write_varint(*first, out);
    for_each_block(indexes, |gaps| {
        let Split { low, unary } = Split::of(gaps);
        out.push(low);
        let mut lows = [0; BLOCK];
        for (place, gap) in lows.iter_mut().zip(gaps) {
            *place = gap & ((1 << low) - 1);
        }
        numbers::write_packed(&lows[..gaps.len()], low, out);
        write_unary(gaps.iter().map(|gap| gap >> low), unary, out);
    });
}

/// Appends numbers in unary, which have `bits` bits in all.
fn write_unary(numbers: impl Iterator<Item = u32>, bits: usize, out: &mut Vec<u8>) {
    let end = out.len() + bits.div_ceil(8);
    // Bits are collected in a register: to set each in memory waits for the one before.
    let (mut word, mut at) = (0u64, 0);
    for number in numbers {
        at += number as usize;
        while at >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            (word, at) = (0, at - 64);
        }
        word |= 1 << at;
        at += 1;
    }

    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

/// Appends `count` indexes to `out`, all below `parameters`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    count: usize,
    parameters: usize,
    out: &mut Vec<u32>,
) -> Result<(), DecodeError> {
    if count == 0 {
        return Ok(());
    }
    let (mut lows, mut ones) = ([0; BLOCK], [0; BLOCK]);
    let mut at = u64::from(reader.varint()?);
    check(at, parameters)?;
    out.push(at as u32);
    let mut left = count - 1;

    while left > 0 {
        let low = reader.byte()?;
        if low > LOW_MAX {
            return Err(DecodeError::TooWide { bits: low });
        }
        let lows = numbers::read_packed(reader, low, left.min(BLOCK), &mut lows)?;
        let ones = &mut ones[..lows.len()];
        left -= lows.len();
        read_unary(reader, ones, parameters)?;
        // Before the one of a number are the ones of those before it, and the zeros of all of them.
        let (before, mut sum) = (at, 0);
        out.extend((0..).zip(lows).zip(ones).map(|((number, bits), one)| {
            sum += u64::from(*bits) + 1;
            at = before + (u64::from(*one - number) << low) + sum;
            at as u32
        }));
        check(at, parameters)?;
    }

    Ok(())
}

/// Reads one unary number for each entry of `ones`: the place of its one. The last place is checked to be not much more
/// than `parameters`.
fn read_unary(
    reader: &mut Reader<'_>,
    ones: &mut [u32],
    parameters: usize,
) -> Result<(), DecodeError> {
    let bytes = reader.rest();
    let (mut start, mut found) = (0, 0);

    while found < ones.len() {
        if start >= bytes.len() {
            reader.take(bytes.len() + 1)?;
        }
        // A gap has at least as many parameters as its upper part has zeros.
        check(start.saturating_sub(BLOCK / 8) as u64 * 8, parameters)?;
        let present = bytes.get(start..bytes.len().min(start + 8)).unwrap_or(&[]);
        let mut word = [0; 8];
        word[..present.len()].copy_from_slice(present);
        let mut word = u64::from_le_bytes(word);
        let in_word = word.count_ones() as usize;
        for one in ones[found..].iter_mut().take(in_word) {
            *one = (start * 8) as u32 + word.trailing_zeros();
            word &= word - 1;
        }
        found += in_word;
        start += 8;
    }

    let bits = ones.last().map_or(0, |one| *one as usize + 1);
    reader.take(bits.div_ceil(8)).map(drop)
}

impl Split {
    /// The better of two splits. One of them is optimal for geometric gaps, depending on where in its octave the mean
    /// is.
    #[inline(always)]
    fn of(gaps: &[u32]) -> Self {
        let sum: u64 = gaps.iter().map(|gap| u64::from(*gap)).sum();
        let mean = sum / gaps.len().max(1) as u64;
        let most = mean.checked_ilog2().unwrap_or(0) as u8;
        let least = most.saturating_sub(1);
        let (mut fewer, mut more) = (0, 0);
        for gap in gaps {
            fewer += gap >> least;
            more += gap >> most;
        }

        let split = |low, uppers: u32| Self { low, unary: uppers as usize + gaps.len() };
        let (fewer, more) = (split(least, fewer), split(most, more));
        let bits = |split: Self| split.unary + usize::from(split.low) * gaps.len();
        if bits(fewer) < bits(more) { fewer } else { more }
    }
}

/// The largest number of low bits of a gap.
const LOW_MAX: u8 = 31;
