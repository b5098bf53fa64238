//! A worker's part in evaluations: the copy of its data center on its own examples, beside its iterations.
//!
//! Servers of the data center send the copy, shard by shard under a ticket, and the sums go to the coordinator. So neither
//! examples nor copies leave the data center.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::blocking::beside;
use crate::cluster::Blueprint;
use crate::digest::digest;
use crate::message_of;
use crate::real::server::mirrors::Addresses;
use gaia_core::application::{Application, ApplicationError, EvaluationSums};
use gaia_core::types::{Model, ShardId, ShardLayout, WorkerId};

/// The evaluations of one worker.
pub(in crate::real) struct Evaluating {
    application: Arc<dyn Application>,
    layouts: Vec<ShardLayout>,
    /// The number of the worker in the whole run.
    worker: usize,
    collecting: Option<Collecting>,
    running: Option<JoinHandle<(Evaluated, Model)>>,
    /// The copy of the latest evaluation. That of the end of the run is the final model.
    latest: Option<Model>,
}

/// The copy of an evaluation, of which shards are missing.
struct Collecting {
    ticket: u64,
    model: Model,
    missing: BTreeSet<ShardId>,
}

/// What a worker has found, the error of the application, or the message of a panic.
pub(super) struct Evaluated {
    pub(super) ticket: u64,
    pub(super) found: Result<Result<Found, ApplicationError>, String>,
}

/// The sums over the worker's examples, and a digest of the copy that they are of.
pub(super) type Found = (EvaluationSums, u64);

impl Evaluating {
    pub(in crate::real) fn new(
        application: Arc<dyn Application>,
        blueprint: &Blueprint<'_>,
        id: WorkerId,
    ) -> Self {
        let (layouts, worker) = (blueprint.layouts().to_vec(), blueprint.number_of(id));
        Self { application, layouts, worker, collecting: None, running: None, latest: None }
    }

    /// Adds the copy of a shard. After the last one of its ticket the evaluation starts, unless one is running: then it
    /// starts after that.
    ///
    /// # Errors
    /// The number of values that was expected, if there are others.
    pub(super) fn handle_copy(
        &mut self,
        shard: ShardId,
        ticket: u64,
        values: &[f32],
    ) -> Result<(), usize> {
        let layout = &self.layouts[shard.index()];
        if values.len() != layout.parameters() {
            return Err(layout.parameters());
        }
        if self.collecting.as_ref().is_none_or(|collecting| collecting.ticket < ticket) {
            let missing = self.layouts.iter().map(ShardLayout::shard).collect();
            let model = self.latest.take();
            let model = model.unwrap_or_else(|| Model::zeros(self.application.layout().clone()));
            self.collecting = Some(Collecting { ticket, model, missing });
        }

        if let Some(collecting) = &mut self.collecting
            && collecting.ticket == ticket
        {
            layout.copy_into(values, &mut collecting.model);
            collecting.missing.remove(&shard);
        }
        self.start();
        Ok(())
    }

    /// Evaluates the collected copy if it is whole.
    fn start(&mut self) {
        let is_whole = |collecting: &mut Collecting| collecting.missing.is_empty();
        if self.running.is_some() {
            return;
        }
        let Some(Collecting { ticket, model, .. }) = self.collecting.take_if(is_whole) else {
            return;
        };
        let (application, worker) = (self.application.clone(), self.worker);
        self.running = Some(beside(move || {
            let evaluate = || {
                let sums = application.sums(&model, worker..worker + 1)?;
                Ok((sums, digest(&model.values)))
            };
            let found = catch_unwind(AssertUnwindSafe(evaluate));
            (Evaluated { ticket, found: found.map_err(|panic| message_of(&*panic)) }, model)
        }));
    }

    /// Tells the application which data centers take part: those of the servers that have an address.
    pub(super) fn handle_data_centers(&self, addresses: &Addresses) {
        self.application.handle_data_centers(&addresses.keys().map(|server| server.dc).collect());
    }

    /// Hands the final model to the application: the copy of the evaluation at the end of the run.
    pub(super) fn finish(&mut self) {
        if let Some(model) = self.latest.take() {
            self.application.finish(&model, self.worker..self.worker + 1);
        }
    }

    /// Waits for the evaluation that is running. Waits forever if none is. Cancel safe.
    pub(super) async fn evaluated(&mut self) -> Evaluated {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let ran = running.await;
        let (evaluated, model) = ran.expect("an evaluation's panic is caught within it");
        (self.running, self.latest) = (None, Some(model));
        self.start();
        evaluated
    }
}
