//! Which process of each server takes part, and which has lost the state of the one before it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::incarnations::{Incarnations, first_floor, next_block};
use crate::types::{DcId, ServerId};

/// What a node reports about its process when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerProcess {
    /// The number of the incarnation that began a server's state; 0 for a worker.
    pub began: u64,
    /// The number of a server's incarnation; 0 for a worker.
    pub incarnation: u64,
    /// Whether the node has no history: a server has met no mirror, taken no request and requested no copy, or a worker
    /// has not started.
    pub is_new: bool,
}

/// What the coordinator knows of the processes of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServerProcesses {
    /// By server that has connected, the incarnation that began its state.
    met: BTreeMap<ServerId, u64>,
    /// By server that receives a copy: the incarnation that began its state, and the data center of the source.
    copies: BTreeMap<ServerId, (u64, DcId)>,
    /// The incarnations that this process of the coordinator assigns are above this. 0 in a state that has no such
    /// field.
    #[serde(default)]
    incarnations_floor: u64,
}

impl ServerProcesses {
    /// The incarnations that this process of the coordinator assigns. Those of the first process are above the time of
    /// the system clock in milliseconds, those of a later process above all that the processes before it can have
    /// assigned. The caller logs this state before any is assigned.
    pub(super) fn give_incarnations(
        &mut self,
        is_first: bool,
        since_epoch: Duration,
    ) -> Incarnations {
        self.incarnations_floor = match is_first {
            true => first_floor(since_epoch),
            false => next_block(self.incarnations_floor),
        };
        let mut incarnations = Incarnations::above(self.incarnations_floor);
        // A server whose first incarnation no coordinator assigned may have counted on from there.
        for (server, began) in &self.met {
            incarnations.note(*server, next_block(*began));
        }
        incarnations
    }

    /// Whether a connected server has lost its state: the process is new, and another process of it has taken part.
    pub(super) fn is_lost(&self, server: ServerId, process: ServerProcess) -> bool {
        let other = self.met.get(&server).is_some_and(|met| *met != process.began);
        process.is_new && other
    }

    /// Whether another process of a server has taken part since this one began its state.
    pub(super) fn is_outdated(&self, server: ServerId, process: ServerProcess) -> bool {
        self.met.get(&server).is_some_and(|met| process.began < *met)
    }

    /// Notes the process in which a server takes part.
    pub(super) fn register(&mut self, server: ServerId, process: ServerProcess) {
        self.met.insert(server, process.began);
    }

    /// Notes that a server in this process takes the copy of its mirror in `from`.
    pub(super) fn rebuild(&mut self, server: ServerId, process: ServerProcess, from: DcId) {
        self.copies.insert(server, (process.began, from));
    }

    /// Whether any server receives a copy.
    pub(super) fn has_copies_on_the_way(&self) -> bool {
        !self.copies.is_empty()
    }

    /// The copies in transfer: the data centers of the receiver and of the source.
    pub(super) fn copies(&self) -> Vec<(DcId, DcId)> {
        self.copies.iter().map(|(server, (_, from))| (server.dc, *from)).collect()
    }

    /// Removes the servers of a data center. Returns for each the incarnation that began the state with which it took
    /// part.
    pub(super) fn leave(&mut self, dc: DcId) -> BTreeMap<ServerId, u64> {
        self.copies.retain(|server, _| server.dc != dc);
        let met = std::mem::take(&mut self.met);
        let (left, met) = met.into_iter().partition(|(server, _)| server.dc == dc);
        self.met = met;
        left
    }

    /// A server has its whole copy.
    pub(super) fn on_whole(&mut self, server: ServerId) {
        self.copies.remove(&server);
    }

    /// The data center whose copy a server in this process takes, if it takes one.
    pub(super) fn copy_of(&self, server: ServerId, process: ServerProcess) -> Option<DcId> {
        let (began, from) = self.copies.get(&server)?;
        (*began == process.began).then_some(*from)
    }

    /// Another server of the same shard that receives a copy, and the data center of the source. Until that copy is
    /// complete, the loss of another copy of the shard cannot be repaired.
    pub(super) fn other_copy_on_the_way(&self, server: ServerId) -> Option<(ServerId, DcId)> {
        let mut others = self.copies.iter().filter(|(other, _)| other.shard == server.shard);
        others.find(|(other, _)| **other != server).map(|(other, (_, from))| (*other, *from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ShardId, messagepack};

    #[test]
    fn a_server_is_lost_that_is_new_in_another_life_than_it_was_met_in() {
        let server = ServerId { dc: DcId(1), shard: ShardId(0) };
        let process = |began, is_new| ServerProcess { began, incarnation: began, is_new };
        let mut server_processes = ServerProcesses::default();
        assert!(!server_processes.is_lost(server, process(7, true)), "the first");
        server_processes.register(server, process(7, true));
        assert!(
            !server_processes.is_lost(server, process(7, true)),
            "the same, over another connection"
        );
        assert!(!server_processes.is_lost(server, process(7, false)), "one that has its log");
        assert!(server_processes.is_lost(server, process(9, true)));
        server_processes.register(server, process(9, true));
        assert!(server_processes.is_outdated(server, process(7, false)));
        assert!(!server_processes.is_outdated(server, process(9, false)));
        server_processes.rebuild(server, process(9, true), DcId(2));
        assert_eq!(server_processes.copy_of(server, process(9, true)), Some(DcId(2)));
        assert_eq!(server_processes.copy_of(server, process(10, false)), None);
        server_processes.on_whole(server);
        assert_eq!(server_processes.copy_of(server, process(9, true)), None);
    }

    #[test]
    fn a_coordinator_that_comes_back_gives_incarnations_above_all_before_it_whatever_the_calendar_says()
     {
        let server = ServerId { dc: DcId(1), shard: ShardId(0) };
        let today = Duration::from_secs(1_800_000_000);
        let mut server_processes = ServerProcesses::default();
        let first = server_processes.give_incarnations(true, today).give(server, 1);
        let began = first.number();
        assert!(began > today.as_millis() as u64);
        server_processes
            .register(server, ServerProcess { began, incarnation: began, is_new: true });

        let written = messagepack::encode(&server_processes);
        let mut server_processes: ServerProcesses = messagepack::decode(&written).unwrap();
        let second = server_processes.give_incarnations(false, Duration::ZERO).give(server, 1);
        assert!(second > first.next().next());
        let newcomer = ServerId { dc: DcId(2), ..server };
        assert!(
            server_processes.give_incarnations(false, Duration::ZERO).give(newcomer, 1) > second
        );
    }

    #[test]
    fn what_a_coordinator_wrote_down_that_gave_no_incarnations_is_read() {
        let server = ServerId { dc: DcId(1), shard: ShardId(0) };
        // Such servers derived their incarnation from the system clock.
        let began = 1_800_000_000_000_u64;
        let met = BTreeMap::from([(server, began)]);
        let copies: BTreeMap<ServerId, (u64, DcId)> = BTreeMap::new();
        let written = messagepack::encode(&(met, copies));
        let mut server_processes: ServerProcesses = messagepack::decode(&written).unwrap();
        let given = server_processes.give_incarnations(false, Duration::ZERO).give(server, 1);
        assert!(given.number() > began + 1_000_000, "it may have gone on from its log");
    }
}
