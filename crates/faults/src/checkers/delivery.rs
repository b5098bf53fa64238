//! Delivery: a server receives the frames of a lane exactly once, in order, byte for byte as the other server has cut
//! them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::{Broken, Checker, Seen, View};
use crate::cluster::undone::Undone;
use gaia_core::types::{DcId, Lane, ServerId};

/// The frames that were cut and not received.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    under_way: BTreeMap<(ServerId, DcId, Lane), VecDeque<Bytes>>,
}

impl Checker for Delivery {
    fn name(&self) -> &'static str {
        "delivery"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        match seen {
            Seen::Cut { from, to, lane, frame } => {
                self.under_way.entry((from, to, lane)).or_default().push_back(frame.clone());
                Ok(())
            }
            Seen::InTurn { at, from, lane, frame } => {
                let sender = ServerId { dc: from, shard: at.shard };
                let due = self.under_way.get_mut(&(sender, at.dc, lane));
                let lane = lane.name();
                match due.and_then(VecDeque::pop_front) {
                    Some(due) if due == *frame => Ok(()),
                    Some(_) => Err(format!("{at} receives a {lane} frame of {from} out of order")),
                    None => Err(format!("{at} receives a {lane} frame that {from} has not sent")),
                }
            }
            // Frames to and from the server are lost.
            Seen::Lost { server, .. } => {
                self.under_way.retain(|(from, to, _), _| {
                    from.shard != server.shard || (*from != server && *to != server.dc)
                });
                Ok(())
            }
            Seen::Reset { at, from } => {
                self.under_way.retain(|(sender, to, _), _| (*sender, *to) != (at, from));
                Ok(())
            }
            Seen::End => {
                let there = |from: &ServerId, to: &DcId| {
                    !view.inactive.contains(&from.dc) && !view.inactive.contains(to)
                };
                let mut left = self.under_way.iter().filter(|(_, frames)| !frames.is_empty());
                match left.find(|((from, to, _), _)| there(from, to)) {
                    Some(((from, to, lane), frames)) => {
                        let (count, lane) = (frames.len(), lane.name());
                        Err(format!("{count} {lane} frames from {from} to {to} were not received"))
                    }
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn undo(&mut self, undone: &Undone) {
        match undone {
            Undone::Cut { from, to, lane, .. } => {
                self.under_way.entry((*from, *to, *lane)).or_default().pop_back();
            }
            Undone::Delivered { at, from, lane, frame } => {
                let sender = ServerId { dc: *from, shard: at.shard };
                let under_way = self.under_way.entry((sender, at.dc, *lane)).or_default();
                under_way.push_front(frame.clone());
            }
            Undone::Asked { .. } | Undone::Updated { .. } | Undone::Rejected { .. } => {}
        }
    }
}
