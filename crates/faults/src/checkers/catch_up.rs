//! Catching up: under a partial partition a server ends its pause for a mirror that is heard again only once it has applied all
//! updates that it has missed. These are all that the mirror had yet to send when it was heard again, and all that it had sent.
//!
//! The checker looks at TAP, where it is exact what must be sent: whatever was changed in a finished clock. A frame that has a
//! parameter carries all changes of it so far.

use std::collections::{BTreeMap, BTreeSet};

use super::barrier::places_of;
use super::{Broken, Checker, Seen, View};
use gaia_core::codec::Buffers;
use gaia_core::store::ShardDeltas;
use gaia_core::sync::RemoteSync;
use gaia_core::types::{Clock, DcId, Lane, ServerId, ShardLayout, TableRows};
use gaia_core::wire::{BulkKind, ControlMessage, decode_bulk, decode_control, peek_bulk};

#[derive(Debug, Default)]
pub(super) struct CatchUp {
    /// The clock of each server, and the parameters changed since it advanced.
    changed: BTreeMap<ServerId, (Clock, BTreeSet<u32>)>,
    /// The parameters of finished clocks that each link has yet to carry.
    marked: BTreeMap<(ServerId, DcId), BTreeSet<u32>>,
    /// The mirrors from which each server receives nothing.
    silent: BTreeSet<(ServerId, DcId)>,
    /// What each server has missed of the mirrors that it hears again.
    missed: BTreeMap<(ServerId, DcId), Missed>,
    /// The mirror for which each server paused before it handled its latest frame.
    paused: BTreeMap<ServerId, Option<DcId>>,
    /// Links of which it is not known what they have yet to carry: their sender has restarted, or an end has lost its state.
    unknown: BTreeSet<(ServerId, DcId)>,
    buffers: Buffers,
}

/// The updates of a mirror that a server has missed.
#[derive(Debug)]
struct Missed {
    /// The parameters that no frame has had since.
    left: BTreeSet<u32>,
    /// The last frame that had one of them, or that was cut before the mirror was heard again.
    sequence: u64,
}

impl Checker for CatchUp {
    fn name(&self) -> &'static str {
        "catch up"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        let is_tap = matches!(view.plan.remote, RemoteSync::Tap(_));
        // With a quorum of workers a clock may end without an update that could be seen.
        if !is_tap || view.plan.local.has_quorum() {
            return Ok(());
        }
        match seen {
            Seen::Updated { server, deltas, .. } => self.change(view, server, deltas),
            Seen::Cut { from, to, lane: Lane::Data, frame } => self.carry(view, from, to, frame),
            Seen::Disconnected { at, from } => {
                self.silent.insert((at, from));
                self.missed.remove(&(at, from));
            }
            Seen::InTurn { at, .. } => {
                self.paused.insert(at, view.server(at).pauses_for());
            }
            Seen::Received { at, from, .. } => {
                self.hear(view, at, from);
            }
            Seen::Delivered { at, from, lane, frame } => {
                // The first frame changes how many links have failed, and with that who pauses.
                let is_first = self.hear(view, at, from);
                if !is_first && brings_missed(lane, frame) {
                    return self.check_pause(view, at, from);
                }
            }
            Seen::Recovered { server } => self.restart(view, server),
            Seen::Lost { server, .. } => {
                self.restart(view, server);
                for dc in view.plan.topology.dc_ids().filter(|dc| *dc != server.dc) {
                    self.unknown.insert((ServerId { dc, shard: server.shard }, server.dc));
                }
            }
            _ => {}
        }

        Ok(())
    }
}

impl CatchUp {
    /// Records the changes of a worker's update. With the last update of a clock they must be sent.
    fn change(&mut self, view: &View<'_>, server: ServerId, deltas: &ShardDeltas) {
        let clock = view.server(server).clock();
        let (before, changed) = self.changed.entry(server).or_default();
        changed.extend(changed_places(deltas, view.server(server).layout()));
        if clock > *before {
            *before = clock;
            for to in view.plan.topology.dc_ids().filter(|to| *to != server.dc) {
                self.marked.entry((server, to)).or_default().extend(changed.iter().copied());
            }
            changed.clear();
        }
    }

    /// Records what a frame carries.
    fn carry(&mut self, view: &View<'_>, from: ServerId, to: DcId, frame: &[u8]) {
        let parameters = view.server(from).layout().parameters();
        let Ok((header, changes)) = decode_bulk(frame, parameters, &mut self.buffers) else {
            return;
        };
        if header.kind != BulkKind::Update {
            return;
        }

        let marked = self.marked.entry((from, to)).or_default();
        let receiver = ServerId { dc: to, shard: from.shard };
        let mut missed = self.missed.get_mut(&(receiver, from.dc));
        for place in places_of(changes) {
            marked.remove(&place);
            if let Some(missed) = missed.as_mut().filter(|one| one.left.contains(&place)) {
                missed.left.remove(&place);
                missed.sequence = header.sequence;
            }
        }
    }

    /// Records what a server has missed of a mirror, if it hears it again. Returns whether it does.
    fn hear(&mut self, view: &View<'_>, at: ServerId, from: DcId) -> bool {
        let hears = view.server(at).may_receive_from(from) && self.silent.remove(&(at, from));
        if hears {
            let sender = ServerId { dc: from, shard: at.shard };
            let left = self.marked.get(&(sender, at.dc)).cloned().unwrap_or_default();
            let marks = view.server(sender).watermarks();
            let mark = marks.iter().find(|mark| mark.peer == at.dc);
            let sequence = mark.map_or(0, |mark| mark.sent);
            self.missed.insert((at, from), Missed { left, sequence });
        }
        hears
    }

    /// A server has restarted. What it had not written is undone, of what it has sent as well.
    fn restart(&mut self, view: &View<'_>, server: ServerId) {
        for dc in view.plan.topology.dc_ids().filter(|dc| *dc != server.dc) {
            self.unknown.insert((server, dc));
            self.missed.remove(&(server, dc));
            if !view.server(server).may_receive_from(dc) {
                self.silent.insert((server, dc));
            }
        }
    }

    /// Checks the pause of a server that has handled a frame of a mirror.
    fn check_pause(&mut self, view: &View<'_>, at: ServerId, from: DcId) -> Result<(), Broken> {
        let paused = self.paused.get(&at).copied().flatten();
        if paused != Some(from) || view.server(at).pauses_for() == Some(from) {
            return Ok(());
        }
        let Some(missed) = self.missed.remove(&(at, from)) else { return Ok(()) };
        let sender = ServerId { dc: from, shard: at.shard };
        // At the end of a run updates that were not sent are a matter of the drain.
        let drains = view.server(sender).is_draining() || view.server(at).is_draining();
        if drains || self.unknown.contains(&(sender, at.dc)) {
            return Ok(());
        }

        let marks = view.server(at).watermarks();
        let received = marks.iter().find(|mark| mark.peer == from).map_or(0, |mark| mark.received);
        if missed.left.is_empty() && missed.sequence <= received {
            return Ok(());
        }
        Err(format!(
            "{at} has ended its pause with frame {received} of {from}, but it has missed frames up to {} and {} parameters \
             that were not sent",
            missed.sequence,
            missed.left.len()
        ))
    }
}

/// Whether a frame can be the last that a server has missed, or says which one that is.
fn brings_missed(lane: Lane, frame: &[u8]) -> bool {
    match lane {
        Lane::Control => matches!(decode_control(frame), Ok(ControlMessage::CaughtUp { .. })),
        Lane::Data => peek_bulk(frame).is_ok(),
    }
}

/// The parameters that a worker's update changes.
fn changed_places(deltas: &ShardDeltas, layout: &ShardLayout) -> Vec<u32> {
    let mut places = Vec::new();
    for (table, changes) in deltas.tables() {
        let width = layout.width_of(table);
        let rows: Vec<usize> = match &changes.rows {
            TableRows::All => (0..layout.rows_of(table)).map(|row| layout.model_row(row)).collect(),
            TableRows::Listed(listed) => listed.iter().map(|row| *row as usize).collect(),
        };
        for (row, values) in rows.into_iter().zip(changes.values.chunks_exact(width)) {
            let start = layout.row_offset(table, row);
            let changed = (start..).zip(values).filter(|(_, value)| **value != 0.0);
            places.extend(changed.map(|(place, _)| place as u32));
        }
    }
    places
}
