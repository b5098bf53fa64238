//! Evaluations beside training: data centers send their copies, and a thread of its own evaluates them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::blocking::beside;
use crate::copies::{CopyEvaluations, EvaluationData, evaluate_values};
use crate::message_of;
use crate::run_loop::{Evaluation, Evaluations};
use gaia_core::application::Application;
use gaia_core::types::{DcId, ServerId, ShardLayout};

/// The evaluations of a run.
pub(super) struct Evaluating {
    pub(super) evaluations: Evaluations<ServerId, Vec<f32>>,
    layouts: Vec<ShardLayout>,
    application: Arc<dyn Application>,
    data: EvaluationData,
    results: Option<JoinHandle<CopyEvaluations>>,
}

impl Evaluating {
    pub(super) fn new(
        layouts: Vec<ShardLayout>,
        application: Arc<dyn Application>,
        data: EvaluationData,
    ) -> Self {
        Self { evaluations: Evaluations::default(), layouts, application, data, results: None }
    }

    /// Begins an evaluation of copies that the caller requests under this ticket.
    pub(super) fn begin(&mut self, ticket: u64, evaluation: Evaluation) {
        let shards = self.layouts.iter().map(ShardLayout::shard);
        let servers: BTreeSet<ServerId> = evaluation
            .dcs()
            .into_iter()
            .flat_map(|dc| shards.clone().map(move |shard| ServerId { dc, shard }))
            .collect();
        self.evaluations.begin(ticket, evaluation, servers);
    }

    /// Adds the copy of a server. After the last one the evaluation starts.
    pub(super) fn handle_copy(&mut self, server: ServerId, ticket: u64, values: Vec<f32>) {
        self.evaluations.handle_part(server, ticket, values);
        let Some((evaluation, copies)) = self.evaluations.take_parts() else { return };

        let mut all = copies.into_values();
        let shards = self.layouts.len();
        let copies: Vec<(DcId, Vec<Vec<f32>>)> = evaluation
            .dcs()
            .into_iter()
            .map(|dc| (dc, all.by_ref().take(shards).collect()))
            .collect();
        let (layouts, application) = (self.layouts.clone(), self.application.clone());
        let data = self.data.clone();
        self.results =
            Some(beside(move || evaluate_values(&copies, &layouts, &application, &data)));
    }

    /// Waits for the results. Waits forever if no copies are being evaluated. Cancel safe.
    ///
    /// # Errors
    /// The message of a panic in the evaluation.
    pub(super) async fn evaluated(&mut self) -> Result<(Evaluation, CopyEvaluations), String> {
        let Some(results) = &mut self.results else { return std::future::pending().await };
        let results = results.await;

        self.results = None;
        let evaluation = self.evaluations.finish();
        match results {
            Ok(results) => Ok((evaluation, results)),
            Err(error) => Err(error
                .try_into_panic()
                .map_or_else(|error| error.to_string(), |panic| message_of(&*panic))),
        }
    }
}
