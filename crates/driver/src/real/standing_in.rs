//! A worker's process that does the work of others, which are lost, beside its own.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;
use tokio::time::timeout;
use tracing::info;

use super::error::RealError;
use super::ground::in_place;
use super::site::Seat;
use super::worker::work;
use super::{Errand, Exit, Interrupted, SILENCE_MAX};
use crate::cluster::Blueprint;
use crate::cost::CostModel;
use gaia_config::{ComputeModel, Plan};
use gaia_core::topology::Address;
use gaia_core::types::{NodeId, ShardLayout, WorkerId};
use gaia_core::worker::Worker;

/// The lost workers whose work is done here. Dropped, it ends at once.
#[derive(Default)]
pub(super) struct StandingIn {
    /// Nothing where one has ended with the run.
    at_work: BTreeMap<WorkerId, Option<AtWork>>,
}

type AtWork = Pin<Box<dyn Future<Output = Result<Exit, RealError>>>>;

impl StandingIn {
    /// Stands in for the workers that `lost` names at any time, from the seat of one of their data center. Ends with
    /// what fails.
    pub(super) async fn follow(
        &mut self,
        seat: &Seat,
        blueprint: &Blueprint<'_>,
        coordinator: &Address,
        mut lost: watch::Receiver<BTreeSet<WorkerId>>,
    ) -> RealError {
        loop {
            let due = lost.borrow_and_update().clone();
            self.at_work.retain(|worker, _| {
                let stays = due.contains(worker);
                if !stays {
                    // An iteration that is at work runs to its end, and changes nothing.
                    leave(seat, *worker);
                }
                stays
            });
            for worker in due {
                self.at_work.entry(worker).or_insert_with(|| {
                    let machine = in_place(|| blueprint.worker(worker));
                    let layouts = blueprint.layouts().to_vec();
                    Some(Box::pin(begin(
                        seat.in_place_of(worker),
                        machine,
                        layouts,
                        coordinator.clone(),
                    )))
                });
            }
            tokio::select! {
                biased;
                changed = lost.changed() => changed.expect("whoever says for whom outlives this"),
                failed = self.failed() => return failed,
            }
        }
    }

    /// Waits until all have heard that the run is over, as the worker of this process has; not for long.
    pub(super) async fn finish(mut self) {
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

    /// Goes on with everyone's work, and says what has failed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Option<RealError> {
        self.at_work.values_mut().find_map(|worker| {
            let Poll::Ready(ended) = worker.as_mut()?.as_mut().poll(cx) else { return None };
            *worker = None;
            ended.err()
        })
    }
}

async fn begin(
    seat: Seat,
    machine: Worker,
    layouts: Vec<ShardLayout>,
    coordinator: Address,
) -> Result<Exit, RealError> {
    // Nothing of this is kept: servers know where the worker is.
    let (shelf, interrupted) = (None, Interrupted(None));
    let stands_in_for = watch::Sender::default();
    let errand = Errand { coordinator, shelf, interrupted, stands_in_for };
    let cost = cost_of(&seat.site.plan);
    work(seat, machine, layouts, &errand, cost, None).await
}

/// What iterations cost, where the run file says so.
pub(super) fn cost_of(plan: &Plan) -> Option<CostModel> {
    let charged = plan.compute.model == ComputeModel::Cost;
    charged.then(|| CostModel::new(&plan.compute, plan.topology.workers(), plan.seed))
}

/// A worker's work is no longer done here.
fn leave(seat: &Seat, back: WorkerId) {
    let (site, node) = (&seat.site, NodeId::Worker(back));
    site.telemetry.leave(&site.label(node), &site.plan.name);
    info!("{} no longer stands in for {}", seat.name(), site.name(node));
}
