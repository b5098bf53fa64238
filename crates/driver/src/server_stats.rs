//! The counters that a server reports for the summary of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use gaia_core::recovery::Ledger;
use gaia_core::server::{BrakeStats, GuardStats, LinkStats, OutlierStats, Server};
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, ServerId};
use gaia_telemetry::{BrokenLink, ConservationRecord};

/// The counters of one server at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerStats {
    pub(crate) server: ServerId,
    pub(crate) links: BTreeMap<DcId, LinkStats>,
    pub(crate) brakes: BrakeStats,
    /// By worker of the data center. Empty if updates have no limits.
    pub(crate) outliers: Vec<OutlierStats>,
    /// `None` if the server has no guard.
    pub(crate) guard: Option<GuardStats>,
    /// The final tightness of the server, in steps.
    pub(crate) tightness: u8,
    /// The ledger of each mirror. Empty if servers keep no ledgers.
    pub(crate) ledgers: BTreeMap<DcId, Ledger>,
}

impl ServerStats {
    /// The counters of a server in a run with this number of data centers.
    pub(crate) fn of(server: &Server, data_centers: usize) -> Self {
        let id = server.id();
        let mirrors = (0..data_centers as u16).map(DcId).filter(|dc| *dc != id.dc);
        Self {
            server: id,
            links: mirrors.map(|to| (to, server.link_stats(to))).collect(),
            brakes: server.brake_stats(),
            outliers: server.outlier_stats().to_vec(),
            guard: server.guard_stats(),
            tightness: server.tightness().steps(),
            ledgers: BTreeMap::new(),
        }
    }

    /// Whether the run has the data centers and workers that these counters are of.
    pub(crate) fn fits(&self, topology: &Topology) -> bool {
        let own = self.server.dc;
        let mut mirrors = self.links.keys().chain(self.ledgers.keys());
        mirrors.all(|dc| *dc != own && topology.has(*dc))
            && self.outliers.len() <= topology.dc(own).workers
    }

    /// The counters of every server of a run.
    pub(crate) fn all(servers: &[Server], data_centers: usize) -> Vec<Self> {
        servers.iter().map(|server| Self::of(server, data_centers)).collect()
    }
}

/// Compares both ends of each link of a drained run. `None` if servers keep no ledgers. `name` returns the display
/// name of a data center.
pub(crate) fn conserved(
    all_server_stats: &[ServerStats],
    name: impl Fn(DcId) -> String,
) -> Option<ConservationRecord> {
    let mut record = ConservationRecord::default();
    for ServerStats { server, ledgers, .. } in all_server_stats {
        for (to, ledger) in ledgers {
            let mirror = ServerId { dc: *to, shard: server.shard };
            // A data center that has left has no other end to compare.
            let Some(mirror) =
                all_server_stats.iter().find(|server_stats| server_stats.server == mirror)
            else {
                continue;
            };
            let applied = mirror.ledgers.get(&server.dc)?.applied;
            record.links += 1;
            record.frames = record.frames.saturating_add(applied.frames);
            if ledger.cut != applied {
                record.broken.push(BrokenLink {
                    from: name(server.dc),
                    to: name(*to),
                    shard: server.shard.0,
                    cut_frames: ledger.cut.frames,
                    applied_frames: applied.frames,
                });
            }
        }
    }

    (record.links > 0).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_core::recovery::Account;
    use gaia_core::types::ShardId;

    /// The statistics of two mirrors. One has sent the frames `cut`, the other has applied the frames `applied`.
    fn all_server_stats(cut: &[&[u8]], applied: &[&[u8]]) -> Vec<ServerStats> {
        let account = |frames: &[&[u8]]| {
            let mut account = Account::default();
            frames.iter().for_each(|frame| account.enter(frame));
            account
        };
        let server_stats = |own, peer, cut, applied| ServerStats {
            server: ServerId { dc: DcId(own), shard: ShardId(3) },
            links: BTreeMap::new(),
            brakes: BrakeStats::default(),
            outliers: Vec::new(),
            guard: None,
            tightness: 0,
            ledgers: BTreeMap::from([(
                DcId(peer),
                Ledger { cut: account(cut), applied: account(applied) },
            )]),
        };

        let back: &[&[u8]] = &[b"back"];
        vec![server_stats(0, 1, cut, back), server_stats(1, 0, back, applied)]
    }

    fn check(cut: &[&[u8]], applied: &[&[u8]], expect: Option<&str>) {
        let name = |dc: DcId| ["north", "south"][dc.index()].to_owned();
        let record = conserved(&all_server_stats(cut, applied), name).unwrap();
        assert_eq!((record.links, record.frames), (2, 1 + applied.len() as u64));
        let broken: Vec<String> = record.broken.iter().map(ToString::to_string).collect();
        assert_eq!(broken.first().map(String::as_str), expect, "{applied:?}");
        assert!(broken.len() < 2);
    }

    #[test]
    fn a_link_whose_ends_do_not_agree_is_named() {
        let cut: &[&[u8]] = &[b"one", b"two", b"three"];
        check(cut, cut, None);
        let lost = "north → south, shard 3: 3 frames were sent and 2 applied";
        check(cut, &[b"one", b"three"], Some(lost));
        let doubled = "north → south, shard 3: 3 frames were sent and 4 applied";
        check(cut, &[b"one", b"two", b"two", b"three"], Some(doubled));
        let other =
            "north → south, shard 3: 3 frames were sent and as many applied, but not the same ones";
        check(cut, &[b"one", b"2wo", b"three"], Some(other));
    }

    #[test]
    fn servers_that_keep_no_ledgers_say_nothing() {
        let mut silent = all_server_stats(&[], &[]);
        silent.iter_mut().for_each(|server_stats| server_stats.ledgers.clear());
        assert_eq!(conserved(&silent, |dc| dc.to_string()), None);
    }

    #[test]
    fn frames_that_are_too_many_to_be_added_up_are_as_many_as_can_be() {
        let mut claims = all_server_stats(&[], &[b"one"]);
        let ledger = claims[0].ledgers.get_mut(&DcId(1)).unwrap();
        ledger.applied.frames = u64::MAX;
        let record = conserved(&claims, |dc| dc.to_string()).unwrap();
        assert_eq!((record.links, record.frames), (2, u64::MAX));
    }
}
