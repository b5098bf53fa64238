//! Where a link is dead and both ends exchange updates with a third data center, not both train on, once there was time
//! for the news to get around: additive copies would diverge.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Broken, Checker, Seen, View};
use crate::cluster::ends::patience;
use gaia_core::sync::RemoteSync;
use gaia_core::types::{DcId, Instant, ServerId, ShardId};

#[derive(Debug, Default)]
pub(super) struct Partition {
    /// Since when both ends of a link have heard each other, the lower data center first.
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
            Seen::Disconnected { at } | Seen::Taken { at } => self.look(view, at.shard),
            Seen::Lost { server, .. } | Seen::Recovered { server } => {
                self.joined.retain(|(shard, a, b), _| {
                    *shard != server.shard || (*a != server.dc && *b != server.dc)
                });
            }
            Seen::Answered { server, .. } => {
                self.look(view, server.shard);
                self.check_read(view, server)?;
                self.answered.insert(server, view.now);
            }
            _ => {}
        }

        Ok(())
    }
}

impl Partition {
    /// Notes which mirrors of a shard hear each other.
    fn look(&mut self, view: &View<'_>, shard: ShardId) {
        let dcs: Vec<DcId> = view.plan.topology.dc_ids().collect();
        for a in &dcs {
            for b in dcs.iter().filter(|b| a < *b) {
                let hears = |at: DcId, from: DcId| {
                    let node = &view.nodes.servers[&ServerId { dc: at, shard }];
                    node.host.up && node.machine.server().may_receive_from(from)
                };
                let there = !view.inactive.contains(a) && !view.inactive.contains(b);
                let passes = view.network.dead_since(*a, *b).is_none();
                let place = (shard, *a, *b);
                if there && passes && hears(*a, *b) && hears(*b, *a) {
                    self.joined.entry(place).or_insert(view.now);
                } else {
                    self.joined.remove(&place);
                }
            }
        }
    }

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
                    let known = *[dead, *one, *two].iter().max().expect("there are three");
                    let due = known + time_for_news(view);
                    let mirror = ServerId { dc: other, shard };
                    let trains = self.answered.get(&mirror).is_some_and(|at| *at >= due);
                    if view.now >= due && trains {
                        return Err(format!(
                            "{server} answers a read, and so does {mirror}: their link has been dead since {:.3} s, and both \
                             hear {third}",
                            dead.as_secs_f64()
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// How long it may take until connections over dead links are given up and everybody knows of it: a message may be lost, and
/// the connection that it was on be taken for a good one for twice its patience.
fn time_for_news(view: &View<'_>) -> Duration {
    let dcs: Vec<DcId> = view.plan.topology.dc_ids().collect();
    let pairs = dcs.iter().flat_map(|a| dcs.iter().map(move |b| (*a, *b, ShardId(0))));
    let pairs = pairs.filter(|(a, b, _)| a < b);
    let longest = pairs.map(|pair| patience(&view.plan.topology, pair)).max();
    NEWS_MIN + 3 * longest.unwrap_or_default()
}

/// On top of what connections take.
const NEWS_MIN: Duration = Duration::from_secs(1);
