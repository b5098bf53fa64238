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
        let least_of = |dc| Clock(least.0.saturating_sub(excused_clocks(view, server, dc)));
        let mut too_early = others.filter(|dc| clock_of(view, server, *dc) < least_of(*dc));
        match too_early.next() {
            Some(dc) => {
                let (theirs, least) = (clock_of(view, server, dc), least_of(dc));
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
    fn check_reported(&mut self, from: ServerId, to: DcId, frame: &[u8]) -> Result<(), Broken> {
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

/// The clocks of a mirror that the reads of a server do not wait for. ASP waits for no clock of a mirror from which nothing
/// is received or that pauses, and for none that a mirror has missed in a pause. A server that has counted no mirror as lost
/// waits for all.
fn excused_clocks(view: &View<'_>, server: ServerId, mirror: DcId) -> u64 {
    let reader = view.server(server);
    match view.plan.remote {
        RemoteSync::Asp(_) if reader.brake_stats().mirrors_lost > 0 => {
            reader.excused_clocks(mirror)
        }
        _ => 0,
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
