//! Who stands in for which worker that is lost.
//!
//! The coordinator decides that, and tells every node. The stand-in begins where the servers say that the lost worker was,
//! as a worker that has come back without its state does. To servers it is that worker: they hear one process for each
//! worker, and the certificate says which, the worker itself or its stand-in, never both. So it does not matter which node
//! hears first that one takes the other's place. The process that is not heard calls again until its turn comes, or until it
//! hears that it never will.
//!
//! A worker that has its work back is told to begin anew before it is told to start or stop: what it remembers is as old as
//! the day it was lost, and it must not say that it has stopped at a clock that its servers have long had.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::types::WorkerId;

/// By worker that is lost, who stands in for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandIns(BTreeMap<WorkerId, WorkerId>);

impl StandIns {
    /// Has one of these stand in for a worker: of those that do least for others the first. Where there is none, whoever
    /// did so before still does.
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

    /// A worker is back; answers who stood in for it.
    pub fn dismiss(&mut self, back: WorkerId) -> Option<WorkerId> {
        self.0.remove(&back)
    }

    /// Who stands in for a worker, if somebody does.
    pub fn of(&self, lost: WorkerId) -> Option<WorkerId> {
        self.0.get(&lost).copied()
    }

    /// For whom a worker stands in.
    pub fn lost_to(&self, worker: WorkerId) -> BTreeSet<WorkerId> {
        self.iter().filter(|(_, own)| *own == worker).map(|(lost, _)| lost).collect()
    }

    /// Every lost worker, with who stands in for it.
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
        // Appointed anew, it no longer counts for the one before.
        check(4, &[1, 2], Some(1));
        check(7, &[], None);
        check(6, &[], None);
        assert_eq!(stand_ins.lost_to(worker(1)), [worker(4), worker(6)].into());
        assert_eq!(stand_ins.dismiss(worker(4)), Some(worker(1)));
        assert_eq!((stand_ins.dismiss(worker(4)), stand_ins.of(worker(4))), (None, None));
    }
}
