//! The bounds of blocks.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::codec::Changes;
use crate::server::error::PeerError;
use crate::topology::Topology;
use crate::types::DcId;

/// How a shard is divided into blocks, one for each data center, which is its home.
///
/// The size of a block is the home's share, up to one parameter. All data centers of a run have the same shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The sum of the shares of the data centers before each one, and at the end that of all.
    bounds: Arc<[u64]>,
}

impl Blocks {
    /// Blocks of one size.
    pub fn equal(data_centers: usize) -> Self {
        Self::weighted(std::iter::repeat_n(1, data_centers))
    }

    /// Blocks in proportion to the shares of the data centers, in the topology's order.
    ///
    /// # Panics
    /// If the sum of the shares exceeds a `u64`.
    pub fn weighted(shares: impl IntoIterator<Item = u64>) -> Self {
        let mut bounds = vec![0_u64];
        for share in shares {
            let before = bounds[bounds.len() - 1];
            bounds.push(before.checked_add(share).expect("the shares of a run fit"));
        }
        Self { bounds: bounds.into() }
    }

    /// Blocks in proportion to the slowest link of each data center, in either direction.
    ///
    /// Over the link from `a` to `b` go `a`'s part of `b`'s block, and the result of `a`'s block. With slowest links `m`
    /// the link needs `(m_a + m_b) / Σm` of the time of the whole shard, divided by a bandwidth that is at least the
    /// larger of the two. So no link takes longer than `2 / Σm`. With equal blocks the slowest link takes
    /// `2 / (D · min m)`, which is never less.
    pub fn by_bandwidth(topology: &Topology) -> Self {
        Self::weighted(topology.dc_ids().map(|dc| {
            let own = topology.links.iter().filter(|link| link.from == dc || link.to == dc);
            let slowest = own.map(|link| link.bandwidth.bits_per_second()).reduce(f64::min);
            slowest.map_or(1, |bits| (bits.round() as u64).max(1))
        }))
    }

    /// The blocks if only these data centers are homes. Their shares keep their proportions, all others are empty.
    #[must_use]
    pub fn among(&self, homes: &BTreeSet<DcId>) -> Self {
        let shares = self.bounds.windows(2).enumerate();
        Self::weighted(shares.map(|(dc, bounds)| {
            if homes.contains(&DcId(dc as u16)) { bounds[1] - bounds[0] } else { 0 }
        }))
    }

    /// The block of a data center, among so many parameters.
    ///
    /// # Panics
    /// If there is no such data center, or all shares are 0.
    pub fn range(&self, parameters: usize, home: DcId) -> Range<usize> {
        let all = u128::from(self.bounds[self.bounds.len() - 1]);
        let place = |bound: u64| (parameters as u128 * u128::from(bound) / all) as usize;
        place(self.bounds[home.index()])..place(self.bounds[home.index() + 1])
    }
}

/// Checks that a frame changes no parameter outside of a range.
pub(in crate::server) fn check_span(
    from: DcId,
    changes: Changes<'_>,
    range: &Range<usize>,
) -> Result<(), PeerError> {
    let outside = match changes {
        Changes::Dense { values: [], .. } => None,
        Changes::Dense { start, values } => {
            let (first, last) = (start as usize, start as usize + values.len() - 1);
            [first, last].into_iter().find(|index| !range.contains(index))
        }
        Changes::Sparse { indexes, .. } => {
            let mut indexes = indexes.iter().map(|index| *index as usize);
            indexes.find(|index| !range.contains(index))
        }
    };

    let expected = || format!("{range:?}");
    outside.map_or(Ok(()), |index| {
        Err(PeerError::PeerSentForeignParameter { from, index, expected: expected() })
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// With the homes that are absent, whose blocks are empty.
        #[test]
        fn blocks_cover_every_parameter_once_in_proportion_to_their_shares(
            shares in vec((1..100_000_000_000_000_u64, any::<bool>()), 1..20),
            parameters in 0_usize..1_000_000,
        ) {
            let all = (0..shares.len() as u16).map(DcId);
            let mut present: BTreeSet<DcId> =
                all.clone().filter(|dc| shares[dc.index()].1).collect();
            present.insert(DcId(0));
            let sum: f64 = present.iter().map(|dc| shares[dc.index()].0 as f64).sum();

            let blocks = Blocks::weighted(shares.iter().map(|(share, _)| *share)).among(&present);
            let mut end = 0;
            for dc in all {
                let block = blocks.range(parameters, dc);
                prop_assert_eq!(block.start, end);
                end = block.end;

                let share = if present.contains(&dc) { shares[dc.index()].0 as f64 } else { 0.0 };
                let expected = parameters as f64 * share / sum;
                prop_assert!((block.len() as f64 - expected).abs() < 1.001, "{block:?}, {expected}");
            }
            prop_assert_eq!(end, parameters);
        }
    }

    #[test]
    fn equal_shares_of_any_size_are_equal_blocks() {
        for parameters in [0, 1, 10, 1_001] {
            for dc in (0..7).map(DcId) {
                let weighted = Blocks::weighted([15_300_000; 7]).range(parameters, dc);
                assert_eq!(weighted, Blocks::equal(7).range(parameters, dc));
            }
        }
    }
}
