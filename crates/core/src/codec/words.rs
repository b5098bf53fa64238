//! The index form for partly changed rows: bitmaps of those words of 8 to 64 consecutive parameters that change at all.
//!
//! If half of a row changes, a gap before each index takes several times the one bit that a bitmap takes.

use super::DecodeError;
use super::numbers::{self, BLOCK};
use super::reader::{Reader, varint_len, write_varint};

/// The word sizes in parameters, as binary logarithms.
const LOG2S: std::ops::RangeInclusive<u8> = 3..=6;

/// The best word size and the bytes that it takes. `None` if no size takes fewer than `below` bytes.
#[inline(always)]
pub(super) fn best(indexes: &[u32], below: usize) -> Option<(u8, usize)> {
    let mut best = None;
    let mut below = below;
    for log2 in LOG2S {
        // A lower bound: the bitmaps, a byte for each block and two more.
        let words = count(indexes, log2);
        if words * word_bytes(log2) + words.div_ceil(BLOCK) + 2 < below {
            let bytes = len(indexes, log2, words);
            if bytes < below {
                (best, below) = (Some((log2, bytes)), bytes);
            }
        }
    }
    best
}

/// The number of words that contain an index.
#[inline(always)]
fn count(indexes: &[u32], log2: u8) -> usize {
    let next = indexes.get(1..).unwrap_or(&[]);
    let borders = indexes.iter().zip(next).map(|(a, b)| u32::from(a >> log2 != b >> log2));
    borders.sum::<u32>() as usize + usize::from(!indexes.is_empty())
}

#[inline(always)]
fn len(indexes: &[u32], log2: u8, words: usize) -> usize {
    let mut bytes = 1 + varint_len(words as u32) + words * word_bytes(log2);
    let (Some(first), Some(last)) = (indexes.first(), indexes.last()) else { return bytes };

    // Of dense indexes most words have one. If all have, only those before the first are skipped.
    if (last >> log2) - (first >> log2) + 1 == words as u32 {
        let (blocks, rest) = ((words - 1) / BLOCK, (words - 1) % BLOCK + 1);
        let narrow = blocks * numbers::len(0, BLOCK) + numbers::len(0, rest);
        let width = numbers::width(first >> log2);
        return bytes + narrow + numbers::packed_len(width, words.min(BLOCK));
    }
    for_each_block(indexes, log2, |skips| {
        let or = skips.iter().fold(0, |or, skip| or | skip);
        bytes += numbers::len(numbers::width(or), skips.len());
    });
    bytes
}

pub(super) fn write(indexes: &[u32], log2: u8, out: &mut Vec<u8>) {
    out.push(log2);
    write_varint(count(indexes, log2) as u32, out);
    let mut rest = indexes;
    for_each_block(indexes, log2, |skips| {
        numbers::write(skips, out);
        for _ in skips {
            let word = rest[0] >> log2;
            let mut map = 0u64;
            while let Some((index, others)) = rest.split_first()
                && index >> log2 == word
            {
                map |= 1 << (index & ((1 << log2) - 1));
                rest = others;
            }
            out.extend_from_slice(&map.to_le_bytes()[..word_bytes(log2)]);
        }
    });
}

/// Calls `visit`, in blocks, with the number of skipped words before each word that contains an index.
#[inline(always)]
fn for_each_block(indexes: &[u32], log2: u8, mut visit: impl FnMut(&[u32])) {
    // One entry more than a block, so that every index can be stored without a branch. Only a new word advances.
    let (mut skips, mut count) = ([0; BLOCK + 1], 0);
    // One before word 0, so that no word is skipped before word 0.
    let mut last = u32::MAX;
    for index in indexes {
        let word = index >> log2;
        skips[count] = word.wrapping_sub(last).wrapping_sub(1);
        count += usize::from(word != last);
        last = word;
        if count == BLOCK {
            visit(&skips[..BLOCK]);
            count = 0;
        }
    }
    if count > 0 {
        visit(&skips[..count]);
    }
}

fn word_bytes(log2: u8) -> usize {
    1 << (log2 - 3)
}

/// Appends `count` indexes to `out`, all below `parameters`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    count: usize,
    parameters: usize,
    out: &mut Vec<u32>,
) -> Result<(), DecodeError> {
    let log2 = reader.byte()?;
    if !LOG2S.contains(&log2) {
        return Err(DecodeError::UnknownWord { log2 });
    }
    let mut words = reader.varint()? as usize;

    if words > count {
        return Err(DecodeError::CountMismatch { expected: count, found: words });
    }
    let mut block = [0; BLOCK];
    let mut next = 0u64;

    while words > 0 {
        let skips = numbers::read(reader, words.min(BLOCK), &mut block)?;
        words -= skips.len();
        for skip in skips {
            let word = next + u64::from(*skip);
            next = word + 1;
            let mut bytes = [0; 8];
            let taken = reader.take(word_bytes(log2))?;
            bytes[..taken.len()].copy_from_slice(taken);
            let map = u64::from_le_bytes(bytes);
            let first = word << log2;
            let last = first + u64::from(map.checked_ilog2().unwrap_or(0));
            if last >= parameters as u64 {
                return Err(DecodeError::IndexOutOfRange { index: last, parameters });
            }
            let found = out.len() + map.count_ones() as usize;
            if found > count {
                return Err(DecodeError::CountMismatch { expected: count, found });
            }
            push_bits(first as u32, map, out);
        }
    }

    if out.len() == count {
        Ok(())
    } else {
        Err(DecodeError::CountMismatch { expected: count, found: out.len() })
    }
}

fn push_bits(first: u32, mut map: u64, out: &mut Vec<u32>) {
    while map != 0 {
        out.push(first + map.trailing_zeros());
        map &= map - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_that_of_what_is_written_whether_or_not_every_word_has_an_index() {
        for step in [1, 3, 7, 9, 70] {
            for (first, count) in [0, 7, 1_000, 70_000].into_iter().zip([1, 500, 1_025, 4_099]) {
                let indexes: Vec<u32> = (first..).step_by(step).take(count).collect();
                for log2 in LOG2S {
                    let mut out = Vec::new();
                    write(&indexes, log2, &mut out);
                    let words = super::count(&indexes, log2);
                    assert_eq!(len(&indexes, log2, words), out.len(), "{first} by {step}, {log2}");
                }
            }
        }
    }
}
