//! Evaluations: which copies are evaluated, at which time, and what follows from the results.
//!
//! If nodes are tasks or processes, evaluations run concurrently with training, one at a time. If an evaluation takes
//! longer than the clocks between two of them, fewer copies are evaluated.

use std::collections::{BTreeMap, BTreeSet};

use crate::recorder::AllLinkCounters;
use gaia_core::coordinator::Coordinator;
use gaia_core::types::{Clock, DcId, Instant};

/// The circumstances of an evaluation: when its copies are taken, and of which data centers.
#[derive(Debug)]
pub(crate) struct Evaluation {
    /// When the copies are taken.
    pub(crate) at: Instant,
    /// The clock that every copy holds.
    pub(crate) clock: Clock,
    /// The data centers whose copies are evaluated, each with the clock that it has finished.
    pub(crate) clocks: Vec<(DcId, Clock)>,
    /// The traffic of links so far.
    pub(crate) link_counters: AllLinkCounters,
}

/// The evaluations of a run, of which nodes `N` send the parts `P`: copies, or what they found of their own.
pub(crate) struct Evaluations<N, P> {
    /// The clock of the latest evaluation that was requested while another was in progress. It replaces earlier
    /// requests, so that a slow evaluation leads to fewer copies and not to old ones.
    due: Option<Clock>,
    at_work: Option<AtWork<N, P>>,
}

/// An evaluation whose parts are collected under a ticket.
struct AtWork<N, P> {
    ticket: u64,
    evaluation: Evaluation,
    /// The nodes whose parts are not here.
    missing: BTreeSet<N>,
    parts: BTreeMap<N, P>,
}

impl Evaluation {
    /// An evaluation of the copies that the coordinator wants to evaluate.
    pub(crate) fn new(
        at: Instant,
        clock: Clock,
        coordinator: &Coordinator,
        link_counters: AllLinkCounters,
    ) -> Self {
        Self { at, clock, clocks: coordinator.evaluated(), link_counters }
    }

    /// The data centers whose copies are evaluated.
    pub(crate) fn dcs(&self) -> Vec<DcId> {
        self.clocks.iter().map(|(dc, _)| *dc).collect()
    }
}

impl<N, P> Default for Evaluations<N, P> {
    fn default() -> Self {
        Self { due: None, at_work: None }
    }
}

impl<N: Copy + Ord, P> Evaluations<N, P> {
    /// Requests an evaluation of this clock. Replaces an earlier request that has not begun.
    pub(crate) fn request(&mut self, clock: Clock) {
        self.due = Some(clock);
    }

    /// The clock of the evaluation to begin, if one is requested and none is in progress.
    pub(crate) fn poll_due(&mut self) -> Option<Clock> {
        if self.at_work.is_some() {
            return None;
        }
        self.due.take()
    }

    /// Begins an evaluation. The caller requests parts from these nodes under this ticket.
    pub(crate) fn begin(&mut self, ticket: u64, evaluation: Evaluation, nodes: BTreeSet<N>) {
        assert!(self.at_work.is_none(), "one evaluation is at work at a time");
        let (missing, parts) = (nodes, BTreeMap::new());
        self.at_work = Some(AtWork { ticket, evaluation, missing, parts });
    }

    /// Adds the part of a node. A part that is not awaited is ignored.
    pub(crate) fn handle_part(&mut self, node: N, ticket: u64, part: P) {
        if self.awaits(node) != Some(ticket) {
            return;
        }
        let Some(at_work) = &mut self.at_work else { return };
        at_work.missing.remove(&node);
        at_work.parts.insert(node, part);
    }

    /// Takes the parts of all nodes, in the order of the nodes, once none is missing.
    pub(crate) fn take_parts(&mut self) -> Option<(&Evaluation, BTreeMap<N, P>)> {
        let at_work = self.at_work.as_mut()?;
        if !at_work.missing.is_empty() || at_work.parts.is_empty() {
            return None;
        }
        Some((&at_work.evaluation, std::mem::take(&mut at_work.parts)))
    }

    /// Ends the evaluation in progress.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn finish(&mut self) -> Evaluation {
        self.at_work.take().expect("an evaluation is at work").evaluation
    }

    /// Handles a data center that has left. An evaluation of its copy that still lacks a part is requested again, without
    /// it.
    pub(crate) fn handle_left(&mut self, dc: DcId) {
        let needs = |at_work: &mut AtWork<N, P>| {
            at_work.evaluation.dcs().contains(&dc) && !at_work.missing.is_empty()
        };
        if let Some(at_work) = self.at_work.take_if(needs) {
            self.due = Some(at_work.evaluation.clock).max(self.due);
        }
    }

    /// The ticket under which the part of a node is expected, if it is.
    pub(crate) fn awaits(&self, node: N) -> Option<u64> {
        let at_work = self.at_work.as_ref()?;
        at_work.missing.contains(&node).then_some(at_work.ticket)
    }

    /// The ticket of the evaluation in progress.
    pub(crate) fn ticket(&self) -> Option<u64> {
        self.at_work.as_ref().map(|at_work| at_work.ticket)
    }

    /// Whether an evaluation is in progress.
    pub(crate) fn is_at_work(&self) -> bool {
        self.at_work.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_core::types::{ServerId, ShardId};

    const A: ServerId = ServerId { dc: DcId(0), shard: ShardId(0) };
    const B: ServerId = ServerId { dc: DcId(1), shard: ShardId(0) };

    /// An evaluation of the copies of these servers.
    fn begin(evaluations: &mut Evaluations<ServerId, char>, ticket: u64, of: &[ServerId]) {
        let clocks = of.iter().map(|server| (server.dc, Clock(3))).collect();
        let (at, clock, link_counters) = (Instant::ZERO, Clock(3), Vec::new());
        let evaluation = Evaluation { at, clock, clocks, link_counters };
        evaluations.begin(ticket, evaluation, of.iter().copied().collect());
    }

    #[test]
    fn parts_are_taken_once_all_are_here_under_the_ticket_of_their_evaluation() {
        let mut evaluations = Evaluations::default();
        evaluations.request(Clock(3));
        assert_eq!(evaluations.poll_due(), Some(Clock(3)));
        begin(&mut evaluations, 7, &[A, B]);

        evaluations.handle_part(B, 6, 'x');
        assert_eq!(evaluations.awaits(B), Some(7), "a part of an evaluation before");
        evaluations.handle_part(B, 7, 'b');
        evaluations.handle_part(B, 7, 'y');
        assert_eq!((evaluations.awaits(B), evaluations.awaits(A)), (None, Some(7)));
        assert!(evaluations.take_parts().is_none());

        evaluations.handle_part(A, 7, 'a');
        let (_, parts) = evaluations.take_parts().unwrap();
        assert_eq!(parts.into_values().collect::<String>(), "ab");
        assert!(evaluations.take_parts().is_none() && evaluations.is_at_work());
        assert_eq!(evaluations.finish().clock, Clock(3));
        assert!(!evaluations.is_at_work());
    }

    #[test]
    fn the_latest_request_replaces_those_that_waited_for_the_evaluation_at_work() {
        let mut evaluations = Evaluations::default();
        begin(&mut evaluations, 1, &[A, B]);
        evaluations.request(Clock(6));
        evaluations.request(Clock(9));
        assert_eq!(evaluations.poll_due(), None, "one is at work");

        evaluations.finish();
        assert_eq!(evaluations.poll_due(), Some(Clock(9)));
        assert_eq!(evaluations.poll_due(), None);
    }

    #[test]
    fn an_evaluation_begins_again_where_a_data_center_leaves_whose_part_it_needs() {
        let mut evaluations = Evaluations::default();
        begin(&mut evaluations, 1, &[A]);
        evaluations.handle_left(B.dc);
        assert_eq!((evaluations.is_at_work(), evaluations.poll_due()), (true, None));

        evaluations.handle_left(A.dc);
        assert_eq!((evaluations.is_at_work(), evaluations.poll_due()), (false, Some(Clock(3))));
    }
}
