//! Which worker stands in for which lost worker.
//!
//! The coordinator decides this, and notifies every node. The stand-in begins at the request that the servers report as
//! due from the lost worker, as a worker that has restarted without its state does. To servers it is that worker: they
//! accept one process for each worker, and the certificate identifies it as the worker itself or its stand-in, never
//! both. So the order in which nodes are notified does not matter. A process whose connection is rejected retries until
//! it is accepted, or until it is notified that it never will be.
//!
//! A worker that takes its work back receives a reset before it receives an order to start or stop. Its state is as old
//! as its loss, and it must not report that it has stopped at a clock that its servers have passed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::types::WorkerId;

/// By lost worker, the worker that stands in for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandIns(BTreeMap<WorkerId, WorkerId>);

impl StandIns {
    /// Appoints one of these workers as the stand-in of a lost one, and returns it: the first of those that stand in
    /// for the fewest others. If there are none, returns `None`, and an earlier stand-in stays appointed.
    pub fn appoint(
        &mut self,
        lost: WorkerId,
        among: impl Iterator<Item = WorkerId>,
    ) -> Option<WorkerId> {
        let others = |worker: &WorkerId| {
            let others = self.iter().filter(|(other, own)| *other != lost && own == worker);
            (others.count(), *worker)
        };
        let chosen = among.min_by_key(others)?;
        self.0.insert(lost, chosen);
        Some(chosen)
    }

    /// Ends the standing in for a worker, and returns the worker that stood in for it.
    pub fn dismiss(&mut self, back: WorkerId) -> Option<WorkerId> {
        self.0.remove(&back)
    }

    /// The worker that stands in for a worker, if there is one.
    pub fn of(&self, lost: WorkerId) -> Option<WorkerId> {
        self.0.get(&lost).copied()
    }

    /// The workers that a worker stands in for.
    pub fn lost_to(&self, worker: WorkerId) -> BTreeSet<WorkerId> {
        self.iter().filter(|(_, own)| *own == worker).map(|(lost, _)| lost).collect()
    }

    /// The pairs of a lost worker and its stand-in, by lost worker.
    pub fn iter(&self) -> impl Iterator<Item = (WorkerId, WorkerId)> + '_ {
        self.0.iter().map(|(lost, own)| (*lost, *own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::DcId;

    fn worker(index: u16) -> WorkerId {
        WorkerId { dc: DcId(0), index }
    }

    #[test]
    fn who_does_least_for_others_stands_in_and_the_first_of_equals() {
        let mut stand_ins = StandIns::default();
        let mut check = |lost: u16, among: &[u16], expected: Option<u16>| {
            let among = among.iter().map(|index| worker(*index));
            assert_eq!(stand_ins.appoint(worker(lost), among), expected.map(worker));
        };
        check(4, &[3, 1, 2], Some(1));
        check(5, &[3, 1, 2], Some(2));
        check(6, &[1, 2], Some(1));
        // Once appointed again, it no longer counts for the one before.
        check(4, &[1, 2], Some(1));
        check(7, &[], None);
        check(6, &[], None);
        assert_eq!(stand_ins.lost_to(worker(1)), [worker(4), worker(6)].into());
        assert_eq!(stand_ins.dismiss(worker(4)), Some(worker(1)));
        assert_eq!((stand_ins.dismiss(worker(4)), stand_ins.of(worker(4))), (None, None));
    }
}
