//! The process side of the coordinator: waits for the nodes, sends its orders, has copies evaluated, and ends the
//! run.
//!
//! **Where copies are evaluated.** At home: neither data nor copies travel. The servers of each data center send their
//! copy to its workers, over the LAN. Each worker evaluates it on its own examples and reports sums to the coordinator,
//! some dozens of bytes. So the objective of the run is over all data, each part judged by the copy that lives there.
//! Under BSP all copies are equal, and it is the objective of the model. The final model crosses the WAN once, from the
//! servers of one data center.
//!
//! Evaluations run concurrently with training. If an evaluation takes longer than the clocks between two of them,
//! fewer copies are evaluated.

mod arrival;
mod evaluation;
mod farewell;
#[cfg(test)]
mod full_disk;
mod instances;
mod members;
pub(super) mod membership;
mod meters;
pub(super) mod receiving;
mod take_over;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{self, MissedTickBehavior, interval, sleep_until, timeout};

use self::evaluation::Collected;
use crate::Outcome;
use crate::cluster::Blueprint;
use crate::interrupted::Interrupted;
use crate::real::HEARTBEAT;
use crate::real::conductor::membership::{Membership, MembershipEvent};
use crate::real::conductor::meters::Meters;
use crate::real::conductor::receiving::{Message, Received};
use crate::real::connections::acceptor::Acceptor;
use crate::real::connections::message::{KeptModel, Order, Report, exists};
use crate::real::error::{ChannelError, RealError};
use crate::real::node::context::{NodeContext, nodes};
use crate::real::node::reminder::Reminder;
use crate::recorder::LinkCounters;
use crate::run_loop::{Ended, Evaluations, NodeReport, RunDriver, RunMonitor, execute_outputs};
use crate::server_stats::ServerStats;
use gaia_checkpoint::StateFile;
use gaia_config::KeepModel;
use gaia_core::application::Application;
use gaia_core::coordinator::{
    ClusterCoordinator, Coordinator, NoSource, NodeOrder, Recipients, StopReason,
};
use gaia_core::node::Probed;
use gaia_core::persist;
use gaia_core::server::Divergence;
use gaia_core::sync::WaitReason;
use gaia_core::types::{
    Clock, DcId, Instant, NodeId, Persist, ServerId, ShardLayout, SharedValues, State,
};
use gaia_telemetry::Observer;

/// The coordinator and the connections to all nodes.
pub(super) struct Conductor<'a> {
    context: &'a NodeContext,
    application: &'a Arc<dyn Application>,
    coordinator: ClusterCoordinator,
    monitor: RunMonitor<'a>,
    layouts: Vec<ShardLayout>,
    membership: Membership,
    /// Whether all nodes have been connected and have received each other's addresses.
    begun: bool,
    /// Nodes that are connected to all their peers.
    ready: BTreeSet<NodeId>,
    /// Whether a change of the state is to be written with the next outputs.
    unwritten: bool,
    meters: Meters,
    all_server_stats: BTreeMap<ServerId, ServerStats>,
    origin: time::Instant,
    collected: Collected,
    /// The number of evaluations so far. Copies are requested and sent under this number.
    tickets: u64,
    /// Orders that are written to the state file and sent next.
    unsaid: Vec<(Recipients, NodeOrder)>,
    /// The final model that servers write, if they do, and the servers that have written their shard.
    keeping: Option<KeptModel>,
    kept: BTreeSet<ServerId>,
    finished: bool,
    /// The end of the run. Present before any node can know of it.
    ended: Option<Ended>,
    /// The file with the state that another process of this coordinator needs to continue.
    file: Option<StateFile>,
    /// Ends the run in order.
    interrupted: Interrupted,
}

impl<'a> Conductor<'a> {
    /// The coordinator of a run that has not begun in this process.
    pub(super) fn new(
        context: &'a NodeContext,
        blueprint: &Blueprint<'_>,
        application: &'a Arc<dyn Application>,
        observer: &'a mut dyn Observer,
        acceptor: Acceptor,
        file: Option<StateFile>,
        interrupted: Interrupted,
    ) -> Self {
        let plan = &context.run_context.plan;
        let layouts = blueprint.layouts().to_vec();
        Self {
            context,
            application,
            coordinator: blueprint.cluster_coordinator(),
            monitor: RunMonitor::new(plan, observer),
            collected: Collected::default(),
            membership: Membership::new(context.run_context.clone(), layouts.clone(), acceptor),
            layouts,
            begun: false,
            ready: BTreeSet::new(),
            unwritten: false,
            meters: Meters::default(),
            all_server_stats: BTreeMap::new(),
            origin: time::Instant::now(),
            tickets: 0,
            unsaid: Vec::new(),
            keeping: None,
            kept: BTreeSet::new(),
            finished: false,
            ended: None,
            file,
            interrupted,
        }
    }

    /// Waits until all nodes of the run are connected, and sends them each other's addresses.
    pub(super) async fn gather(mut self) -> Result<Self, RealError> {
        self.take_up()?;
        self.show_absent();
        if self.ended.is_some() {
            // Nodes that have received the last order do not reconnect.
            self.begun = true;
            return Ok(self);
        }

        self.wait_for_nodes().await?;
        self.begun = true;
        self.welcome(self.present().collect()).await?;
        Ok(self)
    }

    /// Waits until all nodes that take part are connected.
    async fn wait_for_nodes(&mut self) -> Result<(), RealError> {
        let mut reminder = Reminder::new();
        let mut beat = interval(HEARTBEAT);
        loop {
            let missing = self.missing();
            if missing.is_empty() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = sleep_until(reminder.due()) => {
                    reminder.remind(&format!("waiting for {}", missing.join(", ")));
                }
                _ = beat.tick() => self.on_beat().await?,
                event = self.membership.next_event(&mut self.coordinator) => {
                    self.on_membership_event(event).await?;
                }
            }
            self.take_decisions()?;
        }
    }

    /// Executes the outputs of a coordinator that goes on, before all nodes are here: they expect no order before the
    /// addresses of servers, and receive all that are in force with those.
    fn take_decisions(&mut self) -> Result<(), RealError> {
        let Ok(()) = execute_outputs(self);
        if !std::mem::take(&mut self.unsaid).is_empty() {
            self.write_down()?;
        }
        Ok(())
    }

    /// The names of the nodes that take part and are not here.
    fn missing(&self) -> Vec<String> {
        let missing = self.present().filter(|node| {
            let is_connected = self.membership.has(*node);
            !self.coordinator.is_here(*node, is_connected)
        });
        missing.map(|node| self.context.run_context.name(node)).collect()
    }

    /// Conducts the run from its first clock to its last.
    pub(super) async fn conduct(mut self, wall: time::Instant) -> Result<Outcome, RealError> {
        let conducted = self.run().await;
        let ended = match conducted {
            Ok(ended) => ended,
            Err(error) => {
                // Nodes go on without this process, as after its crash: it has sent no order that is not on its disk.
                if !error.is_of_disk() {
                    let reason = error.to_string();
                    self.membership.send_all(|_| true, &Order::Abort { reason }).await;
                }
                self.membership.close_all().await;
                return Err(error);
            }
        };
        self.monitor.recorder.lan_bytes = self.meters.lan_bytes();
        let link_counters = self.meters.link_counters(&self.context.run_context.plan.topology);
        let application = self.application.as_ref();
        Ok(self.monitor.outcome(application, ended, &link_counters, wall.elapsed()))
    }

    async fn run(&mut self) -> Result<Ended, RealError> {
        if let Some(ended) = self.ended.clone() {
            self.see_off(self.present().collect()).await?;
            self.membership.close_all().await;
            return Ok(ended);
        }

        let mut tick = interval(HEARTBEAT);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.present().any(|node| !self.ready.contains(&node)) {
            tokio::select! {
                biased;
                _ = tick.tick() => self.on_beat().await?,
                event = self.membership.next_event(&mut self.coordinator) => {
                    self.on_membership_event(event).await?;
                }
            }
            // A run that goes on may have decisions to execute.
            if self.coordinator.run.has_output() {
                self.settle().await?;
            }
        }

        self.context.meter.on_begun();
        if !self.coordinator.orders().started {
            self.origin = time::Instant::now();
            self.coordinator.run.handle_start();
        }

        self.settle().await?;
        self.admit_all().await?;
        while !self.finished {
            let deadline = self.coordinator.run.poll_timeout();
            let deadline = deadline.map(|at| self.origin + Duration::from_nanos(at.as_nanos()));
            tokio::select! {
                biased;
                _ = tick.tick() => {
                    self.on_tick();
                    self.on_beat().await?;
                }
                event = self.membership.next_event(&mut self.coordinator) => {
                    self.on_membership_event(event).await?;
                }
                () = sleep_until(deadline.unwrap_or(self.origin)), if deadline.is_some() => {
                    self.coordinator.run.handle_timeout(self.now());
                }
            }
            self.conclude_evaluation().await?;
            self.conclude_snapshot();
            self.settle().await?;
        }

        while self.collected.evaluations.is_at_work() {
            tokio::select! {
                biased;
                _ = tick.tick() => self.on_beat().await?,
                event = self.membership.next_event(&mut self.coordinator) => {
                    self.on_membership_event(event).await?;
                }
            }
            self.conclude_evaluation().await?;
        }

        self.end().await
    }

    /// Evaluates the final copies, requests counters, and ends workers before servers.
    async fn end(&mut self) -> Result<Ended, RealError> {
        let servers = |node: &NodeId| matches!(node, NodeId::Server(_));
        self.dismiss_inactive("the run has ended").await;
        // A snapshot that is on its way would be taken for the final model.
        self.collected.copies = Evaluations::default();
        self.collected.evaluations.request(Clock::ZERO);
        self.begin_evaluation().await;
        self.coordinator.request_server_stats();
        self.membership.send_all(servers, &Order::ServerStats).await;
        let count = self.present().filter(servers).count();
        let mut beat = interval(HEARTBEAT);

        let (mut results, mut model) = (None, None);
        let (results, model) = loop {
            if let Some((_, found, _)) = self.collected.results(&self.application.metric()) {
                results = Some(found);
            }
            match self.keep() {
                KeepModel::Coordinator if model.is_none() => {
                    self.request_model().await;
                    model = self.collected.model().map(|(_, copy)| self.whole(&copy).values);
                }
                KeepModel::Coordinator => {}
                KeepModel::Home => {
                    if let Some(results) = &results {
                        self.keep_at_home(results).await;
                    }
                    if results.is_some() && self.is_kept() {
                        model = Some(SharedValues::default());
                    }
                }
            }
            if self.all_server_stats.len() == count
                && let (Some(results), Some(model)) = (&results, &model)
            {
                break (results.clone(), model.clone());
            }
            tokio::select! {
                biased;
                _ = beat.tick() => self.on_beat().await?,
                event = self.membership.next_event(&mut self.coordinator) => {
                    self.on_membership_event(event).await?;
                }
            }
        };

        let all_server_stats = self.all_server_stats.values().cloned().collect();
        let ended = Ended { results, all_server_stats, model };

        // A later process of this coordinator cannot request this from nodes that have ended.
        self.ended = Some(ended.clone());
        self.write_down()?;

        // Nodes that are disconnected for a moment must receive the end of the run.
        let back = async {
            while self.present().any(|node| !self.membership.has(node)) {
                if let MembershipEvent::Joined(node) =
                    self.membership.next_event(&mut self.coordinator).await
                {
                    self.on_joined(node).await?;
                }
            }
            Ok::<_, RealError>(())
        };

        timeout(RETURN_MAX, back).await.unwrap_or(Ok(()))?;
        self.membership.send_all(|node| !servers(node), &Order::End).await;
        self.membership.send_all(servers, &Order::End).await;
        self.see_off(
            nodes(&self.context.run_context).filter(|node| self.membership.has(*node)).collect(),
        )
        .await?;
        self.membership.close_all().await;

        Ok(ended)
    }

    /// Sends a heartbeat, and handles nodes that have been away for too long.
    async fn on_beat(&mut self) -> Result<(), RealError> {
        self.context.meter.on_turn();
        self.membership.send_all(|_| true, &Order::Alive).await;
        self.take_over().await;
        match self.coordinator.given_up(self.membership.now()) {
            None => Ok(()),
            Some(node) => {
                let after = self.context.run_context.plan.failures.give_up_after.0;
                let reason = format!("it was disconnected for {} s", after.as_secs());
                self.give_up(node, reason).await
            }
        }
    }

    async fn on_membership_event(&mut self, event: MembershipEvent) -> Result<(), RealError> {
        self.context.meter.on_turn();
        match event {
            MembershipEvent::Joined(node) => self.on_joined(node).await,
            MembershipEvent::CopyLost { server, other } => {
                Err(self.no_source(server, NoSource::OtherWaits(other)))
            }
            MembershipEvent::Received(received) if !self.coordinator.takes_part(received.node) => {
                self.on_received_from_inactive(received);
                Ok(())
            }
            MembershipEvent::Received(received) => self.on_received(received).await,
        }
    }

    async fn on_received(&mut self, received: Received) -> Result<(), RealError> {
        let Received { node, message, .. } = received;
        match message {
            Ok(Message::Report(report)) => self.on_report(node, report).await,
            Ok(Message::Copy { ticket, values }) => {
                self.on_copy(node, ticket, values);
                Ok(())
            }
            Err(reason) => {
                self.on_lost(node, &reason);
                Ok(())
            }
        }
    }

    /// Handles the final copy that a server sends.
    fn on_copy(&mut self, node: NodeId, ticket: u64, values: Vec<f32>) {
        let NodeId::Server(server) = node else {
            return self.refuse(node, "it sent a copy, expected one only from a server");
        };

        let (found, expected) = (values.len(), self.layouts[server.shard.index()].parameters());
        if found != expected {
            let reason = format!("it sent a copy of {found} parameters, expected {expected}");
            return self.refuse(node, &reason);
        }
        self.collected.copies.handle_part(server, ticket, values);
    }

    /// Handles the end of a node's connection.
    fn on_lost(&mut self, node: NodeId, reason: &ChannelError) {
        self.context.on_lost(node);
        if self.membership.lose(node, &reason.to_string()) {
            self.coordinator.handle_lost(self.membership.now(), node);
        }
    }

    async fn on_report(&mut self, node: NodeId, report: Report) -> Result<(), RealError> {
        match (node, report) {
            (_, Report::Failed { reason }) => {
                let node = self.context.run_context.name(node);
                return Err(RealError::Failed { node, reason });
            }
            (_, Report::Alive { links, lan_bytes }) if self.may_have_sent(node, &links) => {
                self.meters.on_lan(node, lan_bytes);
                if let NodeId::Server(server) = node {
                    for (to, counters) in links {
                        self.meters.on_link(server, to, counters);
                    }
                }
            }
            (node, Report::Ready) => {
                self.ready.insert(node);
            }
            (NodeId::Server(server), Report::ClockFinished(clock)) => {
                self.report(NodeReport::ClockFinished { server, clock });
            }
            (NodeId::Server(server), Report::CopyReady(clock)) => {
                self.report(NodeReport::CopyReady { server, clock });
            }
            (NodeId::Server(server), Report::Kept) => {
                self.kept.insert(server);
            }
            (NodeId::Server(server), Report::Drained) => {
                self.report(NodeReport::Drained { server });
            }
            (NodeId::Server(server), Report::Diverged(found))
                if found.worker.dc == server.dc && self.may_have_diverged(&found) =>
            {
                self.report(NodeReport::Diverged(found));
            }
            (NodeId::Server(server), Report::Probed(probed))
                if server.shard.0 == 0 && self.may_have_probed(server.dc, &probed) =>
            {
                self.report(NodeReport::Probed { dc: server.dc, probed });
            }
            (NodeId::Server(server), Report::ServerStats(server_stats))
                if server_stats.server == server
                    && server_stats.fits(&self.context.run_context.plan.topology) =>
            {
                self.all_server_stats.insert(server, *server_stats);
            }
            (NodeId::Server(server), Report::Refuses { peer, reason })
                if peer != server.dc && self.context.run_context.plan.topology.has(peer) =>
            {
                self.on_refuses(server, peer, &reason).await?;
            }
            (NodeId::Server(server), Report::Whole) => {
                if self.coordinator.handle_whole(server) {
                    self.admit_all().await?;
                }
            }
            (NodeId::Worker(worker), Report::Held(held)) if self.may_have_waited(&held) => {
                self.report(NodeReport::Held { dc: worker.dc, held });
            }
            (NodeId::Worker(worker), Report::Evaluated { ticket, sums, digest }) => {
                self.collected.evaluations.handle_part(worker, ticket, (sums, digest));
            }
            (NodeId::Worker(worker), Report::Ended) => self.report(NodeReport::Ended { worker }),
            (NodeId::Worker(worker), Report::Stopped(clock)) => {
                if self.coordinator.run.has_ordered_stop() {
                    self.report(NodeReport::Stopped { worker, clock });
                } else {
                    self.refuse(node, "it says that it has stopped, and was not ordered to");
                }
            }
            (_, _) => self.refuse(node, "it sent a report that is not valid for this node"),
        }

        Ok(())
    }

    /// Whether the run has the data centers to which a node says to have sent.
    fn may_have_sent(&self, node: NodeId, links: &[(DcId, LinkCounters)]) -> bool {
        let topology = &self.context.run_context.plan.topology;
        links.iter().all(|(to, _)| Some(*to) != node.dc() && topology.has(*to))
    }

    /// Whether the run has the worker and the row of a diverged change.
    fn may_have_diverged(&self, found: &Divergence) -> bool {
        let topology = &self.context.run_context.plan.topology;
        let table = self.application.layout().tables().get(found.table.index());
        usize::from(found.worker.index) < topology.dc(found.worker.dc).workers
            && table.is_some_and(|table| (found.row as usize) < table.rows)
    }

    /// Whether copies travel in the run, and one can have come to a data center from where it is said to have.
    fn may_have_probed(&self, at: DcId, probed: &Probed) -> bool {
        let plan = &self.context.run_context.plan;
        plan.sends_copies_to_look() && probed.of != at && plan.topology.has(probed.of)
    }

    /// Whether the run has what reads are said to have waited for.
    fn may_have_waited(&self, held: &[(WaitReason, Duration)]) -> bool {
        let topology = &self.context.run_context.plan.topology;
        held.iter().all(|(reason, _)| exists(*reason, topology))
    }

    /// Closes the connection of a node that has sent what it may not. Its node counts as lost until it connects again.
    fn refuse(&mut self, node: NodeId, reason: &str) {
        self.on_lost(node, &ChannelError::Other(reason.into()));
    }

    /// Passes a report of a node to the run's coordinator.
    fn report(&mut self, report: NodeReport) {
        let now = self.now();
        self.monitor.handle_report(now, &mut self.coordinator.run, report);
    }

    /// Executes the coordinator's outputs. Orders are written to the state file before they are sent, so that a later
    /// process of this coordinator keeps to them.
    async fn settle(&mut self) -> Result<(), RealError> {
        if !self.begun {
            return self.take_decisions();
        }
        let unwritten = std::mem::take(&mut self.unwritten);
        let Ok(()) = execute_outputs(self);
        self.begin_evaluation().await;

        let orders = std::mem::take(&mut self.unsaid);
        if unwritten || !orders.is_empty() {
            self.write_down()?;
        }

        for (to, order) in orders {
            let whom = |node: &NodeId| self.coordinator.is_for(to, *node);
            self.membership.send_all(whom, &order.into()).await;
        }

        Ok(())
    }

    fn on_tick(&mut self) {
        if self.interrupted.is_set() {
            self.coordinator.run.handle_interrupted();
        }
        let carried = self.meters.link_counters(&self.context.run_context.plan.topology);
        let now = self.now();
        self.monitor.show(now, &self.coordinator.run, &carried);
    }

    /// Continues from the state of an earlier process of this coordinator.
    fn take_up(&mut self) -> Result<(), RealError> {
        let state = self.file.as_ref().map(StateFile::read).transpose()?.flatten();
        let is_first = state.is_none();
        if let Some(state) = state {
            self.restore(state)?;
            // The process before may have given later tickets, and workers report again what they have found.
            self.tickets += TICKETS_PER_PROCESS;
        }

        let since_epoch = self.context.run_context.environment.since_epoch();
        self.coordinator.begin_process(is_first, since_epoch);
        self.write_down()
    }

    fn restore(&mut self, state: State) -> Result<(), RealError> {
        let mut now = Instant::ZERO;
        let restored = state.restore(|walk| {
            walk.record("now", &mut now)?;
            Persist::restore(self, walk, ())
        });
        restored.map_err(RealError::OtherState)?;
        let elapsed = now.since(Instant::ZERO);
        self.origin = time::Instant::now().checked_sub(elapsed).unwrap_or(self.origin);
        self.finished = self.coordinator.run.is_finished();
        self.monitor.show_again();
        for (lost, own) in self.coordinator.stand_ins().clone().iter() {
            self.show_taken_over(lost, own);
        }
        let away = nodes(&self.context.run_context).filter(|node| !self.membership.has(*node));
        self.coordinator.handle_restored(self.membership.now(), away);
        Ok(())
    }

    /// Writes the state that another process needs to continue.
    fn write_down(&self) -> Result<(), RealError> {
        let Some(file) = &self.file else { return Ok(()) };
        let state = State::of(|walk| {
            walk.record("now", &self.now())?;
            self.save(walk, ())
        });
        Ok(file.write(&state)?)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }
}

persist! {
    /// The state that nodes do not report again.
    impl Persist<()> for Conductor<'_> {
        fn walk(
            Self {
                coordinator,
                monitor: RunMonitor { recorder, .. },
                meters,
                tickets,
                ended,
                layouts,
                ..
            },
            walk,
            (),
        ) {
            walk.flatten(coordinator, ())?;
            walk.part("recorder", recorder, ())?;
            walk.record("meters", meters)?;
            walk.record("tickets", tickets)?;
            let parameters = layouts.iter().map(ShardLayout::parameters).sum::<usize>();
            walk.record_that("ended", ended, |found: &Option<Ended>, _| {
                found.as_ref().is_none_or(|ended| ended.model.len() == parameters)
            })
        }
    }
}

impl RunDriver for Conductor<'_> {
    type Error = Infallible;

    fn coordinator(&mut self) -> &mut Coordinator {
        &mut self.coordinator.run
    }

    fn order(&mut self, to: Recipients, order: NodeOrder) -> Result<(), Infallible> {
        self.coordinator.record(to, &order);
        self.unsaid.push((to, order));
        Ok(())
    }

    fn evaluate(&mut self, clock: Clock) {
        self.collected.evaluations.request(clock);
    }

    fn on_stop(&mut self, reason: StopReason) {
        let now = self.now();
        self.monitor.handle_stop(now, reason);
    }

    fn finish(&mut self) -> Result<(), Infallible> {
        self.finished = true;
        Ok(())
    }
}

/// More evaluations than a process of the coordinator begins.
const TICKETS_PER_PROCESS: u64 = 1 << 32;

/// How long the end of a run waits for disconnected nodes.
const RETURN_MAX: Duration = Duration::from_secs(10);
