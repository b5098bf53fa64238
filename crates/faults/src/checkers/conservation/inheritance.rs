//! What a copy that came from a mirror holds of what others had changed: the part that its source had of each when the
//! copy was taken, and what came there until a word said that the rest goes straight.

use std::collections::{BTreeMap, BTreeSet};

use super::add_changes;
use gaia_core::codec::Changes;
use gaia_core::types::{DcId, ServerId};
use gaia_core::wire::ControlMessage;

#[derive(Debug, Default)]
pub(super) struct Inheritance {
    /// By server and the data center that had changed it.
    held: BTreeMap<(ServerId, DcId), Vec<f64>>,
    /// For each server the copies that were taken for it, the latest last.
    takings: BTreeMap<ServerId, Vec<Taking>>,
}

/// A copy that was taken for a server.
#[derive(Debug)]
struct Taking {
    /// For which incarnation of the server.
    incarnation: u64,
    source: ServerId,
    /// The word that made the source take it.
    word: (DcId, ControlMessage),
    /// Data centers whose updates the source still owes the server.
    unforked: BTreeSet<DcId>,
}

impl Inheritance {
    /// A word has come to a server that may make it take its copy for another, or owe that less; answers with the server
    /// whose copy is taken now.
    pub(super) fn hear(
        &mut self,
        (at, from): (ServerId, DcId),
        word: &ControlMessage,
        dcs: impl Iterator<Item = DcId>,
    ) -> Option<ServerId> {
        let (dc, incarnation, forks) = match *word {
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
            let word = (from, word.clone());
            takings.push(Taking { incarnation, source: at, word, unforked });
        }

        if let Some(latest) =
            takings.last_mut().filter(|latest| forks && latest.incarnation == incarnation)
        {
            latest.unforked.remove(&from);
        }

        is_new.then_some(server)
    }

    /// The word that has come was not on disk.
    pub(super) fn unhear(&mut self, (at, from): (ServerId, DcId), word: &ControlMessage) {
        let dc = match *word {
            ControlMessage::Rebuild { .. } => from,
            ControlMessage::Fork { to, .. } => to,
            _ => return,
        };
        let server = ServerId { dc, shard: at.shard };
        let Some(takings) = self.takings.get_mut(&server) else { return };
        let Some(latest) = takings.last_mut().filter(|latest| latest.source == at) else { return };
        if latest.word == (from, word.clone()) {
            takings.pop();
            self.held.retain(|(of, _), _| *of != server);
        } else if matches!(word, ControlMessage::Fork { incarnation, .. } if *incarnation == latest.incarnation)
        {
            latest.unforked.insert(from);
        }
    }

    /// The copy of a server begins with so much of what a data center has changed.
    pub(super) fn begin(&mut self, server: ServerId, of: DcId, changes: Vec<f64>) {
        self.held.insert((server, of), changes);
    }

    /// An update has come to a server, or was undone: others are owed it whose copies it took before.
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

    /// What comes from a data center to a server from now on goes straight to all.
    pub(super) fn settle(&mut self, at: Option<ServerId>, from: DcId) {
        for latest in self.takings.values_mut().filter_map(|takings| takings.last_mut()) {
            if at.is_none_or(|at| at == latest.source) {
                latest.unforked.remove(&from);
            }
        }
    }

    /// A server has lost its copy.
    pub(super) fn lose(&mut self, server: ServerId) {
        self.held.retain(|(of, _), _| *of != server);
        if let Some(latest) = self.takings.get_mut(&server).and_then(|takings| takings.last_mut()) {
            latest.unforked.clear();
        }
    }

    /// Adds to a sum what a server's copy has inherited of what a data center had changed.
    pub(super) fn add_to(&self, sum: &mut [f64], server: ServerId, of: DcId) {
        if let Some(held) = self.held.get(&(server, of)) {
            sum.iter_mut().zip(held).for_each(|(sum, value)| *sum += value);
        }
    }
}
