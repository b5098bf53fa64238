//! Saves a simulation between two events, and restores it.

use super::{Event, Simulation};
use crate::RunError;
use crate::cluster::Cluster;
use crate::copies::first_copy;
use crate::run_loop::RunMonitor;
use gaia_checkpoint::{Checkpoint, CheckpointError, ClockOf, Facts, LinkMark, Resumed};
use gaia_core::persist;
use gaia_core::types::{Clock, DcId, Persist, ServerId, State, WorkerId};

impl Simulation<'_> {
    /// A checkpoint with all state that does not follow from the plan.
    pub(super) fn checkpoint(&self, clock: Clock) -> Checkpoint {
        let facts = self.facts(clock);
        let model = first_copy(&self.cluster.servers, self.cluster.shards, self.application);
        Checkpoint { facts, model: Some(model), state: State::of(|walk| self.save(walk, ())) }
    }

    /// Resumes from a checkpoint. The observer receives the recorded evaluations again.
    pub(super) fn resume(&mut self, resumed: Resumed) -> Result<(), RunError> {
        let Resumed { path, state, .. } = resumed;
        state
            .restore(|walk| self.restore(walk, ()))
            .map_err(|error| CheckpointError::OtherState { path, error })?;
        self.clock = self.cluster.coordinator.clock_of_all();
        self.monitor.show_again();
        Ok(())
    }

    fn facts(&self, clock: Clock) -> Facts {
        let topology = self.monitor.recorder.topology();
        let name = |dc: DcId| topology.dc(dc).name.clone();
        let clocks = topology.dc_ids().map(|dc| ClockOf {
            data_center: name(dc),
            clock: self.cluster.coordinator.clock_of(dc).0,
            workers: self
                .cluster
                .workers
                .iter()
                .filter(|worker| worker.id().dc == dc)
                .map(|worker| worker.clock().0)
                .collect(),
        });

        let marks = self.cluster.servers.iter().flat_map(|server| {
            let from = server.id();
            server.watermarks().into_iter().map(move |mark| LinkMark {
                from: name(from.dc),
                to: name(mark.peer),
                shard: from.shard.0,
                sent: mark.sent,
                received: mark.received,
            })
        });

        Facts {
            clock: clock.0,
            first_record: None,
            time_ns: self.now.as_nanos(),
            clocks: clocks.collect(),
            watermarks: marks.collect(),
        }
    }
}

persist! {
    impl Persist<()> for Simulation<'_> {
        fn walk(
            Self {
                now,
                events,
                cluster,
                lan,
                wan,
                cost,
                monitor: RunMonitor { recorder, .. },
                timeouts,
                data_centers,
                clock: _,
                finished: _,
                failed: _,
                application: _,
            },
            walk,
            (),
        ) {
            walk.record("now", now)?;
            walk.flatten(cluster, ())?;
            let (cluster, data_centers): (&Cluster, usize) = (cluster, *data_centers);
            let fits: &dyn Fn(&Event) -> bool = &|event| event.fits(cluster, data_centers);
            walk.flatten(events, fits)?;
            walk.part("lan", lan, ())?;
            walk.part("wan", wan, ())?;
            walk.part("cost", cost, ())?;
            walk.part("recorder", recorder, ())?;
            walk.record_that("timeouts", timeouts, |found, made| found.len() == made.len())
        }
    }
}

impl Event {
    /// Whether an event is valid in a cluster: its receiver exists, and its content fits that receiver.
    fn fits(&self, cluster: &Cluster, data_centers: usize) -> bool {
        let dc = |dc: DcId| dc.index() < data_centers;
        let server = |id: ServerId| dc(id.dc) && id.shard.index() < cluster.shards;
        let worker = |id: WorkerId| cluster.workers.iter().any(|worker| worker.id() == id);
        let layout = |id: ServerId| cluster.servers[cluster.server_index(id)].layout();
        match self {
            Self::ToServer { server: to, from, message } => {
                server(*to) && worker(*from) && to.dc == from.dc && message.fits(layout(*to))
            }
            Self::ToWorker { worker: to, from, message } => {
                worker(*to) && server(*from) && to.dc == from.dc && message.fits(layout(*from))
            }
            Self::Frame { server: to, from, .. } => server(*to) && dc(*from) && to.dc != *from,
            Self::Computed { worker: of } => worker(*of),
            Self::LinkReady { from, to } => dc(*from) && dc(*to) && from != to,
            Self::ServerTimeout { server: of } => server(*of),
            Self::CoordinatorTimeout => true,
        }
    }
}
