//! The significance filter.
//!
//! This room decides which residuals are significant, and in what order they should cross the WAN: the paper's
//! significance filter, and its soft threshold, which here depends on the room of a link. It does not know links,
//! frames and clocks, and keeps no state between two calls. For a shard and a link the caller keeps the sum of all
//! updates and the sum of those that were sent. The residual is their difference.
//!
//! A residual is *hard* if its significance is above the threshold. It must be sent. A *soft* residual may be sent if
//! there is room, the largest first. Residuals are ordered by buckets, eight for each doubling of the ratio of
//! significance to threshold. A finer order would cost a sort and change nothing on the wire. They are found in the order
//! of the shard, which is that of a frame, and put in this one only where not all of them leave in one clock.

mod function;
mod kernel;
mod largest;
mod norm;
mod order;
mod screen;
mod selection;

pub use function::{Measure, Significance};
pub use largest::largest;
pub use norm::rms;
pub use selection::Selection;

use std::ops::Range;

use crate::simd::{self, Level};
use crate::sync::Function;
use crate::types::Numbers;
use kernel::{Blocks, Collect, Count, Memory, Scan};
use order::{Cut, DUST_BUCKET, HARD_BUCKET, lowest_bucket};
use selection::Ordering;

/// The ratio of significance to threshold below which a residual is not sent even if there is room.
///
/// Sending a residual as bf16 leaves a rounding error of up to 2⁻⁸ of it. Without this bound the rounding errors of
/// residuals that have just been sent would follow them over an idle link, at the full price of an index each.
pub const DUST: f32 = 1.0 / 128.0;

/// The flat vectors of one shard for one link, all of the same length.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    /// The values of the parameters.
    pub values: &'a [f32],
    /// The sum of all local updates so far.
    pub local: &'a [f32],
    /// The sum of all updates that were sent on the link so far. The residual is `local - shared`.
    pub shared: Numbers<'a>,
}

/// How the significance of one table's residuals is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct TableCriteria<F = Function> {
    /// The table's range of the shard, whole rows.
    pub range: Range<usize>,
    /// The number of parameters in a row, at least 1.
    pub width: usize,
    /// The significance function.
    pub function: F,
    /// The smallest magnitude that a residual is measured against: the table's root mean square, or 0.
    pub floor: f32,
    /// The hard threshold.
    pub threshold: f32,
}

/// Which residuals to select.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Take {
    /// All residuals above the hard threshold, and no others.
    Hard,
    /// All residuals above the hard threshold, then the most significant ones below it, up to this number in all.
    Most(usize),
    /// As `Most`, but only residuals above a soft threshold.
    Above {
        /// The number of residuals in all, unless more are above the hard threshold.
        most: usize,
        /// The soft threshold divided by the hard threshold, rounded down to a bucket.
        least: f32,
    },
}

/// Memory that selections reuse. It carries no state from one selection to the next.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    memory: Memory,
    ordering: Ordering,
}

/// Selects the parameters of a shard whose residuals should be sent on a link. [`Selection::order`] orders them.
///
/// The tables' ranges ascend and do not overlap. A residual of 0 is never selected. A residual that is not a number is
/// always selected, and is in their first group. `turn` decides where in the shard the selection begins, which matters where only
/// some of equally significant residuals fit. A caller that increments it with each call favours no part of the shard.
///
/// # Panics
/// If the vectors differ in length, or the tables' ranges overlap, are not in order, have no whole rows or exceed the
/// shard.
pub fn select<F: Significance>(
    parameters: &Parameters<'_>,
    criteria: &[TableCriteria<F>],
    take: Take,
    turn: u64,
    scratch: &mut Scratch,
    out: &mut Selection,
) {
    select_at(Level::best(), parameters, criteria, take, turn, scratch, out);
}

fn select_at<F: Significance>(
    level: Level,
    parameters: &Parameters<'_>,
    criteria: &[TableCriteria<F>],
    take: Take,
    turn: u64,
    scratch: &mut Scratch,
    out: &mut Selection,
) {
    check(parameters, criteria);
    let Scratch { memory, ordering: Ordering { histogram, .. } } = scratch;
    let mut passes = Passes { level, blocks: Blocks { parameters, criteria, memory } };
    let (most, least) = match take {
        Take::Hard => (usize::MAX, HARD_BUCKET),
        Take::Most(most) => (most, DUST_BUCKET),
        Take::Above { most, least } => (most, lowest_bucket(least)),
    };

    let start = start_of_turn(criteria, turn);
    if most >= parameters.values.len() {
        passes.find(Cut::whole(least), usize::MAX, start, out);
    } else if !passes.find_by_sample(most, least, start, histogram, out) {
        passes.count(1, least, histogram);
        passes.find(Cut::at(histogram, most, least), usize::MAX, start, out);
    }
    out.finish(least);
}

/// The passes over a shard.
struct Passes<'a, F> {
    level: Level,
    blocks: Blocks<'a, F>,
}

impl<F: Significance> Passes<'_, F> {
    /// Finds the residuals that the cut admits, until there are more than `limit`.
    fn find(&mut self, cut: Cut, limit: usize, start: usize, found: &mut Selection) {
        found.clear();
        let Self { level, blocks } = self;
        let sink = &mut Collect { cut, limit, found };
        let (level, bucket) = (*level, cut.bucket);
        simd::run(level, Scan { blocks, level, cut: bucket, start, stride: 1, sink });
    }

    /// Counts the residuals in each bucket from `least` on, in one of `stride` blocks.
    fn count(&mut self, stride: usize, least: u16, histogram: &mut Vec<u32>) {
        let mut count = Count::new(histogram);
        let Self { level, blocks } = self;
        let (level, sink) = (*level, &mut count);
        simd::run(level, Scan { blocks, level, cut: least, start: 0, stride, sink });
        count.finish();
    }

    /// Finds in one pass what counting first would find in two. Returns `false` if it did not.
    ///
    /// A sample estimates a cut that admits enough residuals, but not far too many. The excess is then cut exactly.
    fn find_by_sample(
        &mut self,
        most: usize,
        least: u16,
        start: usize,
        histogram: &mut Vec<u32>,
        found: &mut Selection,
    ) -> bool {
        let sampled = most / SAMPLE_STRIDE;
        if sampled < SAMPLED_LEAST {
            return false;
        }
        self.count(SAMPLE_STRIDE, least, histogram);
        let guess = Cut::at(histogram, sampled + sampled / 4, least).bucket;
        let expected: u32 = histogram[usize::from(guess)..].iter().sum();

        if expected as usize > EXCESS * sampled {
            return false;
        }
        let limit = 2 * EXCESS * most;
        self.find(Cut::whole(guess), limit, start, found);

        if found.len() > limit || (found.len() < most && guess > least) {
            return false;
        }
        found.count(histogram);
        let cut = Cut::at(histogram, most, least);

        if cut.bucket >= guess {
            found.trim(cut);
        }
        true
    }
}

fn check<F>(parameters: &Parameters<'_>, criteria: &[TableCriteria<F>]) {
    let count = parameters.values.len();
    assert_eq!(parameters.local.len(), count, "local updates cover the shard");
    assert_eq!(parameters.shared.len(), count, "shared updates cover the shard");
    assert!(count < u32::MAX as usize, "an index has 32 bits");
    let mut end = 0;
    for table in criteria {
        assert!(table.range.start >= end && table.range.end >= table.range.start, "tables ascend");
        assert!(table.width > 0, "a row has parameters");
        assert!(table.range.len().is_multiple_of(table.width), "a table has whole rows");
        end = table.range.end;
    }
    assert!(end <= count, "tables lie in the shard");
}

/// The parameter at which a turn begins: the start of a row, by a golden-ratio sequence.
fn start_of_turn<F>(criteria: &[TableCriteria<F>], turn: u64) -> usize {
    let covered: usize = criteria.iter().map(|table| table.range.len()).sum();
    let share = turn.wrapping_mul(GOLDEN);
    let mut left = ((u128::from(share) * covered as u128) >> 64) as usize;
    for table in criteria {
        if left < table.range.len() {
            return table.range.start + left / table.width * table.width;
        }
        left -= table.range.len();
    }
    0
}

/// One of this many blocks is sampled.
const SAMPLE_STRIDE: usize = 16;
/// The smallest sample that gives a good estimate.
const SAMPLED_LEAST: usize = 256;
/// If a sample predicts more than this many times the requested number, counting is cheaper.
const EXCESS: usize = 4;
/// 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests;
