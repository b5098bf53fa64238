//! Which nodes are lost, and since when.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::types::{Instant, NodeId};

/// The nodes that have lost their connection to the coordinator, each with the time of the loss.
#[derive(Clone, Debug, Default)]
pub(super) struct Absences(BTreeMap<NodeId, Instant>);

impl Absences {
    /// Marks a node as lost since `now`.
    pub(super) fn lose(&mut self, now: Instant, node: NodeId) {
        self.0.insert(node, now);
    }

    /// Ends the absence of a node: it is connected again, or the coordinator does not wait for it.
    pub(super) fn end(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// The first node, by its id, that has been lost for longer than `after`.
    pub(super) fn longer_than(&self, now: Instant, after: Duration) -> Option<NodeId> {
        self.0.iter().find(|(_, since)| now.since(**since) > after).map(|(node, _)| *node)
    }

    /// All nodes that have been lost for `after` or longer.
    pub(super) fn at_least(
        &self,
        now: Instant,
        after: Duration,
    ) -> impl Iterator<Item = NodeId> + '_ {
        let lost = self.0.iter().filter(move |(_, since)| now.since(**since) >= after);
        lost.map(|(node, _)| *node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DcId, WorkerId};

    #[test]
    fn a_node_is_given_up_only_after_its_time_and_not_once_it_is_back() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let node = NodeId::Worker(WorkerId { dc: DcId(0), index: 0 });
        let after = Duration::from_secs(10);
        let mut absences = Absences::default();
        absences.lose(at(5), node);

        assert_eq!(absences.longer_than(at(15), after), None);
        assert_eq!(absences.at_least(at(15), after).next(), Some(node));
        assert_eq!(absences.longer_than(at(16), after), Some(node));

        absences.end(node);
        assert_eq!(absences.longer_than(at(99), after), None);
    }
}
