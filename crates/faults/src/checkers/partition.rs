//! Partial partitions: if a link is dead and both of its data centers exchange updates with a third one, at most one of
//! the two trains. Otherwise copies would diverge, because they are sums of updates.
//!
//! The invariant holds once the servers have had time to detect the dead link and to receive each other's link reports.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Broken, Checker, Seen, View};
use crate::cluster::ends::patience;
use gaia_core::sync::RemoteSync;
use gaia_core::types::{DcId, Instant, ServerId, ShardId};

#[derive(Debug, Default)]
pub(super) struct Partition {
    /// Since when both ends of a link have received from each other, the lower data center first.
    joined: BTreeMap<(ShardId, DcId, DcId), Instant>,
    /// When each server last answered a read.
    answered: BTreeMap<ServerId, Instant>,
}

impl Checker for Partition {
    fn name(&self) -> &'static str {
        "partition"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        if !matches!(view.plan.remote, RemoteSync::Tap(_) | RemoteSync::Asp(_)) {
            return Ok(());
        }
        match seen {
            Seen::Disconnected { at, .. } | Seen::Taken { at } => self.update_links(view, at.shard),
            Seen::Lost { server, .. } | Seen::Recovered { server } => {
                self.joined.retain(|(shard, a, b), _| {
                    *shard != server.shard || (*a != server.dc && *b != server.dc)
                });
            }
            Seen::Answered { server, .. } => {
                self.update_links(view, server.shard);
                self.check_read(view, server)?;
                self.answered.insert(server, view.now);
            }
            _ => {}
        }

        Ok(())
    }
}

impl Partition {
    /// Records which mirrors of a shard receive from each other.
    fn update_links(&mut self, view: &View<'_>, shard: ShardId) {
        let dcs: Vec<DcId> = view.plan.topology.dc_ids().collect();
        for a in &dcs {
            for b in dcs.iter().filter(|b| a < *b) {
                let receives = |at: DcId, from: DcId| {
                    let node = &view.nodes.servers[&ServerId { dc: at, shard }];
                    node.host.up && node.machine.server().may_receive_from(from)
                };
                let active = !view.inactive.contains(a) && !view.inactive.contains(b);
                let passes = view.network.dead_since(*a, *b).is_none();
                let place = (shard, *a, *b);
                if active && passes && receives(*a, *b) && receives(*b, *a) {
                    self.joined.entry(place).or_insert(view.now);
                } else {
                    self.joined.remove(&place);
                }
            }
        }
    }

    /// Checks a read that a server has answered.
    fn check_read(&self, view: &View<'_>, server: ServerId) -> Result<(), Broken> {
        let (own, shard) = (server.dc, server.shard);
        let joined = |a: DcId, b: DcId| self.joined.get(&(shard, a.min(b), a.max(b)));
        let cliques = view.overlay.cliques().iter().filter(|clique| clique.contains(&own));
        for clique in cliques {
            let others = || clique.iter().copied().filter(move |dc| *dc != own);
            for other in others().filter(|dc| !view.inactive.contains(dc)) {
                let Some(dead) = view.network.dead_since(own, other) else { continue };
                for third in others().filter(|dc| *dc != other) {
                    let ways = (joined(own, third), joined(other, third));
                    let (Some(one), Some(two)) = ways else { continue };
                    // A connection over a silent link is closed only after the silence.
                    let silent = view.network.silent_until(own, other);
                    let times = [dead, silent, *one, *two];
                    let known = *times.iter().max().expect("there are four");
                    let due = known + detection_time(view);
                    let mirror = ServerId { dc: other, shard };
                    let trains = self.answered.get(&mirror).is_some_and(|at| *at >= due);
                    if view.now >= due && trains {
                        return Err(format!(
                            "{server} and {mirror} both answer reads: their link has been dead since {:.3} s, and both \
                             exchange updates with {third}",
                            dead.as_secs_f64()
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The longest time until connections over dead links are closed and all mirrors have received the link reports.
///
/// A report may be lost. Then its connection may count as good for twice the time that it may make no progress.
fn detection_time(view: &View<'_>) -> Duration {
    let dcs: Vec<DcId> = view.plan.topology.dc_ids().collect();
    let pairs = dcs.iter().flat_map(|a| dcs.iter().map(move |b| (*a, *b, ShardId(0))));
    let pairs = pairs.filter(|(a, b, _)| a < b);
    let longest = pairs.map(|pair| patience(&view.plan.topology, pair)).max();
    DETECTION_MIN + 3 * longest.unwrap_or_default()
}

/// The part of the time that does not depend on the links.
const DETECTION_MIN: Duration = Duration::from_secs(1);
