//! The changes of other data centers in a copy that was taken from a mirror: those that the source had when the copy
//! was taken, and those that the source received until the marker of a fork.

use std::collections::{BTreeMap, BTreeSet};

use super::add_changes;
use gaia_core::codec::Changes;
use gaia_core::types::{DcId, ServerId};
use gaia_core::wire::ControlMessage;

/// The inherited changes of all servers that have taken copies.
#[derive(Debug, Default)]
pub(super) struct Inheritance {
    /// The changes by server and by the data center that made them.
    held: BTreeMap<(ServerId, DcId), Vec<f64>>,
    /// For each server the copies that were taken for it, the latest last.
    takings: BTreeMap<ServerId, Vec<Taking>>,
}

/// A copy that was taken for a server.
#[derive(Debug)]
struct Taking {
    /// The incarnation of the server that takes the copy.
    incarnation: u64,
    source: ServerId,
    /// The message because of which the source took the copy, and its sender.
    message: (DcId, ControlMessage),
    /// Data centers whose links have not forked. The source forwards their updates to the server.
    unforked: BTreeSet<DcId>,
}

impl Inheritance {
    /// Handles a control message that a server has received. Returns the server for which it takes a copy because of
    /// the message, if any.
    pub(super) fn receive(
        &mut self,
        (at, from): (ServerId, DcId),
        message: &ControlMessage,
        dcs: impl Iterator<Item = DcId>,
    ) -> Option<ServerId> {
        let (dc, incarnation, forks) = match *message {
            ControlMessage::Rebuild { from: source, incarnation } if source == at.dc => {
                (from, incarnation, false)
            }
            ControlMessage::Fork { to, incarnation } => (to, incarnation, true),
            _ => return None,
        };

        let server = ServerId { dc, shard: at.shard };
        let takings = self.takings.entry(server).or_default();
        let is_new = takings.last().is_none_or(|latest| latest.incarnation < incarnation);
        if is_new {
            let unforked = dcs.filter(|other| *other != dc && *other != at.dc).collect();
            let message = (from, message.clone());
            takings.push(Taking { incarnation, source: at, message, unforked });
        }

        if let Some(latest) =
            takings.last_mut().filter(|latest| forks && latest.incarnation == incarnation)
        {
            latest.unforked.remove(&from);
        }

        is_new.then_some(server)
    }

    /// Undoes [`Self::receive`] for a message that was not on disk.
    pub(super) fn undo_receive(&mut self, (at, from): (ServerId, DcId), message: &ControlMessage) {
        let dc = match *message {
            ControlMessage::Rebuild { .. } => from,
            ControlMessage::Fork { to, .. } => to,
            _ => return,
        };
        let server = ServerId { dc, shard: at.shard };
        let Some(takings) = self.takings.get_mut(&server) else { return };
        let Some(latest) = takings.last_mut().filter(|latest| latest.source == at) else { return };
        if latest.message == (from, message.clone()) {
            takings.pop();
            self.held.retain(|(of, _), _| *of != server);
        } else if matches!(message, ControlMessage::Fork { incarnation, .. } if *incarnation == latest.incarnation)
        {
            latest.unforked.insert(from);
        }
    }

    /// Sets the changes of a data center with which the copy of a server begins.
    pub(super) fn begin(&mut self, server: ServerId, of: DcId, changes: Vec<f64>) {
        self.held.insert((server, of), changes);
    }

    /// Adds an update that a server has received to the copies that were taken from it, `times` times. -1 undoes an
    /// update.
    pub(super) fn enqueue(
        &mut self,
        (at, from): (ServerId, DcId),
        changes: Changes<'_>,
        times: f64,
    ) {
        for (server, takings) in &self.takings {
            let latest = takings.last();
            if latest.is_some_and(|one| one.source == at && one.unforked.contains(&from))
                && let Some(held) = self.held.get_mut(&(*server, from))
            {
                add_changes(held, changes, times);
            }
        }
    }

    /// Ends the forwarding of a data center's updates by one server, or by all.
    pub(super) fn settle(&mut self, at: Option<ServerId>, from: DcId) {
        for latest in self.takings.values_mut().filter_map(|takings| takings.last_mut()) {
            if at.is_none_or(|at| at == latest.source) {
                latest.unforked.remove(&from);
            }
        }
    }

    /// Discards the inherited changes of a server that has lost its copy.
    pub(super) fn lose(&mut self, server: ServerId) {
        self.held.retain(|(of, _), _| *of != server);
        if let Some(latest) = self.takings.get_mut(&server).and_then(|takings| takings.last_mut()) {
            latest.unforked.clear();
        }
    }

    /// Adds the changes of a data center that a server's copy has inherited to a sum.
    pub(super) fn add_to(&self, sum: &mut [f64], server: ServerId, of: DcId) {
        if let Some(held) = self.held.get(&(server, of)) {
            sum.iter_mut().zip(held).for_each(|(sum, value)| *sum += value);
        }
    }
}
