//! Evaluations beside training: data centers send their copies, and a thread of its own evaluates them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::blocking::beside;
use crate::copies::{CopyEvaluations, EvaluationData, assemble, evaluate_values};
use crate::parting::Look;
use crate::run_loop::{Evaluation, Evaluations};
use crate::{RunError, message_of};
use gaia_core::application::{Application, ApplicationError};
use gaia_core::types::{DcId, Model, ServerId, ShardLayout};

/// The evaluations of a run.
pub(super) struct Evaluating {
    pub(super) evaluations: Evaluations<ServerId, Vec<f32>>,
    layouts: Vec<ShardLayout>,
    application: Arc<dyn Application>,
    data: EvaluationData,
    /// Whether the model is to be returned with the results of the evaluation in progress.
    with_model: bool,
    /// How the copies of the evaluation in progress are looked at, if that is due.
    look: Option<Look>,
    results: Option<JoinHandle<Result<Evaluated, ApplicationError>>>,
}

/// The results of an evaluation, and the first copy if it was asked for.
pub(super) type Evaluated = (CopyEvaluations, Option<Model>);

impl Evaluating {
    pub(super) fn new(
        layouts: Vec<ShardLayout>,
        application: Arc<dyn Application>,
        data: EvaluationData,
    ) -> Self {
        let evaluations = Evaluations::default();
        let (with_model, look, results) = (false, None, None);
        Self { evaluations, layouts, application, data, with_model, look, results }
    }

    /// Begins an evaluation of copies that the caller requests under this ticket. `with_model` asks for the first of them,
    /// `look` whether they part.
    pub(super) fn begin(
        &mut self,
        ticket: u64,
        evaluation: Evaluation,
        with_model: bool,
        look: Option<Look>,
    ) {
        (self.with_model, self.look) = (with_model, look);
        let shards = self.layouts.iter().map(ShardLayout::shard);
        let servers: BTreeSet<ServerId> = evaluation
            .dcs()
            .into_iter()
            .flat_map(|dc| shards.clone().map(move |shard| ServerId { dc, shard }))
            .collect();
        self.evaluations.begin(ticket, evaluation, servers);
    }

    pub(super) fn application(&self) -> &dyn Application {
        self.application.as_ref()
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
        let (data, with_model, look) = (self.data.clone(), self.with_model, self.look.take());
        self.results = Some(beside(move || {
            let results = evaluate_values(&copies, &layouts, &application, &data, look.as_ref())?;
            let first = with_model.then(|| copies[0].1.iter().map(Vec::as_slice));
            Ok((results, first.map(|copy| assemble(layouts.iter().zip(copy), &application))))
        }));
    }

    /// Waits for the results. Waits forever if no copies are being evaluated. Cancel safe.
    ///
    /// # Errors
    /// [`RunError::Evaluation`], and [`RunError::Panicked`] where the evaluation has panicked.
    pub(super) async fn evaluated(&mut self) -> Result<(Evaluation, Evaluated), RunError> {
        let Some(results) = &mut self.results else { return std::future::pending().await };
        let results = results.await;

        self.results = None;
        let evaluation = self.evaluations.finish();
        match results {
            Ok(results) => Ok((evaluation, results.map_err(RunError::Evaluation)?)),
            Err(error) => {
                let part = "the evaluation".into();
                let message = error
                    .try_into_panic()
                    .map_or_else(|error| error.to_string(), |panic| message_of(&*panic));
                Err(RunError::Panicked { part, message })
            }
        }
    }
}
