//! The process side of a parameter server: it moves the messages of one [`RecoverableServer`] and sets its time.
//!
//! It works in groups. It passes received messages to the server, cuts frames for links that have room, writes the
//! resulting entries to the log, and then sends the server's outputs.

#[cfg(test)]
mod full_disk;
mod links;
mod messages;
pub(super) mod mirrors;
pub(super) mod model_keeper;
mod proven_callers;
pub(super) mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::{self, Interval, MissedTickBehavior, interval, sleep_until};
use tracing::{info, warn};

use crate::interrupted::Interrupted;
use crate::real::connections::acceptor::{Acceptor, ProvenCaller, listen, once_free};
use crate::real::connections::channel::Channel;
use crate::real::connections::message::{CopyUse, KeptModel, Order, Report};
use crate::real::connections::throttle::LogThrottle;
use crate::real::environment::{Datagrams, Environment, Listener};
use crate::real::error::RealError;
use crate::real::node::context::NodeContext;
use crate::real::node::coordinator_client::{Begun, CoordinatorClient, addresses_of};
use crate::real::node::event_group::{EventHandler, Turns, handle_group};
use crate::real::node::measure::Meters;
use crate::real::node::node_log::NodeLog;
use crate::real::server::mirrors::{
    Addresses, FromMirror, LinkMonitor, MESSAGES_IN_HAND_MAX, Mirrors, Resumption, windows_of,
};
use crate::real::server::model_keeper::ModelKeeper;
use crate::real::server::workers::Workers;
use crate::real::{Exit, HEARTBEAT, NearWorker, NodeConfig};
use crate::server_stats::ServerStats;
use gaia_core::coordinator::{ServerProcess, StandIns};
use gaia_core::node::WorkerMessage;
use gaia_core::recovery::{
    Logging, Output, RecoverableServer, RecoveringServer, RequestOrder, RequestSeq,
};
use gaia_core::server::Server;
use gaia_core::session::Incarnation;
use gaia_core::topology::Address;
use gaia_core::types::{Clock, DcId, Instant, Lane, NodeId, ServerId, WorkerId};

/// A running server.
struct ServerNode {
    context: NodeContext,
    server: RecoverableServer,
    /// `None` if the server cannot be recovered after a crash.
    node_log: Option<NodeLog>,
    /// Whether a checkpoint is being written in place of entries.
    replaces: bool,
    /// Since when reports to the coordinator wait for entries, and nothing else does.
    delayed_since: Option<time::Instant>,
    /// When the last message of a worker came.
    worker_heard: time::Instant,
    mirrors: Mirrors,
    links: BTreeMap<DcId, LinkMonitor>,
    workers: Workers,
    acceptor: Acceptor,
    /// Workers that have connected while the copy was in transfer. `None` stands for the one in this process.
    parked: BTreeMap<WorkerId, Option<ProvenCaller>>,
    /// The stand-in of each worker that has one.
    stand_ins: StandIns,
    /// The mirror for which reads are held back, as was last logged.
    pauses_for: Option<DcId>,
    pause_lines: LogThrottle,
    /// The mirrors whose clocks do not advance, as was last logged.
    stalled: BTreeSet<DcId>,
    beat: Interval,
    /// Of workers and mirrors.
    turns: Turns,
    /// A time of the server, and the same moment on the driver's clock.
    origin: (Instant, time::Instant),
    /// Whether the server has its whole copy, and this is reported to the coordinator.
    is_whole: bool,
    /// Whether all peers have been connected, and this is reported to the coordinator.
    ready: bool,
    interrupted: Interrupted,
    meters: Meters,
    /// `None` if the model is not kept in the data center.
    model_keeper: Option<ModelKeeper>,
}

/// An event for a server.
enum Event {
    Order(Order),
    Beat,
    Worker(WorkerId, WorkerMessage),
    ProvenCaller(Box<ProvenCaller>),
    Mirror(FromMirror),
    Timeout,
    /// An acknowledgement or a check of a connection is due.
    Link,
    /// Entries have waited for long.
    WriteDue,
    /// A checkpoint in place of entries is written.
    Replaced,
}

/// The open ports of a server.
struct Ports {
    /// The address of both ports.
    address: SocketAddr,
    /// Accepts workers, over TCP.
    acceptor: Acceptor,
    /// Accepts mirrors, over UDP.
    mirrors: Mirrors,
}

/// Runs one server until the coordinator ends the run.
pub(super) async fn serve(
    context: NodeContext,
    id: ServerId,
    server: Server,
    node_config: &NodeConfig,
    listens: SocketAddr,
    near: Option<NearWorker>,
) -> Result<Exit, RealError> {
    let NodeConfig { coordinator, interrupted, .. } = node_config;
    let own_workers = workers_of(&context, id.dc);

    // Both ports are open before the server waits for a node, so that links can be checked.
    let ports = Ports::open(&context, id, &own_workers, listens).await?;
    let listens = ports.address;
    let workers = Workers::new(&context, server.layout().clone(), own_workers.clone(), near);
    let windows = windows_of(&context.run_context.plan.topology, id.dc);
    let server = RecoveringServer::new(server, own_workers, windows);
    let (node_log, server) = recover(&context, node_config, server)?;

    let called = call_to_begin(&context, &server, coordinator, listens);
    let Some(called) = interrupted.run_until_set(called).await else {
        return Ok(Exit::Interrupted);
    };
    let (incarnation, called) = called?;
    let mut node = ServerNode::begin(
        context,
        (node_log, server),
        incarnation,
        ports,
        workers,
        (interrupted.clone(), node_config.model_keeper.clone()),
    );

    let connected = node.connect(coordinator, listens, called);
    let Some(connected) = interrupted.run_until_set(connected).await else {
        return Ok(Exit::Interrupted);
    };
    let mut coordinator = connected?;

    let served = async {
        let Some(begun) = interrupted.run_until_set(coordinator.begin()).await else {
            return Ok(Exit::Interrupted);
        };
        let exit = node.take_part(&mut coordinator, begun?).await?;
        node.mirrors.close().await;
        Ok(exit)
    };

    let served = served.await;
    coordinator.finish(served).await
}

/// Recovers a server from its state, if it has any.
fn recover(
    context: &NodeContext,
    node_config: &NodeConfig,
    server: RecoveringServer,
) -> Result<(Option<NodeLog>, RecoveringServer), RealError> {
    let (node_log, server) = node_config.recover(context, server)?;
    if node_log.is_none() {
        info!(
            "{} keeps no state on disk: after a crash it copies the state of a mirror",
            context.name()
        );
    }
    Ok((node_log, server))
}

/// The incarnation that a server begins as. A server without state receives it from the coordinator. In that case the
/// connection to the coordinator is returned, too.
async fn call_to_begin(
    context: &NodeContext,
    server: &RecoveringServer,
    coordinator: &Address,
    listens: SocketAddr,
) -> Result<(Incarnation, Option<Channel>), RealError> {
    if let Some(incarnation) = server.next_incarnation() {
        return Ok((incarnation, None));
    }
    let called = CoordinatorClient::call_to_begin(context, coordinator, listens).await;
    let (incarnation, channel) = called?;
    Ok((incarnation, Some(channel)))
}

impl Ports {
    /// Listens for the workers of a server's data center, and for its mirrors.
    async fn open(
        context: &NodeContext,
        id: ServerId,
        workers: &BTreeSet<WorkerId>,
        listens: SocketAddr,
    ) -> Result<Self, RealError> {
        let (tcp, udp) = bind(&*context.run_context.environment, listens).await?;
        let address = tcp.local_addr()?;
        let callers = workers.iter().copied().map(NodeId::Worker).collect();
        let acceptor = Acceptor::open(context, tcp, callers, None);
        let mirrors = Mirrors::open(context, id, udp)?;
        Ok(Self { address, acceptor, mirrors })
    }
}

impl ServerNode {
    /// Begins a process of a server that has been recovered.
    fn begin(
        context: NodeContext,
        (node_log, server): (Option<NodeLog>, RecoveringServer),
        incarnation: Incarnation,
        ports: Ports,
        workers: Workers,
        (interrupted, model_keeper): (Interrupted, Option<ModelKeeper>),
    ) -> Self {
        let origin = (server.now(), time::Instant::now());
        let parameters = server.server().layout().parameters();
        let logging = node_log.as_ref().map_or(Logging::Off, |node_log| {
            node_log.logging_of_server(STATE_BYTES_PER_PARAMETER * parameters as u64)
        });
        let server = server.begin(logging, incarnation);
        let id = server.server().id();

        let topology = &context.run_context.plan.topology;
        let peers = topology.dc_ids().filter(|peer| *peer != id.dc);
        let links =
            peers.map(|peer| (peer, LinkMonitor::new(topology, id.dc, peer, parameters))).collect();
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);

        Self {
            meters: Meters::new(&context, id),
            context,
            server,
            node_log,
            replaces: false,
            delayed_since: None,
            worker_heard: time::Instant::now(),
            mirrors: ports.mirrors,
            links,
            workers,
            acceptor: ports.acceptor,
            parked: BTreeMap::new(),
            stand_ins: StandIns::default(),
            pauses_for: None,
            pause_lines: LogThrottle::default(),
            stalled: BTreeSet::new(),
            beat,
            turns: Turns::default(),
            origin,
            is_whole: false,
            ready: false,
            interrupted,
            model_keeper,
        }
    }

    /// Connects to the coordinator, or keeps the connection that is open already.
    async fn connect(
        &self,
        coordinator: &Address,
        listens: SocketAddr,
        called: Option<Channel>,
    ) -> Result<CoordinatorClient, RealError> {
        let process = ServerProcess {
            began: self.server.began().number(),
            incarnation: self.server.incarnation().number(),
            is_new: self.server.is_new(),
        };
        let (context, listens, process) = (&self.context, Some(listens), Some(process));
        match called {
            Some(called) => {
                Ok(CoordinatorClient::over(context, coordinator, listens, process, called))
            }
            None => CoordinatorClient::open(context, coordinator, listens, process).await,
        }
    }

    /// Takes part in a run that has begun, until the server's part has ended.
    async fn take_part(
        &mut self,
        coordinator: &mut CoordinatorClient,
        begun: Begun,
    ) -> Result<Exit, RealError> {
        if let Some((from, inactive)) = begun.copy_from {
            self.rebuild(from, &inactive)?;
        }
        self.stand_ins = begun.stand_ins;
        self.run(coordinator, begun.servers).await
    }

    async fn run(
        &mut self,
        coordinator: &mut CoordinatorClient,
        addresses: Addresses,
    ) -> Result<Exit, RealError> {
        self.context.meter.on_begun();
        self.stand(coordinator).await;
        self.mirrors.reach(addresses);

        // Replayed entries have had their effects. The start of this process is a new entry.
        self.write()?;
        if let Some(worker) = self.workers.near().filter(|near| self.stand_ins.of(*near).is_none())
        {
            self.let_in(worker, None)?;
        }

        loop {
            self.context.meter.on_turn();
            if let ControlFlow::Break(exit) = handle_group(self, coordinator).await? {
                return Ok(exit);
            }

            // A group that is full may have had no room for it.
            if self.server.poll_timeout().is_some_and(|at| at <= self.now()) {
                self.server.handle_timeout(self.now());
            }
            // The requests that are due from them are sent with this group.
            self.let_in_parked()?;
            self.settle(coordinator).await?;
            self.keep_if_due()?;
            if self.interrupted.is_set() {
                self.write()?;
                self.put_out(coordinator).await;
                self.keep()?;
                self.node_log.as_mut().map_or(Ok(()), NodeLog::wait)?;
                return Ok(Exit::Interrupted);
            }
        }
    }
}

impl EventHandler for ServerNode {
    type Event = Event;

    async fn next(&mut self, coordinator: &mut CoordinatorClient) -> Result<Event, RealError> {
        let timeout = self.server.poll_timeout().map(|at| self.moment(at));
        let links = self.links.values().flat_map(|link| [link.ack_due, Some(link.watch.due())]);
        let links = links.flatten().min();
        let (now, write_due) = (time::Instant::now(), self.write_due());
        let replacing = self.node_log.as_ref().and_then(NodeLog::replacing);
        let worker = async {
            let (worker, message) = self.workers.next().await;
            Ok(Event::Worker(worker, message))
        };
        let mirror = async { Ok::<_, RealError>(Event::Mirror(self.mirrors.next().await?)) };
        let event = tokio::select! {
            biased;
            order = coordinator.order() => Event::Order(order?),
            _ = self.beat.tick() => Event::Beat,
            proven_caller = self.acceptor.proven_caller() => Event::ProvenCaller(Box::new(proven_caller)),
            event = self.turns.next(worker, mirror) => event?,
            () = sleep_until(links.unwrap_or(now)), if links.is_some() => Event::Link,
            () = sleep_until(timeout.unwrap_or(now)), if timeout.is_some() => Event::Timeout,
            () = sleep_until(write_due.unwrap_or(now)), if write_due.is_some() => Event::WriteDue,
            () = end_of(replacing) => Event::Replaced,
        };
        Ok(event)
    }

    async fn handle(
        &mut self,
        event: Event,
        coordinator: &CoordinatorClient,
    ) -> Result<ControlFlow<Exit>, RealError> {
        match event {
            Event::Order(Order::End) => return Ok(ControlFlow::Break(Exit::Over)),
            Event::Order(order) => self.on_order(order, coordinator).await?,
            Event::Beat => {
                let links = self.mirrors.link_counters();
                self.meters.read(self.server.server(), &links);
                self.meters.on_detours(|peer| self.mirrors.detour_of(peer));
                coordinator.report(&Report::Alive { links, lan_bytes: 0 }).await;
                self.report_refusals(coordinator).await;
            }
            Event::ProvenCaller(proven_caller) => self.on_proven_caller(*proven_caller).await?,
            Event::Worker(worker, message) => self.on_worker(worker, message)?,
            Event::Mirror(from) => self.on_mirror(from)?,
            Event::Timeout => self.server.handle_timeout(self.now()),
            Event::Link => self.look_at_links()?,
            Event::WriteDue => {}
            Event::Replaced => self.end_replacing()?,
        }

        Ok(ControlFlow::Continue(()))
    }
}

impl ServerNode {
    async fn on_order(
        &mut self,
        order: Order,
        coordinator: &CoordinatorClient,
    ) -> Result<(), RealError> {
        match order {
            Order::Begin { servers, stand_ins } => {
                self.mirrors.reach(addresses_of(servers)?);
                self.accept_stand_ins(stand_ins)?;
            }
            Order::Rebuild { from, inactive } => self.rebuild(from, &inactive)?,
            Order::Left { from, process } => {
                self.mirrors.dismiss(from);
                let left = self.server.handle_left(self.now(), from, process);
                left.map_err(|error| self.refused(error))?;
            }
            Order::Drain { clocks, inactive } => {
                self.server.handle_drain(self.now(), clocks, inactive);
            }
            Order::Evaluate { ticket } => {
                self.workers.begin_evaluation(ticket, self.server.server().copy());
            }
            Order::Evaluated { ticket, copy: purpose } => {
                let Some(copy) = self.workers.end_evaluation(ticket) else { return Ok(()) };
                match purpose {
                    CopyUse::Nothing => {}
                    CopyUse::Send => coordinator.send_copy(ticket, &copy).await,
                    CopyUse::Write(kept) => self.write_snapshot(&copy, kept),
                }
            }
            Order::Keep { kept } => {
                self.write_model(self.server.server().copy(), kept)?;
                coordinator.report(&Report::Kept).await;
            }
            Order::Copy { ticket } => {
                coordinator.send_copy(ticket, self.server.server().copy()).await;
            }
            Order::ServerStats => {
                let links = self.mirrors.link_counters();
                coordinator.report(&Report::Alive { links, lan_bytes: 0 }).await;
                let count = self.context.run_context.plan.topology.data_centers.len();
                let mut server_stats = ServerStats::of(self.server.server(), count);
                server_stats.ledgers.clone_from(self.server.ledgers());
                coordinator.report(&Report::ServerStats(Box::new(server_stats))).await;
            }
            // These orders concern workers.
            Order::Start { .. } | Order::Stop { .. } | Order::Alive => {}
            other => return Err(CoordinatorClient::unexpected(&other)),
        }
        Ok(())
    }

    /// Writes a copy of the shard that training goes on without, if it has to.
    fn write_snapshot(&self, copy: &[f32], kept: KeptModel) {
        if let Err(error) = self.write_model(copy, kept) {
            let (name, clock) = (self.context.name(), kept.clock);
            warn!("{name}: {error}; its snapshot of clock {clock} is left out");
        }
    }

    /// Writes a copy of the shard, if the data center keeps its model.
    fn write_model(&self, copy: &[f32], kept: KeptModel) -> Result<(), RealError> {
        let layout = self.server.server().layout();
        self.model_keeper.as_ref().map_or(Ok(()), |keeper| keeper.write(layout, copy, kept))
    }

    /// Reports to the coordinator the progress of the process before this one, which it may not have received.
    async fn stand(&self, coordinator: &CoordinatorClient) {
        let server = self.server.server();
        if server.clock() > Clock::ZERO {
            coordinator.report(&Report::ClockFinished(server.clock())).await;
        }
        if server.copy_ready() > Clock::ZERO {
            coordinator.report(&Report::CopyReady(server.copy_ready())).await;
        }
        if server.is_drained() {
            coordinator.report(&Report::Drained).await;
        }
        if let Some(found) = server.divergence() {
            coordinator.report(&Report::Diverged(found)).await;
        }
    }

    fn on_worker(&mut self, worker: WorkerId, message: WorkerMessage) -> Result<(), RealError> {
        self.worker_heard = time::Instant::now();
        let said = RequestSeq::of(&message);
        let reason = match self.server.handle_worker(self.now(), worker, message) {
            RequestOrder::Due | RequestOrder::Repeated | RequestOrder::AlreadyApplied => {
                return Ok(());
            }
            RequestOrder::Early => "which is not due",
            RequestOrder::Unanswered => "whose read has not been answered",
            RequestOrder::Skipping => "which skips clocks, expected none",
            RequestOrder::Stopped => "after it had said that it has stopped",
        };
        let said = said.map_or_else(|| "a reset".into(), |said| said.to_string());
        self.workers.on_refused(worker, &format!("it sent {said}, {reason}"));
        self.set_right(worker)
    }

    fn on_mirror(&mut self, from: FromMirror) -> Result<(), RealError> {
        match from {
            FromMirror::Joined { peer } => {
                // The hello acknowledges received frames, so they must be in the log.
                self.write()?;
                let hello = self.server.connect(peer);
                self.mirrors.send(peer, Lane::Control, &hello)?;
                let session = self.server.session(peer);
                let resumption = session.peer_hello().map(|_| Resumption::begin(session));
                let link = self.link(peer);
                link.watch.begin();
                link.resumption = resumption.filter(|_| link.lines.pass().is_some());
                Ok(())
            }
            FromMirror::Message { from, message } => self.on_message(from, &message),
            FromMirror::Drained { to, bytes, busy } => {
                let now = self.now();
                let drained = self.server.handle_drained(now, to, bytes, busy);
                drained.map_err(|error| self.refused(error))
            }
            FromMirror::Silent { peer } if !self.server.server().may_receive_from(peer) => Ok(()),
            FromMirror::Silent { peer } | FromMirror::Disconnected { peer } => {
                let parted = self.server.handle_disconnected(self.now(), peer);
                parted.map_err(|error| self.refused(error))
            }
            FromMirror::Room => Ok(()),
        }
    }

    fn report_resumptions(&mut self) {
        for (peer, link) in &mut self.links {
            let Some(resumption) = &mut link.resumption else { continue };
            let waits = self.server.server().has_updates_for(*peer);
            let (own, name) = (self.context.name(), self.mirrors.name(*peer));
            if resumption.look(self.server.session(*peer), waits, &own, &name) {
                link.resumption = None;
            }
        }
    }

    /// Ends a group: cuts frames, writes the log, and sends the server's outputs.
    async fn settle(&mut self, coordinator: &CoordinatorClient) -> Result<(), RealError> {
        self.cut();
        self.put_out(coordinator).await;
        if self.write_due().is_some_and(|at| at <= time::Instant::now()) {
            self.write()?;
        } else {
            self.write_prompt()?;
        }
        self.put_out(coordinator).await;
        self.note_delay();
        self.transmit()?;
        self.report_resumptions();
        self.log_pause();
        self.log_stalled();
        if !self.is_whole && self.server.server().is_whole() {
            self.is_whole = true;
            coordinator.report(&Report::Whole).await;
        }
        if !self.ready && self.is_whole && self.mirrors.are_joined() && self.workers.are_joined() {
            self.ready = true;
            coordinator.report(&Report::Ready).await;
        }

        Ok(())
    }

    /// Sends the outputs that wait for no entry.
    async fn put_out(&mut self, coordinator: &CoordinatorClient) {
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::ToWorker { worker, message } => self.workers.answer(worker, message),
                Output::Due { worker, due, guessed } => {
                    self.workers.send_due(worker, (due, guessed));
                }
                Output::ClockFinished { clock } => {
                    coordinator.report(&Report::ClockFinished(clock)).await;
                }
                Output::CopyReady { clock } => coordinator.report(&Report::CopyReady(clock)).await,
                Output::Drained => coordinator.report(&Report::Drained).await,
                Output::Diverged(found) => coordinator.report(&Report::Diverged(found)).await,
                Output::Probed(probed) => coordinator.report(&Report::Probed(probed)).await,
            }
        }
    }

    /// Notes since when reports to the coordinator wait for entries.
    fn note_delay(&mut self) {
        match self.server.delays_events() {
            true => drop(self.delayed_since.get_or_insert_with(time::Instant::now)),
            false => self.delayed_since = None,
        }
    }

    /// When entries are written that only reports to the coordinator wait for.
    fn write_due(&self) -> Option<time::Instant> {
        let (since, node_log) = (self.delayed_since?, self.node_log.as_ref()?);
        if self.replaces {
            return None;
        }
        let idle_at = self.worker_heard.max(since) + node_log.idle_patience();
        Some(idle_at.min(since + node_log.patience()))
    }

    /// Cuts frames for lanes that have room and no queued frame.
    fn cut(&mut self) {
        let now = self.now();
        for (to, link) in &mut self.links {
            for (lane, room, most) in
                [(Lane::Control, usize::MAX, MESSAGES_IN_HAND_MAX), (Lane::Data, link.room, 1)]
            {
                while self.mirrors.has_room(*to, lane)
                    && self.server.session(*to).unsent(lane) < most
                    && let Some(frame) = self.server.cut(now, *to, lane, room)
                {
                    if let Some(resumption) =
                        link.resumption.as_mut().filter(|_| lane == Lane::Data)
                    {
                        resumption.on_cut(frame.len());
                    }
                }
            }
        }
    }

    /// Writes the log as far as other nodes wait for it, and does not wait for a checkpoint that takes its place: workers go on
    /// meanwhile.
    fn write_prompt(&mut self) -> Result<(), RealError> {
        if !self.server.must_write() || self.replaces {
            return Ok(());
        }
        if self.server.needs_checkpoint() {
            return self.replace();
        }
        self.write_entries()
    }

    /// Writes the log, or a checkpoint in place of entries, so that all outputs may be sent.
    fn write(&mut self) -> Result<(), RealError> {
        self.end_replacing()?;
        if self.server.lacks_entries() {
            self.replace()?;
            return self.end_replacing();
        }
        self.write_entries()?;
        self.delayed_since = None;
        Ok(())
    }

    fn write_entries(&mut self) -> Result<(), RealError> {
        if let Some(node_log) = &mut self.node_log {
            node_log.write(&self.server.take_entries())?;
            self.server.handle_synced();
        }
        Ok(())
    }

    /// Begins to write a checkpoint in place of entries.
    fn replace(&mut self) -> Result<(), RealError> {
        let clock = self.server.server().clock();
        let Some(node_log) = &mut self.node_log else { return Ok(()) };
        let state = self.server.begin_checkpoint(node_log.spare()?);
        node_log.replace(clock, state)?;
        self.replaces = true;
        if node_log.is_writing()? { Ok(()) } else { self.end_replacing() }
    }

    /// Waits for the checkpoint in place of entries, if one is being written.
    fn end_replacing(&mut self) -> Result<(), RealError> {
        let Some(node_log) = self.node_log.as_mut().filter(|_| self.replaces) else {
            return Ok(());
        };
        node_log.wait()?;
        self.server.handle_synced();
        (self.replaces, self.delayed_since) = (false, None);
        Ok(())
    }

    fn keep_if_due(&mut self) -> Result<(), RealError> {
        let clock = self.server.server().clock();
        let Some(node_log) = &mut self.node_log else { return Ok(()) };
        if self.replaces || node_log.is_writing()? || !node_log.is_due(clock) {
            return Ok(());
        }
        self.keep()
    }

    /// Begins to write a checkpoint, if all outputs have been sent.
    fn keep(&mut self) -> Result<(), RealError> {
        let clock = self.server.server().clock();
        let Some(node_log) = &mut self.node_log else { return Ok(()) };
        let Some(state) = self.server.state(node_log.spare()?) else { return Ok(()) };
        node_log.keep(clock, state)
    }

    fn transmit(&mut self) -> Result<(), RealError> {
        let now = time::Instant::now();
        for (to, link) in &mut self.links {
            for lane in Lane::ALL {
                while self.mirrors.has_room(*to, lane) {
                    let Some(message) = self.server.poll_message(*to, lane) else { break };
                    self.mirrors.send(*to, lane, &message)?;
                }
            }
            if link.ack_due.is_none_or(|due| due > now) {
                continue;
            }
            link.ack_due = None;
            if self.mirrors.has_room(*to, Lane::Control) {
                if let Some(message) = self.server.poll_acknowledgement(*to) {
                    self.mirrors.send(*to, Lane::Control, &message)?;
                }
            } else if self.mirrors.is_joined(*to) {
                link.ack_due = Some(now + link.ack_delay);
            }
        }

        Ok(())
    }

    fn link(&mut self, peer: DcId) -> &mut LinkMonitor {
        self.links.get_mut(&peer).expect("every other data center has a link")
    }

    fn now(&self) -> Instant {
        self.origin.0 + self.origin.1.elapsed()
    }

    fn moment(&self, at: Instant) -> time::Instant {
        self.origin.1 + at.since(self.origin.0)
    }
}

/// Waits for the end of a checkpoint. Waits forever if there is none.
async fn end_of(writing: Option<Arc<Notify>>) {
    match writing {
        Some(writing) => writing.notified().await,
        None => std::future::pending().await,
    }
}

/// The workers of a data center.
fn workers_of(context: &NodeContext, dc: DcId) -> BTreeSet<WorkerId> {
    let count = context.run_context.plan.topology.dc(dc).workers as u16;
    (0..count).map(|index| WorkerId { dc, index }).collect()
}

/// Listens for workers over TCP and for mirrors over UDP, on the same port.
async fn bind(
    environment: &dyn Environment,
    address: SocketAddr,
) -> Result<(Box<dyn Listener>, Datagrams), RealError> {
    let mut left = if address.port() == 0 { FREE_PORTS_TRIED } else { 1 };
    loop {
        let tcp = listen(environment, address).await?;
        let own = tcp.local_addr()?;
        left -= 1;
        let opened = match address.port() {
            0 => environment.datagrams(own),
            _ => once_free(own, async || environment.datagrams(own)).await,
        };
        match opened {
            Ok(udp) => return Ok((tcp, udp)),
            // A port that is free for TCP may be taken for UDP.
            Err(_) if left > 0 => {}
            Err(error) => {
                let (address, reason) = (own.to_string(), error.to_string());
                return Err(RealError::Listen { address, reason });
            }
        }
    }
}

const FREE_PORTS_TRIED: usize = 16;

/// About as many bytes of a server's state are of each parameter: its value, and what the remote model keeps beside it.
const STATE_BYTES_PER_PARAMETER: u64 = 24;
