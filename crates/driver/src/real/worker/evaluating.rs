//! A worker's part in evaluations: the copy of its data center on its own examples, beside its iterations.
//!
//! Servers of the data center send the copy, shard by shard under a ticket, and the sums go to the coordinator. So neither
//! examples nor copies leave the data center. Of sparse tables they send the rows that the worker has named, and a digest of
//! all, so that data centers can still be compared.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::blocking::beside;
use crate::cluster::Blueprint;
use crate::digest::{digest, digest_of_dense, digest_of_sparse};
use crate::message_of;
use crate::real::server::mirrors::Addresses;
use gaia_core::application::{Application, ApplicationError, EvaluationSums};
use gaia_core::store::ShardRows;
use gaia_core::types::{Model, RowSet, ShardId, ShardLayout, WorkerId};

/// The evaluations of one worker.
pub(in crate::real) struct Evaluating {
    application: Arc<dyn Application>,
    layouts: Vec<ShardLayout>,
    /// The number of the worker in the whole run.
    worker: usize,
    /// The rows that evaluations read, and those of each shard.
    rows: RowSet,
    rows_of_shards: Vec<ShardRows>,
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
    /// By shard: the digests of sparse tables, of which the worker has not all rows.
    sparse: Vec<u64>,
}

/// The copy of a shard for an evaluation.
pub(in crate::real) enum ShardCopy {
    /// All values, from the server in this process.
    Whole(Arc<[f32]>),
    /// The rows that the worker evaluates, and the digest of the shard's sparse tables.
    Rows { values: Vec<f32>, sparse: u64 },
}

/// What a worker has found, the error of the application, or the message of a panic.
pub(super) struct Evaluated {
    pub(super) ticket: u64,
    pub(super) found: Result<Result<Found, ApplicationError>, String>,
}

/// The sums over the worker's examples, and a digest of the copy that they are of.
pub(super) type Found = (EvaluationSums, u64);

impl ShardCopy {
    /// The number of values.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(values) => values.len(),
            Self::Rows { values, .. } => values.len(),
        }
    }
}

impl Evaluating {
    pub(in crate::real) fn new(
        application: Arc<dyn Application>,
        blueprint: &Blueprint<'_>,
        id: WorkerId,
    ) -> Self {
        let (layouts, worker) = (blueprint.layouts().to_vec(), blueprint.number_of(id));
        let rows = application.evaluated_rows(worker);
        let rows_of_shards = layouts.iter().map(|layout| ShardRows::of(&rows, layout)).collect();
        Self {
            application,
            layouts,
            worker,
            rows,
            rows_of_shards,
            collecting: None,
            running: None,
            latest: None,
        }
    }

    /// The rows of a shard that evaluations read. `None` where they read all, since no table is sparse.
    pub(super) fn rows_of(&self, shard: ShardId) -> Option<&ShardRows> {
        let is_partial = self.application.layout().has_sparse_tables();
        is_partial.then(|| &self.rows_of_shards[shard.index()])
    }

    /// By shard, the rows of copies that evaluations read.
    pub(super) fn copy_rows(&self) -> &[ShardRows] {
        &self.rows_of_shards
    }

    /// Adds the copy of a shard. After the last one of its ticket the evaluation starts, unless one is running: then it
    /// starts after that.
    ///
    /// # Panics
    /// Unless the copy has all values of the shard, or those of the rows that evaluations read ([`Self::copy_rows`]).
    pub(super) fn handle_copy(&mut self, shard: ShardId, ticket: u64, copy: &ShardCopy) {
        let (layout, rows) = (&self.layouts[shard.index()], &self.rows_of_shards[shard.index()]);
        let expected = match copy {
            ShardCopy::Whole(_) => layout.parameters(),
            ShardCopy::Rows { .. } => rows.parameters(layout),
        };
        assert_eq!(copy.len(), expected, "copies are checked where they are received");
        if self.collecting.as_ref().is_none_or(|collecting| collecting.ticket < ticket) {
            let missing = self.layouts.iter().map(ShardLayout::shard).collect();
            let model = self.latest.take().unwrap_or_else(|| {
                let mut model = Model::without_sparse_rows(self.application.layout().clone());
                model.hold(&self.rows);
                model
            });
            let sparse = vec![0; self.layouts.len()];
            self.collecting = Some(Collecting { ticket, model, missing, sparse });
        }

        if let Some(collecting) = &mut self.collecting
            && collecting.ticket == ticket
        {
            let model = &mut collecting.model;
            let sparse = &mut collecting.sparse[shard.index()];
            match copy {
                ShardCopy::Whole(values) if model.is_whole() => layout.copy_into(values, model),
                ShardCopy::Whole(values) => {
                    rows.scatter(&rows.of_shard(values, layout), layout, model);
                    *sparse = digest_of_sparse(layout, values);
                }
                ShardCopy::Rows { values, sparse: found } => {
                    rows.scatter(values, layout, model);
                    *sparse = *found;
                }
            }
            collecting.missing.remove(&shard);
        }
        self.start();
    }

    /// Evaluates the collected copy if it is whole.
    fn start(&mut self) {
        let is_whole = |collecting: &mut Collecting| collecting.missing.is_empty();
        if self.running.is_some() {
            return;
        }
        let Some(Collecting { ticket, model, sparse, .. }) = self.collecting.take_if(is_whole)
        else {
            return;
        };
        let (application, worker) = (self.application.clone(), self.worker);
        self.running = Some(beside(move || {
            let evaluate = || {
                let sums = application.sums(&model, worker..worker + 1)?;
                let digest = match model.is_whole() {
                    true => digest(&model.values),
                    false => sparse.iter().fold(digest_of_dense(&model), |folded, sparse| {
                        folded.rotate_left(5) ^ sparse
                    }),
                };
                Ok((sums, digest))
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
