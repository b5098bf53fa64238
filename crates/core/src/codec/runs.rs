//! The index form for whole rows: the length of each run of consecutive indexes, and the distance to the next run.
//!
//! Rows of one table have the same width, so lengths and distances have a common divisor, the granule. Dividing by it
//! leaves numbers of rows, a few bits each. Each block of runs has a granule of its own, so that a border between
//! tables affects one block only.

use super::DecodeError;
use super::numbers::{self, BLOCK, Block};
use super::reader::{Reader, varint_len, write_varint};

/// A block of runs: their lengths, and the distance from each to the next.
struct Runs {
    lengths: Block,
    distances: Block,
    /// The number of runs. The last run of all has no distance.
    count: usize,
    distance_count: usize,
}

/// The number of runs of consecutive indexes.
#[inline(always)]
pub(super) fn count(indexes: &[u32]) -> usize {
    let breaks = indexes.iter().zip(indexes.get(1..).unwrap_or(&[]));
    let breaks = breaks.map(|(from, to)| u32::from(to - from != 1)).sum::<u32>() as usize;
    breaks + usize::from(!indexes.is_empty())
}

pub(super) fn len(indexes: &[u32], runs: usize) -> usize {
    let Some(first) = indexes.first() else { return 0 };
    let mut bytes = varint_len(*first) + varint_len(runs as u32);
    for_each_block(indexes, |block| {
        let granule = block.granule();
        // A division takes most of the time, and runs without a common divisor need none.
        let width = |numbers: &[u32]| match granule {
            1 => numbers::width(numbers.iter().fold(0, |or, number| or | (number - 1))),
            _ => numbers::width(numbers.iter().fold(0, |or, number| or | (number / granule - 1))),
        };
        bytes += varint_len(granule)
            + numbers::len(width(block.lengths()), block.count)
            + numbers::len(width(block.distances()), block.distance_count);
    });
    bytes
}

pub(super) fn write(indexes: &[u32], out: &mut Vec<u8>) {
    let Some(first) = indexes.first() else { return };
    write_varint(*first, out);
    write_varint(count(indexes) as u32, out);
    for_each_block(indexes, |block| {
        let granule = block.granule();
        write_varint(granule, out);
        for numbers in [block.lengths(), block.distances()] {
            let mut quotients = [0; BLOCK];
            for (quotient, number) in quotients.iter_mut().zip(numbers) {
                *quotient = number / granule - 1;
            }
            numbers::write(&quotients[..numbers.len()], out);
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
    let mut at = u64::from(reader.varint()?);
    let mut runs = reader.varint()? as usize;

    if runs > count {
        return Err(DecodeError::CountMismatch { expected: count, found: runs });
    }
    let (mut lengths, mut distances) = ([0; BLOCK], [0; BLOCK]);

    while runs > 0 {
        let block = runs.min(BLOCK);
        runs -= block;
        let granule = u64::from(reader.varint()?);
        if granule == 0 {
            return Err(DecodeError::NotAscending);
        }
        let lengths = numbers::read(reader, block, &mut lengths)?;
        let distances = numbers::read(reader, block - usize::from(runs == 0), &mut distances)?;
        let distances = distances.iter().copied().map(Some).chain([None]);
        for (length, distance) in lengths.iter().zip(distances) {
            let end = at.saturating_add((u64::from(*length) + 1) * granule);
            if end > parameters as u64 {
                return Err(DecodeError::IndexOutOfRange { index: end - 1, parameters });
            }
            let found = out.len() + (end - at) as usize;
            if found > count {
                return Err(DecodeError::CountMismatch { expected: count, found });
            }
            out.extend(at as u32..end as u32);
            let skipped = distance.map_or(0, |distance| (u64::from(distance) + 1) * granule);
            at = end.saturating_add(skipped);
        }
    }

    if out.len() == count {
        Ok(())
    } else {
        Err(DecodeError::CountMismatch { expected: count, found: out.len() })
    }
}

impl Runs {
    fn lengths(&self) -> &[u32] {
        &self.lengths[..self.count]
    }

    fn distances(&self) -> &[u32] {
        &self.distances[..self.distance_count]
    }

    /// The greatest common divisor of all lengths and distances.
    fn granule(&self) -> u32 {
        let numbers = self.lengths().iter().chain(self.distances());
        let mut granule = 0;
        for number in numbers {
            granule = greatest_common_divisor(granule, *number);
            if granule == 1 {
                break;
            }
        }
        granule
    }
}

fn for_each_block(indexes: &[u32], mut visit: impl FnMut(&Runs)) {
    let mut block =
        Runs { lengths: [0; BLOCK], distances: [0; BLOCK], count: 0, distance_count: 0 };
    let mut start = 0;
    for (at, pair) in indexes.windows(2).enumerate() {
        // Stored at each index and kept only at the end of a run: a branch would be mispredicted.
        let distance = pair[1] - pair[0] - 1;
        block.lengths[block.count] = (at + 1 - start) as u32;
        block.distances[block.count] = distance;
        let ends = distance != 0;
        start = if ends { at + 1 } else { start };
        block.count += usize::from(ends);
        if block.count == BLOCK {
            block.distance_count = BLOCK;
            visit(&block);
            block.count = 0;
        }
    }

    block.lengths[block.count] = (indexes.len() - start) as u32;
    block.distance_count = block.count;
    block.count += 1;
    visit(&block);
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
