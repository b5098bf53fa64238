//! One pass over a shard, block by block.
//!
//! A block's residuals and ratios stay in the first-level cache. Only `values`, `local` and `shared` are read from
//! memory, 12 bytes a parameter. Without wide vectors, residuals of which a screen tells without a division that they are cut
//! are not measured.

use std::ops::Range;

use super::order::{BUCKET_SHIFT, BUCKETS, Cut, bucket};
use super::{Parameters, Selection, Significance, TableCriteria};
use crate::simd::{Above, Block, Level, Screen, Work, prefetch_behind};

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
    /// What a link has carried, where it does not lie in one piece.
    shared: Vec<f32>,
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
    /// Receives parameters in ascending order, and their ratios.
    fn take(&mut self, indexes: &[u32], ratios: &[f32]);
    /// The lowest bucket that it still needs, at least `cut`. `None` if it needs nothing more.
    fn needs(&self, cut: u16) -> Option<u16>;
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
    pub(super) found: &'a mut Selection,
}

impl<F: Significance, S: Sink> Work for Scan<'_, '_, F, S> {
    type Output = ();

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
        for first in range.clone().step_by(step * self.stride) {
            let Some(cut) = self.sink.needs(self.cut) else { return };
            let block = first..range.end.min(first + step);
            let screen = table
                .function
                .built_in()
                .and_then(|function| Screen::of(function, table.floor, table.threshold, cut));
            let least = i32::from(cut) << BUCKET_SHIFT;
            let (indexes, ratios) = match screen {
                Some(screen) => self.blocks.screened(self.level, block, screen),
                None => self.blocks.measured(self.level, table, block, least),
            };
            if !indexes.is_empty() {
                self.sink.take(indexes, ratios);
            }
        }
    }
}

impl<F: Significance> Blocks<'_, F> {
    /// The parameters of a block whose ratios have bits above `least`, and these ratios. All residuals are measured.
    #[inline(always)]
    fn measured(
        &mut self,
        level: Level,
        table: &TableCriteria<F>,
        block: Range<usize>,
        least: i32,
    ) -> (&[u32], &[f32]) {
        let Memory { residuals, ratios, above, shared, .. } = &mut *self.memory;
        let residuals = &mut residuals[..block.len()];
        let ratios = &mut ratios[..block.len()];
        let values = &self.parameters.values[block.clone()];
        let local = &self.parameters.local[block.clone()];
        let shared = self.parameters.shared.range(block.clone(), shared);
        for column in [values, local, shared] {
            prefetch_behind(column);
        }
        for ((residual, local), shared) in residuals.iter_mut().zip(local).zip(shared) {
            *residual = local - shared;
        }
        measure(table, residuals, values, ratios);
        above.keep(level, ratios, least, block.start as u32);
        (above.indexes(), above.ratios())
    }

    /// As [`Self::measured`], with the exact test and the divisions in one loop with a screen.
    #[inline(always)]
    fn screened(&mut self, level: Level, block: Range<usize>, screen: Screen) -> (&[u32], &[f32]) {
        let Memory { above, shared, .. } = &mut *self.memory;
        let columns = Block {
            values: &self.parameters.values[block.clone()],
            local: &self.parameters.local[block.clone()],
            shared: self.parameters.shared.range(block.clone(), shared),
            first: block.start as u32,
        };
        above.keep_screened(level, columns, screen);
        (above.indexes(), above.ratios())
    }
}

/// Writes the ratios of significance to threshold. The ratio of a residual of 0 is 0, and that of a residual that is not
/// a number is not a number.
#[inline(always)]
fn measure<F: Significance>(
    table: &TableCriteria<F>,
    residuals: &[f32],
    values: &[f32],
    ratios: &mut [f32],
) {
    table.function.measure(residuals, values, table.width, table.floor, ratios);
    for (ratio, residual) in ratios.iter_mut().zip(residuals) {
        let measured = (*ratio / table.threshold).abs();
        let judged = if *residual == 0.0 { 0.0 } else { measured };
        // One bit pattern for all NaNs: the one that arithmetic produces depends on the instruction set.
        let lost = judged.is_nan() | residual.is_nan();
        *ratio = if lost { f32::NAN } else { judged };
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

    #[inline(always)]
    fn add(&mut self, ratios: &[f32]) {
        for (at, ratio) in ratios.iter().enumerate() {
            self.histogram[usize::from(bucket(*ratio)) * LANES + at % LANES] += 1;
        }
    }
}

impl Sink for Count<'_> {
    #[inline(always)]
    fn take(&mut self, _: &[u32], ratios: &[f32]) {
        let (chunks, rest) = ratios.as_chunks::<EQUAL>();
        for chunk in chunks {
            let first = bucket(chunk[0]);
            // Rows and counts have equal ratios, and increments of one counter wait for each other.
            if chunk.iter().fold(0, |differ, ratio| differ | (bucket(*ratio) ^ first)) == 0 {
                self.histogram[usize::from(first) * LANES] += EQUAL as u32;
            } else {
                self.add(chunk);
            }
        }
        self.add(rest);
    }

    #[inline(always)]
    fn needs(&self, cut: u16) -> Option<u16> {
        Some(cut)
    }

    fn wrap(&mut self) {}
}

impl Sink for Collect<'_> {
    #[inline(always)]
    fn take(&mut self, indexes: &[u32], ratios: &[f32]) {
        if self.cut.ties == usize::MAX {
            self.found.extend(indexes, ratios);
            return;
        }

        for (index, ratio) in indexes.iter().zip(ratios) {
            let bucket = bucket(*ratio);
            if self.cut.admits(bucket) {
                self.found.push(*index, bucket);
            }
        }
    }

    #[inline(always)]
    fn needs(&self, cut: u16) -> Option<u16> {
        // Without ties left, what is in the cut's own bucket need not be looked at.
        let full = self.cut.ties == 0 && self.cut.bucket == cut;
        (self.found.len() <= self.limit).then_some(cut + u16::from(full))
    }

    fn wrap(&mut self) {
        self.found.wrap();
    }
}

/// The number of parameters in a block, unless a row is longer.
pub(super) const BLOCK: usize = 512;
const LANES: usize = 4;
/// The number of ratios that are counted at once if their buckets are the same.
const EQUAL: usize = 16;
