//! The counters that a server reports for the summary of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use gaia_core::recovery::Ledger;
use gaia_core::server::{BrakeStats, GuardStats, LinkStats, OutlierStats, Server};
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, ServerId, WorkerId};
use gaia_telemetry::{BrakeRecord, BrokenLink, ConservationRecord, GuardRecord, OutlierRecord};

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

/// What the servers that use each link have counted, together.
pub(crate) fn stats_by_link(all_server_stats: &[ServerStats]) -> BTreeMap<(DcId, DcId), LinkStats> {
    let mut sums = BTreeMap::<_, LinkStats>::new();
    for ServerStats { server, links, .. } in all_server_stats {
        for (to, stats) in links {
            sums.entry((server.dc, *to)).or_default().add(stats);
        }
    }
    sums
}

/// What all servers have counted of all links, together.
pub(crate) fn stats_of_links(all_server_stats: &[ServerStats]) -> LinkStats {
    let mut sum = LinkStats::default();
    for stats in all_server_stats.iter().flat_map(|server_stats| server_stats.links.values()) {
        sum.add(stats);
    }
    sum
}

/// What all servers have counted of their brakes.
pub(crate) fn brakes(all_server_stats: &[ServerStats]) -> BrakeRecord {
    let mut brakes = BrakeRecord::default();
    for ServerStats { brakes: stats, .. } in all_server_stats {
        brakes.announcements_expired =
            brakes.announcements_expired.saturating_add(stats.announcements_expired);
        brakes.mirrors_lost = brakes.mirrors_lost.saturating_add(stats.mirrors_lost);
    }
    brakes
}

/// The workers of which a server has limited an update, in the order of the topology. `name` returns the display name
/// of a data center.
pub(crate) fn outliers(
    all_server_stats: &[ServerStats],
    name: impl Fn(DcId) -> String,
) -> Vec<OutlierRecord> {
    let mut found: BTreeMap<WorkerId, OutlierStats> = BTreeMap::new();
    for ServerStats { server, outliers, .. } in all_server_stats {
        for (index, stats) in outliers.iter().enumerate().filter(|(_, stats)| stats.updates > 0) {
            let worker = WorkerId { dc: server.dc, index: index as u16 };
            let sum = found.entry(worker).or_default();
            sum.updates = sum.updates.saturating_add(stats.updates);
            sum.norm_max = sum.norm_max.max(stats.norm_max);
        }
    }

    let record = |(worker, OutlierStats { updates, norm_max }): (WorkerId, _)| OutlierRecord {
        worker: format!("{}/worker-{}", name(worker.dc), worker.index),
        updates,
        norm_max,
    };
    found.into_iter().map(record).collect()
}

/// The results of the guards of all servers. A copy is measured as a whole, and all servers of its data center
/// receive the result.
pub(crate) fn guard(all_server_stats: &[ServerStats]) -> Option<GuardRecord> {
    let mut record = GuardRecord::default();
    for server_stats in all_server_stats {
        let stats = server_stats.guard?;
        record.bytes = record.bytes.saturating_add(stats.bytes);
        record.tightness = record.tightness.max(server_stats.tightness);
        record.loss_max = record.loss_max.max(stats.loss_max);
        if server_stats.server.shard.index() == 0 {
            record.probes = record.probes.saturating_add(stats.probes);
            record.alarms = record.alarms.saturating_add(stats.alarms);
        }
    }
    Some(record)
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

    /// The counters of a server that claims the same number for each.
    fn claiming(claim: u64, dc: u16, shard: u16) -> ServerStats {
        let link = LinkStats {
            relayed_bytes: claim,
            updates: claim,
            changes: claim,
            carried: claim,
            ..LinkStats::default()
        };
        ServerStats {
            server: ServerId { dc: DcId(dc), shard: ShardId(shard) },
            links: BTreeMap::from([(DcId(1 - dc), link)]),
            brakes: BrakeStats { announcements_expired: claim, mirrors_lost: claim },
            outliers: vec![OutlierStats { updates: claim, norm_max: 1.0 }],
            guard: Some(GuardStats { bytes: claim, probes: claim, alarms: claim, loss_max: 0.0 }),
            tightness: 0,
            ledgers: BTreeMap::new(),
        }
    }

    #[test]
    fn counters_that_are_too_large_to_be_added_up_are_as_large_as_can_be() {
        let most = u64::MAX;
        let claims = [claiming(most, 0, 0), claiming(1, 0, 1), claiming(1, 1, 0)];

        let link = stats_by_link(&claims)[&(DcId(0), DcId(1))];
        assert_eq!(
            [link.relayed_bytes, link.updates, link.changes, link.carried],
            [most; 4],
            "both servers of a data center use its link"
        );
        let brakes = brakes(&claims);
        assert_eq!([brakes.announcements_expired, brakes.mirrors_lost], [most; 2]);
        assert_eq!(outliers(&claims, |dc| dc.to_string())[0].updates, most);
        let guard = guard(&claims).unwrap();
        assert_eq!([guard.bytes, guard.probes, guard.alarms], [most; 3]);

        assert_eq!(stats_of_links(&claims).carried_fraction(), Some(1.0));
    }
}
