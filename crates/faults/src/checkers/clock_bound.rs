//! Staleness: no read is too far ahead of the workers of its own data center, or of other data centers by the remote
//! model's bound, unless a deadline has passed. Mirror clocks on a link increase.
//!
//! The checker uses the real clocks of the others, not the reported ones.

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, Checker, Replies, Seen, View, clock_of};
use crate::cluster::undone::Undone;
use gaia_core::sync::{Brake, RemoteSync};
use gaia_core::types::{Clock, DcId, Lane, ServerId};
use gaia_core::wire::{ControlMessage, decode_control};

/// The mirror clocks that were sent on each link.
#[derive(Debug, Default)]
pub(super) struct ClockBound {
    reported: BTreeMap<(ServerId, DcId), Vec<Clock>>,
    /// Servers that have lost their state: their clocks are those of other servers' copies.
    lost: BTreeSet<ServerId>,
    /// Servers that have reported a pause: reads of mirrors do not wait for the clocks that they have missed.
    paused: BTreeSet<ServerId>,
    replies: Replies,
}

impl Checker for ClockBound {
    fn name(&self) -> &'static str {
        "clock bound"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        if let Seen::Cut { from, to, lane: Lane::Control, frame } = seen {
            return self.check_reported(from, to, frame);
        }
        if let Seen::Lost { server, .. } = seen {
            self.lost.insert(server);
            self.reported.retain(|(from, to), _| {
                from.shard != server.shard || (*from != server && *to != server.dc)
            });
        }
        let Seen::Answered { server, worker, message } = seen else { return Ok(()) };
        if !self.replies.is_new(server, worker, message.clock) {
            return Ok(());
        }
        let read = message.at;
        let local = view.plan.local.staleness().0;
        let own = clock_of(view, server, server.dc);
        if read.ahead_of(own) > local {
            return Err(format!(
                "{worker} reads at clock {read}, but its data center is at {own}: the bound is {local}"
            ));
        }
        let least = least_of_others(view, read);
        let others = others(view, server);
        let others = others.into_iter().filter(|dc| !view.inactive.contains(dc));
        let is_lost = |dc: DcId| self.lost.contains(&ServerId { dc, shard: server.shard });
        let others = others.filter(|dc| !is_lost(*dc) && !is_lost(server.dc));
        let mut others = others.filter(|dc| self.is_bound(view, server, *dc));
        match others.find(|dc| clock_of(view, server, *dc) < least) {
            Some(dc) => {
                let theirs = clock_of(view, server, dc);
                Err(format!(
                    "{worker} reads at clock {read}, but {dc} is at {theirs} and must be at {least}"
                ))
            }
            None => Ok(()),
        }
    }

    fn undo(&mut self, undone: &Undone) {
        if let Undone::Cut { from, to, lane: Lane::Control, frame } = undone
            && mirror_clock(frame).is_some()
            && let Some(reported) = self.reported.get_mut(&(*from, *to))
        {
            reported.pop();
        }
    }
}

impl ClockBound {
    /// Whether the reads of a server wait for a mirror's clock. ASP excludes a mirror from which nothing is received, and
    /// one that pauses.
    fn is_bound(&self, view: &View<'_>, server: ServerId, mirror: DcId) -> bool {
        let reader = view.server(server);
        let excludes =
            matches!(view.plan.remote, RemoteSync::Asp(_)) && reader.brake_stats().mirrors_lost > 0;
        let has_paused = self.paused.contains(&ServerId { dc: mirror, shard: server.shard });
        !excludes || (reader.mirror_clock(mirror).is_some() && !has_paused)
    }

    fn check_reported(&mut self, from: ServerId, to: DcId, frame: &[u8]) -> Result<(), Broken> {
        if let Ok(ControlMessage::LinkReport(report)) = decode_control(frame)
            && report.pauses
        {
            self.paused.insert(from);
        }
        let Some(clock) = mirror_clock(frame) else { return Ok(()) };
        let reported = self.reported.entry((from, to)).or_default();
        if let Some(before) = reported.last().filter(|before| **before >= clock) {
            return Err(format!("{from} reports clock {clock} to {to} after clock {before}"));
        }
        reported.push(clock);
        Ok(())
    }
}

fn mirror_clock(frame: &[u8]) -> Option<Clock> {
    match decode_control(frame) {
        Ok(ControlMessage::MirrorClock { clock, .. }) => Some(clock),
        _ => None,
    }
}

/// The clock that all other data centers must have finished before a read at a clock.
fn least_of_others(view: &View<'_>, read: Clock) -> Clock {
    let behind = |clocks: u64| Clock(read.0.saturating_sub(clocks));
    match &view.plan.remote {
        RemoteSync::Bsp(_) => read,
        RemoteSync::Ssp(ssp) => behind(ssp.staleness.0),
        RemoteSync::Tap(_) => Clock::ZERO,
        RemoteSync::Asp(asp) => match asp.data_center_staleness {
            Some(staleness) if asp.mirror_clock != Brake::Off => {
                Clock((read.0 + 1).saturating_sub(staleness.0.max(1)))
            }
            _ => Clock::ZERO,
        },
        // A quorum waits for no single data center.
        RemoteSync::LocalSteps(config) if config.has_quorum() => Clock::ZERO,
        // The age of the oldest round of a fragment that need not be finished, as the fragments are staggered. A guard moves the
        // clocks of rounds.
        RemoteSync::LocalSteps(config) if config.fragments == 1 && config.guard.is_none() => {
            Clock(behind(config.most_overlap()).0 / config.steps * config.steps)
        }
        RemoteSync::LocalSteps(config) => behind(config.most_overlap() + config.steps),
    }
}

fn others(view: &View<'_>, server: ServerId) -> Vec<DcId> {
    match view.plan.remote {
        RemoteSync::Asp(_) => view.overlay.neighbours(server.dc).into_iter().flatten().collect(),
        _ => view.plan.topology.dc_ids().filter(|dc| *dc != server.dc).collect(),
    }
}
