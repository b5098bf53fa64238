//! How long data centers take to exchange changes through the homes of blocks, by the topology alone.
//!
//! Every data center sends its part of a block to the home of that block, which sends the total back. So a link carries
//! the parts of one home's block and the totals of the other's, and blocks are in proportion to bandwidth
//! ([`gaia_core::server::Blocks`]). In a round totals leave once all parts are there. BSP sends them back piece by piece
//! meanwhile, so that both share a link in one time.

use gaia_core::server::Blocks;
use gaia_core::sync::ValueFormat;
use gaia_core::topology::Topology;
use gaia_core::types::DcId;

/// What the time of an exchange follows from.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The links as rounds use them.
    rounds: Vec<Way>,
    /// The links as BSP uses them.
    streamed: Vec<Way>,
}

/// A link between two data centers in an exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    /// Seconds for each byte that a data center sends of the whole model: the share of the block that crosses the link as
    /// parts, divided by its bandwidth.
    part_s: f64,
    /// The same of the block that comes back as totals.
    total_s: f64,
    rtt_s: f64,
}

/// What is exchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Changes {
    pub(crate) parameters: usize,
    /// The share of the parameters that each data center changes, 0 to 1.
    pub(crate) part: f64,
    /// The share of the parameters that change in all data centers together, 0 to 1.
    pub(crate) total: f64,
    pub(crate) format: ValueFormat,
}

impl Exchange {
    /// That of a topology, with blocks by bandwidth.
    pub fn of(topology: &Topology) -> Self {
        let ways = |blocks: Blocks| {
            let share = |dc: DcId| blocks.range(SHARES, dc).len() as f64 / SHARES as f64;
            let ways = topology.links.iter().map(|link| {
                let bytes_per_second = link.bandwidth.bytes_per_second();
                Way {
                    part_s: share(link.to) / bytes_per_second,
                    total_s: share(link.from) / bytes_per_second,
                    rtt_s: link.rtt.0.as_secs_f64(),
                }
            });
            ways.collect()
        };
        Self {
            rounds: ways(Blocks::by_slowest_link(topology)),
            streamed: ways(Blocks::filling_links(topology)),
        }
    }

    /// Seconds of a round: parts, then totals.
    pub(crate) fn round_s(&self, changes: &Changes) -> f64 {
        let (part, total) = (changes.bytes(changes.part), changes.bytes(changes.total));
        let there = self.rounds.iter().map(|way| part * way.part_s + way.rtt_s / 2.0);
        let back = self.rounds.iter().map(|way| total * way.total_s + way.rtt_s / 2.0);
        there.fold(0.0, f64::max) + back.fold(0.0, f64::max)
    }

    /// Seconds of an exchange of BSP.
    pub(crate) fn bsp_s(&self, changes: &Changes) -> f64 {
        let (part, total) = (changes.bytes(changes.part), changes.bytes(changes.total));
        let ways = self.streamed.iter();
        let ways = ways.map(|way| part * way.part_s + total * way.total_s + way.rtt_s);
        ways.fold(0.0, f64::max)
    }
}

impl Changes {
    /// The bytes of so large a share of the whole model: sparse with indexes, or dense where that is less.
    fn bytes(&self, share: f64) -> f64 {
        let dense = self.format.bytes_per_value();
        self.parameters as f64 * (share * (dense + INDEX_BYTES)).min(dense)
    }
}

/// Blocks are compared in so many parts.
const SHARES: usize = 1 << 30;
/// The size of the index of a sparse change.
const INDEX_BYTES: f64 = 1.0;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use gaia_config::topology_from_text;

    /// Data centers whose links are alike.
    pub(crate) fn alike(data_centers: usize, bytes_per_second: f64, rtt_s: f64) -> Exchange {
        let share = 1.0 / data_centers as f64 / bytes_per_second;
        let way = Way { part_s: share, total_s: share, rtt_s };
        Exchange { rounds: vec![way], streamed: vec![way] }
    }

    const ALL: Changes =
        Changes { parameters: 1_000_000, part: 1.0, total: 1.0, format: ValueFormat::F32 };

    #[test]
    fn all_of_a_model_crosses_alike_links_twice_in_shares() {
        let exchange = alike(4, 1e6, 0.1);
        assert!((exchange.round_s(&ALL) - 2.1).abs() < 1e-9);
        assert!((exchange.bsp_s(&ALL) - 2.1).abs() < 1e-9);
    }

    #[test]
    fn few_changes_are_few_bytes_in_parts_and_more_in_totals() {
        let exchange = alike(4, 1e6, 0.0);
        let few = Changes { part: 0.1, total: 0.4, ..ALL };
        // 0.1 · 5 bytes as parts, 0.4 · 5 bytes as totals.
        assert!((exchange.round_s(&few) - 0.25 * (0.5 + 2.0)).abs() < 1e-9);
    }

    #[test]
    fn a_slow_link_has_small_blocks_on_both_ends() {
        let text = "name = 't'\ndata_center = [{name = 'a'}, {name = 'b'}, {name = 'c'}]\n\
             link = [{from = 'a', to = 'b', bandwidth = '80 Mbit/s', rtt = '0 s'}, \
             {from = 'a', to = 'c', bandwidth = '80 Mbit/s', rtt = '0 s'}, \
             {from = 'b', to = 'c', bandwidth = '8 Mbit/s', rtt = '0 s'}]";
        let topology = topology_from_text("t.toml", text).unwrap();
        let exchange = Exchange::of(&topology);
        // Shares of 10, 1 and 1 of 12 are parts of 1 MB/s each, where thirds need 1.33 s each way.
        assert!((exchange.round_s(&ALL) - 2.0 * 4.0 / 12.0).abs() < 1e-3);
        assert!(exchange.bsp_s(&ALL) < exchange.round_s(&ALL));
    }
}
