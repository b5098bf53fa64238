//! The index form for scattered indexes: the first index, then the number of skipped parameters before each further
//! one.

use super::DecodeError;
use super::numbers::{self, BLOCK};
use super::reader::{Reader, varint_len, write_varint};

#[inline(always)]
pub(super) fn len(indexes: &[u32]) -> usize {
    let Some(first) = indexes.first() else { return 0 };
    let mut bytes = varint_len(*first);
    let gaps = indexes.len() - 1;
    for start in (0..gaps).step_by(BLOCK) {
        let count = BLOCK.min(gaps - start);
        let from = &indexes[start..start + count];
        let to = &indexes[start + 1..start + 1 + count];
        let or = from.iter().zip(to).fold(0, |or, (from, to)| or | (to - from - 1));
        bytes += numbers::len(numbers::width(or), count);
    }
    bytes
}

pub(super) fn write(indexes: &[u32], out: &mut Vec<u8>) {
    let Some(first) = indexes.first() else { return };
    write_varint(*first, out);
    for_each_block(indexes, |gaps| numbers::write(gaps, out));
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
    let mut block = [0; BLOCK];
    let mut at = u64::from(reader.varint()?);
    check(at, parameters)?;
    out.push(at as u32);
    let mut left = count - 1;

    while left > 0 {
        let gaps = numbers::read(reader, left.min(BLOCK), &mut block)?;
        left -= gaps.len();
        out.extend(gaps.iter().map(|gap| {
            at += u64::from(*gap) + 1;
            at as u32
        }));
        check(at, parameters)?;
    }

    Ok(())
}

/// Calls `visit` with the gaps between indexes, of which there is at least one, in blocks.
#[inline(always)]
pub(super) fn for_each_block(indexes: &[u32], mut visit: impl FnMut(&[u32])) {
    let mut block = [0; BLOCK];
    let gaps = indexes.len() - 1;
    for start in (0..gaps).step_by(BLOCK) {
        let count = BLOCK.min(gaps - start);
        let pairs = indexes[start..start + count].iter().zip(&indexes[start + 1..]);
        for (gap, (from, to)) in block.iter_mut().zip(pairs) {
            *gap = to - from - 1;
        }
        visit(&block[..count]);
    }
}

/// Checks that an index is within the shard.
pub(super) fn check(index: u64, parameters: usize) -> Result<(), DecodeError> {
    if index < parameters as u64 {
        Ok(())
    } else {
        Err(DecodeError::IndexOutOfRange { index, parameters })
    }
}
