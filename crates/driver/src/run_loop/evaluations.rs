//! Evaluations: which copies are evaluated, at which time, and what follows from the results.
//!
//! If copies must travel, between tasks or processes, evaluations run concurrently with training, one at a time. If
//! an evaluation takes longer than the clocks between two of them, fewer copies are evaluated.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::blocking::beside;
use crate::copies::{CopyEvaluations, evaluate_values};
use crate::message_of;
use crate::recorder::AllLinkCounters;
use gaia_core::application::Application;
use gaia_core::coordinator::Coordinator;
use gaia_core::types::{Clock, DcId, Instant, ServerId, ShardLayout};

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

/// An evaluation with its results.
pub(crate) struct Evaluated {
    pub(crate) evaluation: Evaluation,
    pub(crate) results: CopyEvaluations,
    pub(crate) copies: Copies,
}

/// Copies by data center, then shard. Only of data centers that are evaluated.
pub(crate) type Copies = Vec<Vec<Vec<f32>>>;

/// The evaluations of a run whose copies travel between tasks or processes.
pub(crate) struct Evaluations {
    layouts: Vec<ShardLayout>,
    application: Arc<dyn Application>,
    /// The clock of the latest evaluation that was requested while another was in progress. It replaces earlier
    /// requests, so that a slow evaluation leads to fewer copies and not to old ones.
    due: Option<Clock>,
    at_work: Option<AtWork>,
}

/// Copies that are collected under a ticket, and then evaluated.
struct AtWork {
    ticket: u64,
    evaluation: Evaluation,
    copies: BTreeMap<ServerId, Vec<f32>>,
    results: Option<JoinHandle<(CopyEvaluations, Copies)>>,
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

    /// Whether the copy of a data center is evaluated.
    pub(crate) fn is_of(&self, dc: DcId) -> bool {
        self.clocks.iter().any(|(evaluated, _)| *evaluated == dc)
    }
}

impl Evaluations {
    pub(crate) fn new(layouts: Vec<ShardLayout>, application: Arc<dyn Application>) -> Self {
        Self { layouts, application, due: None, at_work: None }
    }

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

    /// Begins an evaluation. The caller requests copies from the servers of its data centers under this ticket.
    pub(crate) fn begin(&mut self, ticket: u64, evaluation: Evaluation) {
        assert!(self.at_work.is_none(), "one evaluation is at work at a time");
        self.at_work = Some(AtWork { ticket, evaluation, copies: BTreeMap::new(), results: None });
    }

    /// Adds the copy of a server. After the last one the evaluation starts.
    pub(crate) fn handle_copy(&mut self, server: ServerId, ticket: u64, values: Vec<f32>) {
        if self.awaits(server) != Some(ticket) {
            return;
        }
        let at_work = self.at_work.as_mut().expect("a copy is awaited by an evaluation");
        at_work.copies.insert(server, values);
        let (shards, dcs) = (self.layouts.len(), at_work.evaluation.clocks.len());

        if at_work.copies.len() < dcs * shards {
            return;
        }
        let mut all = std::mem::take(&mut at_work.copies).into_values();
        let copies: Copies = (0..dcs).map(|_| all.by_ref().take(shards).collect()).collect();
        let (layouts, application) = (self.layouts.clone(), self.application.clone());

        at_work.results =
            Some(beside(move || (evaluate_values(&copies, &layouts, &application), copies)));
    }

    /// Handles a data center that has left. An evaluation that still needs its copy is requested again, without it.
    pub(crate) fn handle_left(&mut self, dc: DcId) {
        let needs =
            |at_work: &mut AtWork| at_work.evaluation.is_of(dc) && at_work.results.is_none();
        if let Some(at_work) = self.at_work.take_if(needs) {
            self.due = Some(at_work.evaluation.clock).max(self.due);
        }
    }

    /// The ticket under which the copy of a server is expected, if one is.
    pub(crate) fn awaits(&self, server: ServerId) -> Option<u64> {
        let at_work = self.at_work.as_ref()?;
        let is_evaluated = at_work.evaluation.is_of(server.dc) && at_work.results.is_none();
        (is_evaluated && !at_work.copies.contains_key(&server)).then_some(at_work.ticket)
    }

    /// Whether an evaluation is in progress.
    pub(crate) fn is_at_work(&self) -> bool {
        self.at_work.is_some()
    }

    /// Waits for the results. Waits forever if no copies are being evaluated. Cancel safe.
    ///
    /// # Errors
    /// The message of a panic in the evaluation.
    pub(crate) async fn evaluated(&mut self) -> Result<Evaluated, String> {
        let results = self.at_work.as_mut().and_then(|at_work| at_work.results.as_mut());
        let Some(results) = results else { return std::future::pending().await };
        let evaluated = results.await;

        let AtWork { evaluation, .. } = self.at_work.take().expect("copies are being evaluated");
        match evaluated {
            Ok((results, copies)) => Ok(Evaluated { evaluation, results, copies }),
            Err(error) => Err(error
                .try_into_panic()
                .map_or_else(|error| error.to_string(), |panic| message_of(&*panic))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_config::RunFile;
    use gaia_core::types::ShardId;
    use gaia_ml::apps::{AppConfig, MatrixFactorization};
    use gaia_ml::examples::Ratings;

    const RUN: &str = "name = \"r\"\n[app]\nkind = \"matrix-factorization\"\n\
        [sync.remote]\nmodel = \"bsp\"\n[stop]\nclocks = 1\n[topology]\nname = \"t\"\n\
        wan.bandwidth = \"1 Mbit/s\"\nwan.rtt = \"1 ms\"\n[[topology.data_center]]\nname = \"a\"\n";

    const A: ServerId = ServerId { dc: DcId(0), shard: ShardId(0) };
    const B: ServerId = ServerId { dc: DcId(1), shard: ShardId(0) };

    fn evaluations() -> Evaluations {
        let plan = RunFile::from_text("r", RUN, &[]).unwrap().plan().unwrap();
        let Some(AppConfig::MatrixFactorization(config)) = plan.app else { unreachable!() };
        let ratings =
            || Ratings { users: 1, items: 1, user: vec![0], item: vec![0], value: vec![1.0] };
        let parts = vec![Arc::from([0])];
        let application: Arc<dyn Application> =
            Arc::new(MatrixFactorization::new(config, ratings(), ratings(), parts, "one rating"));
        Evaluations::new(ShardLayout::all(application.layout(), 1), application)
    }

    /// An evaluation of the copies of these servers.
    fn evaluation(clock: u64, servers: &[ServerId]) -> Evaluation {
        let clocks = servers.iter().map(|server| (server.dc, Clock(clock))).collect();
        Evaluation { at: Instant::ZERO, clock: Clock(clock), clocks, link_counters: Vec::new() }
    }

    #[tokio::test]
    async fn copies_are_judged_once_all_are_here_under_the_ticket_of_their_evaluation() {
        let mut evaluations = evaluations();
        let parameters = evaluations.layouts[0].parameters();
        let values = || vec![0.5; parameters];
        evaluations.request(Clock(3));
        assert_eq!(evaluations.poll_due(), Some(Clock(3)));
        evaluations.begin(7, evaluation(3, &[A, B]));

        evaluations.handle_copy(A, 6, values());
        assert_eq!(evaluations.awaits(A), Some(7), "a copy for an evaluation before");
        evaluations.handle_copy(A, 7, values());
        assert_eq!((evaluations.awaits(A), evaluations.awaits(B)), (None, Some(7)));
        evaluations.handle_copy(B, 7, values());
        assert_eq!(evaluations.awaits(B), None);

        let evaluated = evaluations.evaluated().await.unwrap();
        assert_eq!(evaluated.evaluation.clock, Clock(3));
        assert_eq!((evaluated.results.evaluations.len(), evaluated.results.equal), (2, true));
        assert!(!evaluations.is_at_work());
    }

    #[test]
    fn the_latest_request_replaces_those_that_waited_for_the_evaluation_at_work() {
        let mut evaluations = evaluations();
        evaluations.begin(1, evaluation(3, &[A, B]));
        evaluations.request(Clock(6));
        evaluations.request(Clock(9));
        assert_eq!(evaluations.poll_due(), None, "one is at work");

        evaluations.at_work = None;
        assert_eq!(evaluations.poll_due(), Some(Clock(9)));
        assert_eq!(evaluations.poll_due(), None);
    }

    #[test]
    fn an_evaluation_begins_again_where_a_data_center_leaves_whose_copy_it_needs() {
        let mut evaluations = evaluations();
        evaluations.begin(1, evaluation(3, &[A]));
        evaluations.handle_left(B.dc);
        assert_eq!((evaluations.is_at_work(), evaluations.poll_due()), (true, None));

        evaluations.handle_left(A.dc);
        assert_eq!((evaluations.is_at_work(), evaluations.poll_due()), (false, Some(Clock(3))));
    }
}
