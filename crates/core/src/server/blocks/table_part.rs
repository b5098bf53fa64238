//! The tables that a block has parts of.

use std::ops::Range;

use crate::types::ShardLayout;

/// The part of a table that lies in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) struct TablePart {
    /// Its parameters. The first parameter of the block is 0.
    pub(in crate::server) range: Range<usize>,
    /// Whether they are statistics, which copies take the mean of, and not weights.
    pub(in crate::server) is_statistics: bool,
    /// Whether workers add its initial values.
    pub(in crate::server) is_initialized_by_workers: bool,
}

impl TablePart {
    /// The parts of tables in a block of a shard, ascending. Together they are the block.
    pub(in crate::server) fn all_in(layout: &ShardLayout, block: &Range<usize>) -> Vec<Self> {
        let model = layout.model();
        let parts = model.table_ids().map(|table| {
            let own = layout.table_range(table);
            let (start, end) = (own.start.max(block.start), own.end.min(block.end));
            let range = start.saturating_sub(block.start)..end.saturating_sub(block.start);
            Self {
                range,
                is_statistics: model.is_statistics(table),
                is_initialized_by_workers: model.is_initialized_by_workers(table),
            }
        });
        parts.filter(|part| !part.range.is_empty()).collect()
    }

    /// Whether a round, the first of which has the `number` 1, takes all changes of the table as they are: those of statistics,
    /// and in the first round what workers add as initial values. Neither are gradients, so that the largest alone and momentum
    /// are for others.
    pub(in crate::server) fn is_taken_whole(&self, number: u64) -> bool {
        self.is_statistics || self.is_initialized_by_workers && number == 1
    }
}
