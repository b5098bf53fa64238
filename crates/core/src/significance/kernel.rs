//! One pass over a shard, block by block.
//!
//! A block's residuals and ratios stay in the first-level cache. Only `values`, `local` and `shared` are read from
//! memory, 12 bytes a parameter.

use std::ops::Range;

use super::order::{BUCKET_SHIFT, BUCKETS, Cut, Found, bucket};
use super::simd::{Above, Level, Work};
use super::{Parameters, Significance, TableCriteria};

/// The input of a pass, and the memory for a block.
pub(super) struct Blocks<'a, F> {
    pub(super) parameters: &'a Parameters<'a>,
    pub(super) criteria: &'a [TableCriteria<F>],
    pub(super) memory: &'a mut Memory,
}

/// Memory for the longest block.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    residuals: Vec<f32>,
    ratios: Vec<f32>,
    above: Above,
}

/// One pass from `start` to the end of the shard, then from its beginning to `start`.
pub(super) struct Scan<'a, 'b, F, S> {
    pub(super) blocks: &'a mut Blocks<'b, F>,
    pub(super) level: Level,
    /// Only ratios in this bucket or a higher one are passed to the sink.
    pub(super) cut: u16,
    pub(super) start: usize,
    /// Only the first of this many blocks is visited.
    pub(super) stride: usize,
    pub(super) sink: &'a mut S,
}

/// A receiver of the ratios that are not cut.
pub(super) trait Sink {
    /// Receives parameters in ascending order, and the bits of their ratios.
    fn take(&mut self, indexes: &[u32], bits: &[i32]);
    /// Marks the wrap-around: all parameters that follow are below all before.
    fn wrap(&mut self);
}

/// Counts the ratios in each bucket.
pub(super) struct Count<'a> {
    /// Four interleaved histograms, so that consecutive increments do not depend on each other.
    histogram: &'a mut Vec<u32>,
}

/// Keeps the parameters that a cut admits.
pub(super) struct Collect<'a> {
    pub(super) cut: Cut,
    /// Once more than this number are kept, no more are.
    pub(super) limit: usize,
    pub(super) found: &'a mut Found,
}

impl<F: Significance, S: Sink> Work for Scan<'_, '_, F, S> {
    #[inline(always)]
    fn run(mut self) {
        for table in self.blocks.criteria {
            self.visit(table, table.range.start.max(self.start)..table.range.end);
        }
        self.sink.wrap();
        for table in self.blocks.criteria {
            self.visit(table, table.range.start..table.range.end.min(self.start));
        }
    }
}

impl<F: Significance, S: Sink> Scan<'_, '_, F, S> {
    #[inline(always)]
    fn visit(&mut self, table: &TableCriteria<F>, range: Range<usize>) {
        let rows = if table.function.by_row() { table.width } else { 1 };
        let step = (BLOCK / rows).max(1) * rows;
        self.blocks.memory.make_room(step);
        let least = i32::from(self.cut) << BUCKET_SHIFT;
        for first in range.clone().step_by(step * self.stride) {
            let end = range.end.min(first + step);
            self.blocks.measure(table, first..end);
            let Memory { ratios, above, .. } = &mut *self.blocks.memory;
            above.keep(self.level, &ratios[..end - first], least, first as u32);
            self.sink.take(above.indexes(), above.bits());
        }
    }
}

impl<F: Significance> Blocks<'_, F> {
    /// Writes the ratios of significance to threshold of a block to the memory. The ratio of a residual of 0 is 0, and
    /// that of a residual that is not a number is not a number.
    #[inline(always)]
    fn measure(&mut self, table: &TableCriteria<F>, block: Range<usize>) {
        let residuals = &mut self.memory.residuals[..block.len()];
        let ratios = &mut self.memory.ratios[..block.len()];
        let local = &self.parameters.local[block.clone()];
        let shared = &self.parameters.shared[block.clone()];
        for ((residual, local), shared) in residuals.iter_mut().zip(local).zip(shared) {
            *residual = local - shared;
        }
        let values = &self.parameters.values[block];
        table.function.measure(residuals, values, table.width, table.floor, ratios);
        for (ratio, residual) in ratios.iter_mut().zip(residuals) {
            let measured = (*ratio / table.threshold).abs();
            let judged = if *residual == 0.0 { 0.0 } else { measured };
            // One bit pattern for all NaNs: the one that arithmetic produces depends on the instruction set.
            let lost = judged.is_nan() | residual.is_nan();
            *ratio = if lost { f32::NAN } else { judged };
        }
    }
}

impl Memory {
    fn make_room(&mut self, block: usize) {
        if self.residuals.len() < block {
            self.residuals.resize(block, 0.0);
            self.ratios.resize(block, 0.0);
            self.above.make_room(block);
        }
    }
}

impl<'a> Count<'a> {
    pub(super) fn new(histogram: &'a mut Vec<u32>) -> Self {
        histogram.clear();
        histogram.resize(BUCKETS * LANES, 0);
        Self { histogram }
    }

    /// Sums the four histograms into one.
    pub(super) fn finish(self) {
        for bucket in 0..BUCKETS {
            let lanes = &self.histogram[bucket * LANES..(bucket + 1) * LANES];
            self.histogram[bucket] = lanes.iter().sum();
        }
        self.histogram.truncate(BUCKETS);
    }
}

impl Sink for Count<'_> {
    #[inline(always)]
    fn take(&mut self, _: &[u32], bits: &[i32]) {
        for (at, bits) in bits.iter().enumerate() {
            self.histogram[usize::from(bucket(*bits)) * LANES + at % LANES] += 1;
        }
    }

    fn wrap(&mut self) {}
}

impl Sink for Collect<'_> {
    #[inline(always)]
    fn take(&mut self, indexes: &[u32], bits: &[i32]) {
        if self.found.len() > self.limit {
            return;
        }

        if self.cut.ties == usize::MAX {
            self.found.extend(indexes, bits);
            return;
        }

        for (index, bits) in indexes.iter().zip(bits) {
            let bucket = bucket(*bits);
            if self.cut.admits(bucket) {
                self.found.push(*index, bucket);
            }
        }
    }

    fn wrap(&mut self) {
        self.found.wrap();
    }
}

/// The number of parameters in a block, unless a row is longer.
const BLOCK: usize = 1024;
const LANES: usize = 4;
