//! Virtual time: one thread, one heap of events, and the same bytes every time.
//!
//! Frames are encoded and decoded as on a real network. `gaia_core::link` models what a link does to them.
//! Computation is real arithmetic, charged by the run file's cost model. Events at the same time happen in the order
//! in which they were scheduled.

pub mod events;
pub mod lan;
mod state;
pub mod wan;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use self::events::Events;
use self::lan::Lan;
use self::wan::SimulatedWan;
use super::cluster::Cluster;
use super::cost::CostModel;
use super::interrupted::Interrupted;
use super::run_loop::{Ended, Evaluation, NodeReport, RunDriver, RunMonitor, execute_outputs};
use super::{Ending, Outcome, RunError, RunOptions};
use gaia_checkpoint::{Due, Keeper};
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::coordinator::{Coordinator, NodeOrder, Recipients, StopReason};
use gaia_core::node::{Lane, RowsRead, ServerInput, WorkerMessage};
use gaia_core::server::{LinksToPoll, ServerOutput};
use gaia_core::types::{Clock, DcId, Instant, NodeId, ServerId, WorkerId};
use gaia_core::worker::WorkerOutput;
use gaia_telemetry::Observer;

/// An event that is scheduled for some time. Most are frames, of which a million may be on their way: what is larger is
/// boxed.
#[derive(Serialize, Deserialize)]
enum Event {
    ToServer {
        server: ServerId,
        from: WorkerId,
        message: Box<WorkerMessage>,
    },
    ToWorker {
        worker: WorkerId,
        from: ServerId,
        message: Box<RowsRead>,
    },
    Frame {
        server: ServerId,
        from: DcId,
        lane: Lane,
        frame: Bytes,
        packets: u64,
    },
    Computed {
        worker: WorkerId,
    },
    /// A link may have room for the next data frame.
    LinkReady {
        from: DcId,
        to: DcId,
    },
    ServerTimeout {
        server: ServerId,
    },
    CoordinatorTimeout,
}

/// Runs a plan in virtual time. Resumes from a checkpoint if the keeper has one.
pub(super) fn run(
    plan: &Plan,
    application: &Arc<dyn Application>,
    options: &RunOptions,
    observer: &mut dyn Observer,
    mut keeper: Option<&mut Keeper>,
) -> Result<Ending, RunError> {
    let started = std::time::Instant::now();
    let interrupted = Interrupted(options.interrupted.clone());
    let mut ends = false;
    let mut simulation = Simulation::new(plan, application, options, observer);
    match keeper.as_mut().and_then(|keeper| keeper.take_resumed()) {
        Some(checkpoint) => simulation.resume(checkpoint)?,
        None => simulation.start(),
    }

    let mut clock = simulation.clock;
    let mut stopped = None;
    while !simulation.finished {
        let Some((at, event)) = simulation.events.pop() else {
            return Err(simulation.stalled());
        };
        simulation.now = at;
        simulation.handle(event)?;
        if let Some(failed) = simulation.failed.take() {
            return Err(failed);
        }
        if !ends && interrupted.is_set() {
            ends = true;
            simulation.interrupt();
        }

        let Some(keeper) = keeper.as_mut().filter(|_| stopped.is_none()) else { continue };
        let before = std::mem::replace(&mut clock, simulation.clock);
        match keeper.due(before, clock) {
            _ if simulation.finished => {}
            Due::Nothing => {}
            Due::Checkpoint => keeper.keep_if_possible(&simulation.checkpoint(clock)),
            Due::Stop => {
                stopped = Some((clock, keeper.keep(&simulation.checkpoint(clock))?));
                simulation.interrupt();
            }
        }
    }

    let outcome = Box::new(simulation.outcome(started.elapsed())?);
    Ok(match stopped {
        Some((clock, checkpoint)) => Ending::Interrupted { clock, checkpoint, outcome },
        None => Ending::Finished(outcome),
    })
}

struct Simulation<'a> {
    now: Instant,
    events: Events<Event>,
    cluster: Cluster,
    lan: Lan,
    wan: SimulatedWan,
    cost: CostModel,
    monitor: RunMonitor<'a>,
    /// The next timeout scheduled for each server.
    timeouts: Vec<Option<Instant>>,
    data_centers: usize,
    /// The clock that all data centers have finished.
    clock: Clock,
    finished: bool,
    /// Why the run cannot go on.
    failed: Option<RunError>,
    application: &'a Arc<dyn Application>,
}

impl<'a> Simulation<'a> {
    fn new(
        plan: &Plan,
        application: &'a Arc<dyn Application>,
        options: &RunOptions,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let cluster = Cluster::new(&options.blueprint(plan, application));
        Self {
            now: Instant::ZERO,
            events: Events::new(),
            lan: Lan::new(&plan.topology),
            wan: SimulatedWan::new(&plan.topology, cluster.shards, plan.seed.child("links")),
            cost: CostModel::new(&plan.compute, cluster.workers.len(), plan.seed),
            monitor: RunMonitor::new(plan, observer),
            timeouts: vec![None; cluster.servers.len()],
            data_centers: plan.topology.data_centers.len(),
            clock: Clock::ZERO,
            finished: false,
            failed: None,
            cluster,
            application,
        }
    }

    fn start(&mut self) {
        self.cluster.coordinator.handle_start();
        if let Some(at) = self.cluster.coordinator.poll_timeout() {
            self.events.push(at, Event::CoordinatorTimeout);
        }
        self.settle_coordinator();
    }

    /// Stops the run in order.
    fn interrupt(&mut self) {
        self.cluster.coordinator.handle_interrupted();
        self.settle_coordinator();
    }

    fn handle(&mut self, event: Event) -> Result<(), RunError> {
        let now = self.now;
        match event {
            Event::ToServer { server, from, message } => {
                let index = self.cluster.server_index(server);
                self.cluster.servers[index].handle_worker(now, from, *message);
                self.settle_server(server, None);
            }
            Event::ToWorker { worker, from, message } => {
                let index = self.cluster.worker_index(worker);
                self.cluster.workers[index].handle_rows(from.shard, *message);
                self.settle_worker(worker);
            }
            Event::Frame { server, from, lane, frame, packets } => {
                self.wan.acknowledge(server.dc, from, now, packets);
                self.handle_server_input(server, ServerInput::Frame { from, lane, frame }, from)?;
            }
            Event::Computed { worker } => {
                let index = self.cluster.worker_index(worker);
                self.cluster.workers[index].handle_computed();
                self.settle_worker(worker);
            }
            Event::LinkReady { from, to } => {
                let (shard, bytes, busy) = self.wan.on_ready(from, to);
                let server = ServerId { dc: from, shard };
                self.handle_server_input(server, ServerInput::Drained { to, bytes, busy }, to)?;
                self.transmit(from, to);
            }
            Event::ServerTimeout { server } => {
                let index = self.cluster.server_index(server);
                self.timeouts[index] = None;
                let due = self.cluster.servers[index].poll_timeout();
                if due.is_some_and(|(at, _)| at <= now) {
                    self.cluster.servers[index].handle_timeout(now);
                }
                self.settle_server(server, None);
            }
            Event::CoordinatorTimeout => {
                self.cluster.coordinator.handle_timeout(now);
                self.settle_coordinator();
            }
        }

        Ok(())
    }

    fn handle_server_input(
        &mut self,
        server: ServerId,
        input: ServerInput,
        mirror: DcId,
    ) -> Result<(), RunError> {
        let index = self.cluster.server_index(server);
        self.cluster.servers[index]
            .handle_input(self.now, input)
            .map_err(|error| RunError::Peer { at: server.to_string(), error })?;
        self.settle_server(server, Some(mirror));
        Ok(())
    }

    /// Executes the outputs of a server, and polls the links of its data center that may have something to send: those
    /// that its servers name, and the one to `mirror`, which has carried something or is about to carry acknowledgements.
    fn settle_server(&mut self, server: ServerId, mirror: Option<DcId>) {
        let index = self.cluster.server_index(server);
        while let Some(output) = self.cluster.servers[index].poll_output() {
            match output {
                ServerOutput::ToWorker { worker, message } => {
                    let (from, to) = (NodeId::Server(server), NodeId::Worker(worker));
                    let at = self.lan.send(self.now, from, to, message.lan_bytes());
                    let message = Box::new(message);
                    self.events.push(at, Event::ToWorker { worker, from: server, message });
                }
                ServerOutput::ClockFinished { clock } => {
                    self.report(NodeReport::ClockFinished { server, clock });
                }
                ServerOutput::CopyReady { clock } => {
                    self.report(NodeReport::CopyReady { server, clock });
                    self.settle_coordinator();
                }
                ServerOutput::Drained => {
                    self.report(NodeReport::Drained { server });
                    self.settle_coordinator();
                }
                ServerOutput::Diverged(divergence) => {
                    self.report(NodeReport::Diverged(divergence));
                    self.settle_coordinator();
                }
                ServerOutput::Probed(probed) => {
                    self.report(NodeReport::Probed { dc: server.dc, probed });
                }
            }
        }

        let mut links = LinksToPoll::NONE;
        links.extend(mirror);
        for shard in self.wan.shards() {
            let index = self.cluster.server_index(ServerId { dc: server.dc, shard });
            links.join(self.cluster.servers[index].take_links_to_poll());
        }
        match links {
            LinksToPoll::Some(links) => {
                links.into_iter().for_each(|to| self.transmit(server.dc, to));
            }
            LinksToPoll::All => {
                for to in (0..self.data_centers as u16).map(DcId).filter(|to| *to != server.dc) {
                    self.transmit(server.dc, to);
                }
            }
        }
        self.schedule_timeout(server);
    }

    /// Fills the room that a link has: first control messages, then one quantum of data.
    fn transmit(&mut self, from: DcId, to: DcId) {
        let now = self.now;
        for shard in self.wan.shards() {
            let server = ServerId { dc: from, shard };
            let index = self.cluster.server_index(server);
            let control = |sender: &mut Cluster| {
                sender.servers[index].poll_transmit(now, to, Lane::Control, usize::MAX)
            };
            while let Some(frame) = control(&mut self.cluster) {
                let sent = self.wan.send_control(from, to, now, frame.len());
                let mirror = ServerId { dc: to, shard };
                let packets = sent.packets;
                let lane = Lane::Control;
                self.events.push(
                    sent.arrives,
                    Event::Frame { server: mirror, from, lane, frame, packets },
                );
            }
        }

        if self.wan.is_waiting(from, to) {
            return;
        }
        if let Some(at) = self.wan.room_at(from, to, now) {
            self.wan.wait(from, to);
            self.events.push(at, Event::LinkReady { from, to });
            return;
        }

        let room = self.wan.room(from, to);
        for shard in self.wan.turns(from, to) {
            let index = self.cluster.server_index(ServerId { dc: from, shard });
            let Some(frame) = self.cluster.servers[index].poll_transmit(now, to, Lane::Data, room)
            else {
                continue;
            };
            let sent = self.wan.send_data(from, to, shard, now, frame.len());
            let mirror = ServerId { dc: to, shard };
            let packets = sent.packets;
            let lane = Lane::Data;
            self.events
                .push(sent.arrives, Event::Frame { server: mirror, from, lane, frame, packets });
            self.events.push(sent.departs, Event::LinkReady { from, to });
            break;
        }
    }

    fn settle_worker(&mut self, worker: WorkerId) {
        let index = self.cluster.worker_index(worker);
        while let Some(output) = self.cluster.workers[index].poll_output() {
            match output {
                WorkerOutput::ToServer { shard, message } => {
                    let server = ServerId { dc: worker.dc, shard };
                    let layout = self.cluster.servers[self.cluster.server_index(server)].layout();
                    let bytes = message.lan_bytes(layout);
                    let (from, to) = (NodeId::Worker(worker), NodeId::Server(server));
                    let at = self.lan.send(self.now, from, to, bytes);
                    let message = Box::new(message);
                    self.events.push(at, Event::ToServer { server, from: worker, message });
                }
                WorkerOutput::Compute => {
                    let held = self.cluster.workers[index].take_held();
                    self.report(NodeReport::Held { dc: worker.dc, held });
                    match self.cluster.workers[index].compute() {
                        Ok(work) => {
                            let time = self.cost.time(worker, index, work);
                            self.events.push(self.now + time, Event::Computed { worker });
                        }
                        Err(reason) => {
                            let worker = worker.to_string();
                            self.failed.get_or_insert(RunError::Task { worker, reason });
                        }
                    }
                }
                WorkerOutput::Ended { .. } => {
                    self.report(NodeReport::Ended { worker });
                    self.settle_coordinator();
                }
                WorkerOutput::Stopped { clock } => {
                    self.report(NodeReport::Stopped { worker, clock });
                    self.settle_coordinator();
                }
            }
        }
    }

    fn report(&mut self, report: NodeReport) {
        let finishes_clock = matches!(report, NodeReport::ClockFinished { .. });
        self.monitor.handle_report(self.now, &mut self.cluster.coordinator, report);
        if finishes_clock {
            self.clock = self.cluster.coordinator.clock_of_all();
        }
    }

    fn settle_coordinator(&mut self) {
        let Ok(()) = execute_outputs(self);
    }

    fn schedule_timeout(&mut self, server: ServerId) {
        let index = self.cluster.server_index(server);
        let Some((at, _)) = self.cluster.servers[index].poll_timeout() else { return };
        let at = at.max(self.now);
        if self.timeouts[index].is_none_or(|scheduled| at < scheduled) {
            self.timeouts[index] = Some(at);
            self.events.push(at, Event::ServerTimeout { server });
        }
    }

    fn stalled(&self) -> RunError {
        let reasons = self.cluster.servers.iter().filter_map(|server| {
            server.waiting().map(|reason| format!("{}: {reason}", server.id()))
        });
        let waiting = reasons.collect::<Vec<_>>().join(", ");
        RunError::Stalled { at: self.now.to_string(), waiting }
    }

    fn outcome(mut self, wall: Duration) -> Result<Outcome, RunError> {
        self.monitor.recorder.lan_bytes = self.lan.bytes();
        let ended =
            Ended::of(&self.cluster, self.application, &self.monitor.recorder.evaluation_data())?;
        let link_counters = self.wan.link_counters();
        // Results of very many data centers need the memory.
        drop((self.cluster, self.events, self.lan, self.wan));
        Ok(self.monitor.outcome(self.application.as_ref(), ended, &link_counters, wall))
    }
}

impl RunDriver for Simulation<'_> {
    type Error = Infallible;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.cluster.coordinator
    }

    fn order(&mut self, to: Recipients, order: NodeOrder) -> Result<(), Infallible> {
        for index in 0..self.cluster.workers.len() {
            let worker = self.cluster.workers[index].id();
            if to.include(NodeId::Worker(worker)) {
                match &order {
                    NodeOrder::Start { .. } => self.cluster.workers[index].handle_start(),
                    NodeOrder::Stop { last } => self.cluster.workers[index].handle_stop(*last),
                    NodeOrder::Drain { .. } | NodeOrder::Left { .. } => {}
                }
                self.settle_worker(worker);
            }
        }

        for index in 0..self.cluster.servers.len() {
            let server = self.cluster.servers[index].id();
            if let NodeOrder::Drain { clocks, inactive } = &order
                && to.include(NodeId::Server(server))
            {
                let (clocks, inactive) = (clocks.clone(), inactive.clone());
                self.cluster.servers[index].handle_drain(self.now, clocks, inactive);
                self.settle_server(server, None);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, clock: Clock) {
        let (cluster, link_counters) = (&mut self.cluster, self.wan.link_counters());
        let evaluation = Evaluation::new(self.now, clock, &cluster.coordinator, link_counters);
        if let Err(error) = self.monitor.evaluate(cluster, evaluation, self.application) {
            self.failed.get_or_insert(error);
        }
    }

    fn on_stop(&mut self, reason: StopReason) {
        self.monitor.handle_stop(self.now, reason);
    }

    fn finish(&mut self) -> Result<(), Infallible> {
        self.finished = true;
        Ok(())
    }
}
