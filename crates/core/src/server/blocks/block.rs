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

    /// Blocks whose homes send a result back once they have received all parts of it: in proportion to the slowest link
    /// of each data center, in either direction.
    ///
    /// With slowest links `m` each direction takes at most `1 / Σm` of the time of the whole shard: the link from `a` to
    /// `b` carries `m_b / Σm` of it as a part, then `m_a / Σm` as a result, and its bandwidth is at least the larger of
    /// the two. With equal blocks the slowest link takes twice `1 / (D · min m)`, which is never less.
    pub fn by_slowest_link(topology: &Topology) -> Self {
        Self::of_bandwidths(&slowest_links(topology))
    }

    /// Blocks whose homes send the result back while they receive parts of it. Then no link takes longer than both blocks
    /// need that cross it, one as parts and one as results.
    ///
    /// With blocks `s` in the time of one exchange, `s_a + s_b` is at most the bandwidth between `a` and `b`. Half of each
    /// slowest link, as in [`Self::by_slowest_link`], fits. From there on each block grows by half of what is free on all
    /// of its links, in turn, so that the sum of all blocks only grows. It is within 3 % of the best for the WANs that
    /// ship with Gaia, except one with 6 %.
    pub fn filling_links(topology: &Topology) -> Self {
        let mut shares: Vec<f64> = slowest_links(topology).iter().map(|bits| bits / 2.0).collect();
        for _ in 0..FILLING_ROUNDS {
            for dc in topology.dc_ids() {
                let free = topology.links.iter().filter_map(|link| {
                    let other = match (link.from == dc, link.to == dc) {
                        (true, _) => link.to,
                        (_, true) => link.from,
                        _ => return None,
                    };
                    Some(link.bandwidth.bits_per_second() - shares[other.index()])
                });
                let own = shares[dc.index()];
                let most = free.reduce(f64::min).unwrap_or(own);
                shares[dc.index()] += (most - own).max(0.0) / 2.0;
            }
        }
        Self::of_bandwidths(&shares)
    }

    fn of_bandwidths(bits_per_second: &[f64]) -> Self {
        Self::weighted(bits_per_second.iter().map(|bits| (bits.round() as u64).max(1)))
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

/// The bandwidth of the slowest link of each data center, in either direction, in bits per second.
fn slowest_links(topology: &Topology) -> Vec<f64> {
    let mut slowest = vec![f64::INFINITY; topology.data_centers.len()];
    for link in &topology.links {
        for dc in [link.from, link.to] {
            let own = &mut slowest[dc.index()];
            *own = own.min(link.bandwidth.bits_per_second());
        }
    }
    slowest.into_iter().map(|bits| if bits.is_finite() { bits } else { 1.0 }).collect()
}

/// How often each block grows. What is free halves each time.
const FILLING_ROUNDS: usize = 64;

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
