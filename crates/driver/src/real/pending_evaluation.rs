//! An evaluation under way: copies come in from all servers, then they are judged beside the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::environment::beside;
use super::error::RealError;
use crate::judge::{Verdict, judge_values};
use crate::message_of;
use crate::run_loop::Evaluation;
use gaia_core::application::Application;
use gaia_core::types::{DcId, ServerId, ShardLayout};

/// Copies as they were at some time, or what they are worth.
pub(super) struct PendingEvaluation {
    pub(super) ticket: u64,
    pub(super) evaluation: Evaluation,
    copies: BTreeMap<ServerId, Vec<f32>>,
    verdict: Option<JoinHandle<(Verdict, Copies)>>,
}

/// By data center of those that are judged, then shard.
pub(super) type Copies = Vec<Vec<Vec<f32>>>;

impl PendingEvaluation {
    /// Copies under this ticket, of what holds now.
    pub(super) fn new(ticket: u64, evaluation: Evaluation) -> Self {
        Self { ticket, evaluation, copies: BTreeMap::new(), verdict: None }
    }

    /// Whether the copy of a server has yet to come.
    pub(super) fn awaits(&self, server: ServerId) -> bool {
        self.needs(server.dc) && !self.copies.contains_key(&server)
    }

    /// Whether it needs the copy of a data center, which has not come, or not all of it.
    pub(super) fn needs(&self, dc: DcId) -> bool {
        let is_judged = self.evaluation.clocks.iter().any(|(judged, _)| *judged == dc);
        is_judged && self.verdict.is_none()
    }

    /// Takes a server's copy; with the last they go to the judge.
    pub(super) fn take(
        &mut self,
        server: ServerId,
        values: Vec<f32>,
        layouts: &[ShardLayout],
        application: &Arc<dyn Application>,
    ) {
        if !self.awaits(server) {
            return;
        }
        self.copies.insert(server, values);
        let (shards, judged) = (layouts.len(), self.evaluation.clocks.len());

        if self.copies.len() < judged * shards {
            return;
        }
        let mut all = std::mem::take(&mut self.copies).into_values();
        let copy = |_| all.by_ref().take(shards).collect();
        let copies: Copies = (0..judged).map(copy).collect();
        let (layouts, application) = (layouts.to_vec(), application.clone());

        self.verdict =
            Some(beside(move || (judge_values(&copies, &layouts, &application), copies)));
    }
}

/// Waits for the judge; for ever where nothing is at the judge's.
pub(super) async fn judged(
    pending_evaluation: &mut Option<PendingEvaluation>,
) -> Result<(Verdict, Copies), RealError> {
    match pending_evaluation
        .as_mut()
        .and_then(|pending_evaluation| pending_evaluation.verdict.as_mut())
    {
        Some(verdict) => verdict.await.map_err(|error| RealError::Panicked {
            part: "the evaluation".into(),
            message: error
                .try_into_panic()
                .map_or_else(|error| error.to_string(), |panic| message_of(&*panic)),
        }),
        None => std::future::pending().await,
    }
}
