//! The selective barrier: a read never returns an announced parameter before its update, unless the deadline has
//! passed: that of the announcement, or that of the read, which waits for announced parameters no longer in total. With
//! `on_partition = "continue"` a read may be answered without what a mirror announced before it became unreachable.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Broken, Checker, Seen, View};
use crate::cluster::undone::Undone;
use gaia_core::codec::{Buffers, Changes, decode_indexes};
use gaia_core::store::ShardRows;
use gaia_core::sync::{OnPartition, RemoteSync};
use gaia_core::types::{DcId, Instant, Lane, ServerId, TableRows, WorkerId};
use gaia_core::wire::{BulkKind, ControlMessage, decode_bulk, decode_control, peek_bulk};

#[derive(Debug, Default)]
pub(super) struct Barrier {
    /// For each announced parameter, the sequence number of the first frame that can bring its update, and its
    /// deadline.
    announced: BTreeMap<(ServerId, DcId), BTreeMap<u32, (u64, Instant)>>,
    /// The last data frame of each mirror that each server has applied.
    applied: BTreeMap<(ServerId, DcId), u64>,
    /// The rows of each unanswered read, and when it was handled.
    asked: BTreeMap<(ServerId, WorkerId), (ShardRows, Instant)>,
    buffers: Buffers,
}

impl Checker for Barrier {
    fn name(&self) -> &'static str {
        "barrier"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        let RemoteSync::Asp(asp) = &view.plan.remote else { return Ok(()) };
        match seen {
            Seen::Delivered { at, from, lane: Lane::Control, frame } => {
                let Ok(ControlMessage::Announce { sequence, indexes, .. }) = decode_control(frame)
                else {
                    return Ok(());
                };
                let applied = self.applied.get(&(at, from)).copied().unwrap_or_default();
                let layout = view.server(at).layout();
                let mut places = Vec::new();
                let known = decode_indexes(&indexes, layout.parameters(), &mut places).is_ok();
                if known && applied < sequence {
                    let due = view.time_at(at) + asp.barrier_deadline.0;
                    let announced = self.announced.entry((at, from)).or_default();
                    announced.extend(places.into_iter().map(|place| (place, (sequence, due))));
                }
            }
            Seen::Delivered { at, from, lane: Lane::Data, frame } => {
                let layout = view.server(at).layout();
                let decoded = decode_bulk(frame, layout.parameters(), &mut self.buffers);
                let Ok((header, changes)) = decoded else { return Ok(()) };
                self.applied.insert((at, from), header.sequence);
                let Some(announced) = self.announced.get_mut(&(at, from)) else { return Ok(()) };
                if header.kind == BulkKind::Update {
                    for place in places_of(changes) {
                        if announced.get(&place).is_some_and(|(due, _)| *due <= header.sequence) {
                            announced.remove(&place);
                        }
                    }
                }
            }
            Seen::Asked { server, worker, rows, .. } => {
                self.asked.insert((server, worker), (rows.clone(), view.time_at(server)));
            }
            Seen::Answered { server, worker, message } => {
                let Some((rows, asked_at)) = self.asked.remove(&(server, worker)) else {
                    return Ok(());
                };
                // What the server states as the time of the wait counts only as far as the read is that old.
                let waits = message.held.iter().filter(|(reason, _)| reason.is_announced());
                let waited: Duration = waits.map(|(_, time)| *time).sum();
                let age = view.time_at(server).since(asked_at);
                if waited.min(age) < asp.barrier_deadline.0 {
                    return self.check_read(view, server, &rows);
                }
            }
            Seen::Disconnected { at, from } if asp.on_partition == OnPartition::Continue => {
                self.announced.remove(&(at, from));
            }
            Seen::Gone { dc } => self.announced.retain(|(_, from), _| *from != dc),
            Seen::Lost { server, .. } => {
                let is_of = |at: ServerId, from: DcId| {
                    at.shard == server.shard && (at == server || from == server.dc)
                };
                self.announced.retain(|(at, from), _| !is_of(*at, *from));
                self.applied.retain(|(at, from), _| !is_of(*at, *from));
                self.asked.retain(|(at, _), _| *at != server);
            }
            _ => {}
        }

        Ok(())
    }

    /// An undone frame arrives again. Until then this checker knows fewer announcements, never more.
    fn undo(&mut self, undone: &Undone) {
        match undone {
            Undone::Asked { server, worker } => drop(self.asked.remove(&(*server, *worker))),
            Undone::Delivered { at, from, lane: Lane::Control, frame } => {
                if let Ok(ControlMessage::Announce { sequence, .. }) = decode_control(frame)
                    && let Some(announced) = self.announced.get_mut(&(*at, *from))
                {
                    announced.retain(|_, (due, _)| *due != sequence);
                }
            }
            Undone::Delivered { at, from, lane: Lane::Data, frame } if peek_bulk(frame).is_ok() => {
                let applied = self.applied.entry((*at, *from)).or_default();
                *applied = applied.saturating_sub(1);
            }
            _ => {}
        }
    }
}

impl Barrier {
    fn check_read(
        &self,
        view: &View<'_>,
        server: ServerId,
        rows: &ShardRows,
    ) -> Result<(), Broken> {
        let layout = view.server(server).layout();
        let now = view.time_at(server);
        for ((_, from), announced) in
            self.announced.range((server, DcId(0))..=(server, DcId(u16::MAX)))
        {
            for (place, (sequence, due)) in announced.iter().filter(|(_, (_, due))| *due > now) {
                let (table, row) = layout.row_of_parameter(*place as usize);
                let first = layout.first_row_of(table);
                let read = rows.tables().any(|(read, rows)| match rows {
                    TableRows::All => read == table,
                    TableRows::Listed(listed) => {
                        read == table && listed.contains(&(layout.model_row(row - first) as u32))
                    }
                });
                if read {
                    return Err(format!(
                        "{server} answers a read of parameter {place}, which {from} announced for update {sequence}, \
                         {:?} before its deadline",
                        due.since(now)
                    ));
                }
            }
        }
        Ok(())
    }
}

pub(super) fn places_of(changes: Changes<'_>) -> Vec<u32> {
    match changes {
        Changes::Dense { start, values } => (start..start + values.len() as u32).collect(),
        Changes::Sparse { indexes, .. } => indexes.to_vec(),
    }
}
