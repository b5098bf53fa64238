//! The incarnations that the coordinator assigns to servers without a state.
//!
//! Mirrors reject a server with an earlier incarnation than they know. They take a server with the same incarnation
//! for the process that they know. So a server that has lost its disk must have a later incarnation. Its machine cannot
//! determine one: it has lost the number, and its system clock may be behind. The coordinator can, since every process
//! of a server connects to it before it meets a mirror.
//!
//! Each process of the coordinator assigns numbers of its own block, above the blocks of the processes before it. It
//! logs where its block begins before it assigns the first number. A server that continues from its log takes the next
//! number by itself, and reports it when it connects. A block has room for all of these. Only a coordinator without a
//! state derives the beginning of its block from the system clock.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::session::Incarnation;
use crate::types::ServerId;

/// The incarnations that one process of the coordinator assigns.
#[derive(Debug, Default)]
pub(super) struct Incarnations {
    /// All that it assigns are above this.
    floor: u64,
    /// The highest that each server may have had.
    highest: BTreeMap<ServerId, u64>,
    /// By server, the latest process that was assigned one, and which.
    processes: BTreeMap<ServerId, (u64, Incarnation)>,
}

impl Incarnations {
    /// Assigns numbers above `floor`.
    pub(super) fn above(floor: u64) -> Self {
        Self { floor, ..Self::default() }
    }

    /// Notes that a server has connected with an incarnation.
    pub(super) fn note(&mut self, server: ServerId, incarnation: u64) {
        let highest = self.highest.entry(server).or_default();
        *highest = incarnation.max(*highest);
    }

    /// The incarnation of a server without a state: higher than all that the server has had. A `process` whose
    /// connection broke before it received the answer asks again, and is assigned the same.
    pub(super) fn give(&mut self, server: ServerId, process: u64) -> Incarnation {
        if let Some((_, given)) = self.processes.get(&server).filter(|(last, _)| *last == process) {
            return *given;
        }

        let highest = self.highest.entry(server).or_default();
        let given = NonZeroU64::MIN.saturating_add(self.floor.max(*highest));
        *highest = given.get();
        self.processes.insert(server, (process, Incarnation(given)));
        Incarnation(given)
    }
}

/// Where the block of a coordinator without a state begins: above all that one that has lost its state has assigned, if
/// the system clock has not gone back.
pub(super) fn first_floor(since_epoch: Duration) -> u64 {
    since_epoch.as_millis() as u64
}

/// The beginning of the block after the one with this number.
pub(super) fn next_block(number: u64) -> u64 {
    (number / BLOCK).saturating_add(1).saturating_mul(BLOCK)
}

/// The numbers of a block: more than the successive processes of a server.
const BLOCK: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DcId, ShardId};

    const A: ServerId = ServerId { dc: DcId(0), shard: ShardId(0) };
    const B: ServerId = ServerId { dc: DcId(1), shard: ShardId(0) };

    #[test]
    fn each_that_is_given_is_above_all_that_a_server_has_been() {
        let mut incarnations = Incarnations::above(7);
        assert_eq!(incarnations.give(A, 50).number(), 8);
        assert_eq!(incarnations.give(A, 50).number(), 8, "a process that asks again");
        assert_eq!(incarnations.give(A, 51).number(), 9);
        assert_eq!(incarnations.give(B, 50).number(), 8, "servers do not meet themselves");

        // It has gone on from its log three times.
        incarnations.note(A, 12);
        assert_eq!(incarnations.give(A, 52).number(), 13);
        incarnations.note(A, 3);
        assert_eq!(incarnations.give(A, 53).number(), 14, "a late call takes nothing back");
        assert_eq!(incarnations.give(B, 51).number(), 9);
    }

    #[test]
    fn another_process_of_the_coordinator_gives_what_none_before_it_has() {
        let before = first_floor(Duration::from_secs(1_800_000_000));
        let mut incarnations = Incarnations::above(before);
        let given = incarnations.give(A, 50);
        let by_itself = given.next().next();

        let mut incarnations = Incarnations::above(next_block(before));
        assert!(incarnations.give(A, 50) > by_itself);
    }

    #[test]
    fn a_number_at_the_end_of_all_ends_no_coordinator() {
        let mut incarnations = Incarnations::above(next_block(u64::MAX));
        incarnations.note(A, u64::MAX);
        assert_eq!(incarnations.give(A, 50).number(), u64::MAX);
    }
}
