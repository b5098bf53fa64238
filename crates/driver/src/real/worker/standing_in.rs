//! Stand-ins: the process of a worker also does the work of lost workers.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::watch;
use tokio::time::timeout;
use tracing::info;

use crate::blocking::in_place;
use crate::cluster::Blueprint;
use crate::cost::CostModel;
use crate::interrupted::Interrupted;
use crate::real::error::RealError;
use crate::real::node::context::NodeContext;
use crate::real::worker::evaluating::Evaluating;
use crate::real::worker::work;
use crate::real::{Exit, NodeConfig, SILENCE_MAX};
use gaia_config::{ComputeModel, Plan};
use gaia_core::application::Application;
use gaia_core::topology::Address;
use gaia_core::types::{NodeId, ShardLayout, WorkerId};
use gaia_core::worker::Worker;

/// The lost workers that this process stands in for. Dropping it ends their work at once.
pub(in crate::real) struct StandingIn {
    application: Arc<dyn Application>,
    /// `None` for a worker whose part in the run has ended.
    at_work: BTreeMap<WorkerId, Option<AtWork>>,
}

type AtWork = Pin<Box<dyn Future<Output = Result<Exit, RealError>>>>;

impl StandingIn {
    pub(in crate::real) fn new(application: Arc<dyn Application>) -> Self {
        Self { application, at_work: BTreeMap::new() }
    }

    /// Stands in for the workers that `lost` names, as it changes. `context` is that of a worker of their data
    /// center. Returns the first error.
    pub(in crate::real) async fn follow(
        &mut self,
        context: &NodeContext,
        blueprint: &Blueprint<'_>,
        coordinator: &Address,
        mut lost: watch::Receiver<BTreeSet<WorkerId>>,
    ) -> RealError {
        loop {
            let due = lost.borrow_and_update().clone();
            self.at_work.retain(|worker, _| {
                let stays = due.contains(worker);
                if !stays {
                    // A running iteration completes, and its result is dropped.
                    leave(context, *worker);
                }
                stays
            });
            for worker in due {
                self.at_work.entry(worker).or_insert_with(|| {
                    let machine = in_place(|| blueprint.worker(worker));
                    let evaluating = Evaluating::new(self.application.clone(), blueprint, worker);
                    let layouts = blueprint.layouts().to_vec();
                    Some(Box::pin(begin(
                        context.in_place_of(worker),
                        (machine, evaluating),
                        layouts,
                        coordinator.clone(),
                    )))
                });
            }
            tokio::select! {
                biased;
                changed = lost.changed() => changed.expect("the sender of lost workers outlives this"),
                failed = self.failed() => return failed,
            }
        }
    }

    /// Waits until all of them have received the end of the run, as the worker of this process has, for at most
    /// [`SILENCE_MAX`].
    pub(in crate::real) async fn finish(mut self) {
        let ended = poll_fn(|cx| {
            let failed = self.poll(cx).is_some();
            let over = failed || self.at_work.values().all(Option::is_none);
            if over { Poll::Ready(()) } else { Poll::Pending }
        });
        let _late = timeout(SILENCE_MAX, ended).await;
    }

    async fn failed(&mut self) -> RealError {
        poll_fn(|cx| self.poll(cx).map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Polls all workers, and returns the first error.
    fn poll(&mut self, cx: &mut Context<'_>) -> Option<RealError> {
        self.at_work.values_mut().find_map(|worker| {
            let Poll::Ready(ended) = worker.as_mut()?.as_mut().poll(cx) else { return None };
            *worker = None;
            ended.err()
        })
    }
}

async fn begin(
    context: NodeContext,
    machine: (Worker, Evaluating),
    layouts: Vec<ShardLayout>,
    coordinator: Address,
) -> Result<Exit, RealError> {
    // No state is kept, because servers know the progress of the worker.
    let (state_dir, interrupted) = (None, Interrupted(None));
    let stands_in_for = watch::Sender::default();
    let model_keeper = None;
    let node_config =
        NodeConfig { coordinator, state_dir, model_keeper, interrupted, stands_in_for };
    let cost = cost_of(&context.run_context.plan);
    work(context, machine, layouts, &node_config, cost, None).await
}

/// The cost model of iterations, if the run file sets one.
pub(in crate::real) fn cost_of(plan: &Plan) -> Option<CostModel> {
    let charged = plan.compute.model == ComputeModel::Cost;
    charged.then(|| CostModel::new(&plan.compute, plan.topology.workers(), plan.seed))
}

/// Ends the work for a worker.
fn leave(context: &NodeContext, back: WorkerId) {
    let (run_context, node) = (&context.run_context, NodeId::Worker(back));
    run_context.telemetry.leave(&run_context.label(node), &run_context.plan.name);
    info!("{} no longer stands in for {}", context.name(), run_context.name(node));
}
