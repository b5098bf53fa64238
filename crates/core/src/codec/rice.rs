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

pub(super) fn len(indexes: &[u32]) -> usize {
    let Some(first) = indexes.first() else { return 0 };
    let mut bytes = varint_len(*first);
    for_each_block(indexes, |gaps| {
        let split = Split::of(gaps);
        bytes += 1 + numbers::packed_len(split.low, gaps.len()) + split.unary.div_ceil(8);
    });
    bytes
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
        let start = out.len();
        out.resize(start + unary.div_ceil(8), 0);
        let mut at = 0;
        for gap in gaps {
            at += (gap >> low) as usize;
            out[start + at / 8] |= 1 << (at % 8);
            at += 1;
        }
    });
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
    let (mut lows, mut uppers) = ([0; BLOCK], [0; BLOCK]);
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
        let uppers = &mut uppers[..lows.len()];
        left -= lows.len();
        read_unary(reader, uppers, parameters)?;
        out.extend(lows.iter().zip(uppers).map(|(bits, upper)| {
            at += (u64::from(*upper) << low) + u64::from(*bits) + 1;
            at as u32
        }));
        check(at, parameters)?;
    }

    Ok(())
}

/// Reads one unary number into each entry of `numbers`. Their sum is checked to be not much more than `parameters`.
fn read_unary(
    reader: &mut Reader<'_>,
    numbers: &mut [u32],
    parameters: usize,
) -> Result<(), DecodeError> {
    let bytes = reader.rest();
    let (mut start, mut next) = (0, 0);
    let mut numbers = numbers.iter_mut();
    'words: loop {
        let present = bytes.get(start..bytes.len().min(start + 8)).unwrap_or(&[]);
        let mut word = [0; 8];
        word[..present.len()].copy_from_slice(present);
        let mut word = u64::from_le_bytes(word);
        while word != 0 {
            let Some(number) = numbers.next() else { break 'words };
            let one = start * 8 + word.trailing_zeros() as usize;
            *number = (one - next) as u32;
            next = one + 1;
            word &= word - 1;
        }
        if numbers.len() == 0 {
            break;
        }
        start += 8;
        if start >= bytes.len() {
            reader.take(bytes.len() + 1)?;
        }
        // A gap has at least as many parameters as its upper part has zeros.
        check((start * 8).saturating_sub(BLOCK) as u64, parameters)?;
    }

    reader.take(next.div_ceil(8)).map(drop)
}

impl Split {
    /// The better of two splits. One of them is optimal for geometric gaps, depending on where in its octave the mean
    /// is.
    fn of(gaps: &[u32]) -> Self {
        let sum: u64 = gaps.iter().map(|gap| u64::from(*gap)).sum();
        let mean = sum / gaps.len().max(1) as u64;
        let most = mean.checked_ilog2().unwrap_or(0) as u8;
        let cost = |low: u8| {
            let uppers: u32 = gaps.iter().map(|gap| gap >> low).sum();
            Self { low, unary: uppers as usize + gaps.len() }
        };
        let (fewer, more) = (cost(most.saturating_sub(1)), cost(most));
        let bits = |split: Self| split.unary + usize::from(split.low) * gaps.len();
        if bits(fewer) < bits(more) { fewer } else { more }
    }
}

/// The largest number of low bits of a gap.
const LOW_MAX: u8 = 31;
