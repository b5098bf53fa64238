//! Workers whose training diverges: what they send, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Done, Schedule};
use crate::bugs::Bug;
use crate::checkers::Seen;
use crate::cluster::undone::Undone;
use gaia_core::coordinator::Coordinator;
use gaia_core::node::WorkerMessage;
use gaia_core::server::Divergence;
use gaia_core::store::ShardDeltas;
use gaia_core::types::limits::CHANGE_MAX;
use gaia_core::types::{Clock, Deltas, ServerId, ShardId, ShardLayout, WorkerId};

/// Which updates have diverged. A worker that sends one again sends it as it was.
#[derive(Debug, Default)]
pub(super) struct Diverging {
    /// The workers whose next update diverges.
    due: BTreeSet<WorkerId>,
    updates: BTreeSet<(WorkerId, Clock)>,
    /// The clock of each worker's latest update that has not diverged. Other shards may not have received it yet.
    sound: BTreeMap<WorkerId, Clock>,
}

impl Diverging {
    /// A worker's next update diverges.
    pub(super) fn begin(&mut self, worker: WorkerId) {
        self.due.insert(worker);
    }

    /// Whether a worker's update of a clock diverges. All parts of an update do, or none.
    fn diverges(&mut self, worker: WorkerId, clock: Clock) -> bool {
        let latest = self.sound.get(&worker).copied();
        if self.due.contains(&worker) && latest.is_none_or(|latest| latest < clock) {
            self.due.remove(&worker);
            self.updates.insert((worker, clock));
        }
        let diverges = self.updates.contains(&(worker, clock));
        if !diverges {
            self.sound.insert(worker, latest.map_or(clock, |latest| latest.max(clock)));
        }
        diverges
    }
}

impl Schedule<'_> {
    /// The message that leaves a worker in place of its own: an update in which one change of each table has diverged,
    /// if it is due.
    pub(super) fn on_worker_message(
        &mut self,
        worker: WorkerId,
        shard: ShardId,
        message: WorkerMessage,
    ) -> WorkerMessage {
        match message {
            WorkerMessage::Update { clock, at, deltas, probed, learning_rate_factor, keeps }
                if self.diverging.diverges(worker, clock) =>
            {
                let value = DIVERGED[clock.0 as usize % DIVERGED.len()];
                let layout = self.nodes.layout(shard);
                let deltas = with_values(
                    &deltas,
                    layout,
                    |place, before| {
                        if place == 0 { value } else { before }
                    },
                );
                WorkerMessage::Update { clock, at, deltas, probed, learning_rate_factor, keeps }
            }
            message => message,
        }
    }

    /// The message that a server handles in place of a worker's.
    pub(super) fn accepted(&self, shard: ShardId, message: WorkerMessage) -> WorkerMessage {
        match message {
            WorkerMessage::Update { clock, at, deltas, probed, learning_rate_factor, keeps }
                if self.fault_injector.has(Bug::AcceptsDiverged) =>
            {
                let deltas = with_values(&deltas, self.nodes.layout(shard), |_, value| {
                    if is_sound(value) { value } else { 0.0 }
                });
                WorkerMessage::Update { clock, at, deltas, probed, learning_rate_factor, keeps }
            }
            message => message,
        }
    }

    /// Passes a worker's update to the checkers. One that has diverged is an update without changes.
    pub(super) fn see_updated(
        &mut self,
        server: ServerId,
        worker: WorkerId,
        (clock, at): (Clock, Clock),
        deltas: &ShardDeltas,
    ) -> Done {
        let mut values = deltas.tables().flat_map(|(_, changes)| &changes.values);
        let deltas = if values.all(|value| is_sound(*value)) {
            self.applied(deltas.clone())
        } else {
            self.see(Seen::Rejected { server, worker, clock: at })?;
            self.recorder(server, Undone::Rejected { server, worker, clock: at });
            with_values(deltas, self.nodes.layout(server.shard), |_, _| 0.0)
        };
        self.see(Seen::Updated { server, worker, at, deltas: &deltas })?;
        self.recorder(server, Undone::Updated { server, worker, clock, deltas });
        Ok(())
    }

    /// A server reports a diverged update to the coordinator.
    pub(super) fn report_diverged(&mut self, server: ServerId, found: &Divergence) -> Done {
        self.see(Seen::Diverged { server, found })?;
        self.inform(Coordinator::handle_diverged);
        Ok(())
    }
}

fn is_sound(value: f32) -> bool {
    value.abs() <= CHANGE_MAX
}

/// Deltas with other values, each by its position within its table.
fn with_values(
    deltas: &ShardDeltas,
    layout: &ShardLayout,
    value: impl Fn(usize, f32) -> f32,
) -> ShardDeltas {
    let mut tables: Vec<_> = deltas.tables().map(|(_, table)| table.clone()).collect();
    for table in &mut tables {
        let values = table.values.iter_mut().enumerate();
        values.for_each(|(place, of)| *of = value(place, *of));
    }
    let deltas = ShardDeltas::checked(Deltas { tables }, layout);
    deltas.expect("their rows are those of deltas that fit the shard")
}

const DIVERGED: [f32; 4] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38];
