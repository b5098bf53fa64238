//! The process side of the coordinator: gathers the nodes, passes its orders on, has copies judged, ends the run.
//!
//! **Who judges.** The objective of a run is over the data of all data centers, on the worst copy. So either data
//! or copies must travel, and data never leaves its data center: servers send their copies here, where the model is
//! judged on what the run file's `[app.data]` names, as in the other drivers. The coordinator must therefore be able to
//! read that data: made-up data, which it makes again from the seed, or a data set that may lie at one place, such as
//! a public one. Copies travel beside the protocol and are not counted as WAN traffic: they are the experimenter's eye.
//! That every data center judges every copy on its own data would need no such place, and cost each evaluation a
//! copy for each ordered pair of data centers. Where data must stay apart, stop by `clocks` or `seconds`.
//!
//! Copies are judged beside the run, which goes on meanwhile. Where judging takes longer than the clocks between
//! evaluations, fewer copies are judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant as Moment, MissedTickBehavior, interval, sleep_until, timeout};
use tracing::{info, warn};

use super::channel::Parcel;
use super::door::{Door, Guest};
use super::error::RealError;
use super::hearing::{Heard, Message, hear};
use super::message::{Answer, Order, Report, pack};
use super::site::{COMPLAIN_AFTER, COMPLAIN_EVERY, Seat};
use super::{HEARTBEAT, SILENCE_MAX};
use crate::coordinator::{Coordinator, CoordinatorOutput};
use crate::driver::Outcome;
use crate::driver::cluster::{Blueprint, server_ids, worker_ids};
use crate::driver::journal::{Carriage, Carriages, Journal};
use crate::driver::judge::{Verdict, highlights_of, judge_values};
use crate::driver::message_of;
use crate::driver::tally::Tally;
use crate::ml::Application;
use crate::telemetry::Observer;
use crate::types::{Clock, DcId, Instant, NodeId, ServerId, ShardLayout};
use crate::wire::LanKind;

/// The coordinator with every node on the line.
pub(super) struct Conductor<'a> {
    seat: &'a Seat,
    application: &'a Arc<dyn Application>,
    observer: &'a mut dyn Observer,
    coordinator: Coordinator,
    journal: Journal,
    layouts: Vec<ShardLayout>,
    lines: BTreeMap<NodeId, Sender<Parcel>>,
    incoming: Receiver<Heard>,
    /// Nodes that have met all they talk to.
    ready: BTreeSet<NodeId>,
    links: BTreeMap<(DcId, DcId), BTreeMap<ServerId, Carriage>>,
    lan_bytes: BTreeMap<NodeId, u64>,
    tallies: BTreeMap<ServerId, Tally>,
    origin: Moment,
    /// The copies under way, or at the judge's.
    judging: Option<Judging>,
    /// The latest evaluation that was asked for while another was at work.
    due: Option<Clock>,
    tickets: u64,
    finished: bool,
    /// Ends with the conductor.
    _reading: JoinSet<()>,
    writing: Vec<JoinHandle<()>>,
}

/// Copies as they were at some time, or what they are worth.
struct Judging {
    ticket: u64,
    at: Instant,
    clock: Clock,
    clocks: Vec<Clock>,
    carriages: Carriages,
    copies: BTreeMap<ServerId, Vec<f32>>,
    verdict: Option<JoinHandle<(Verdict, Copies)>>,
}

/// By data center, then shard.
type Copies = Vec<Vec<Vec<f32>>>;

impl<'a> Conductor<'a> {
    /// Waits until every node of the run is on the line, and tells them of each other.
    pub(super) async fn gather(
        seat: &'a Seat,
        blueprint: &Blueprint<'_>,
        application: &'a Arc<dyn Application>,
        observer: &'a mut dyn Observer,
        mut door: Door,
    ) -> Result<Self, RealError> {
        let plan = &seat.site.plan;
        let mut missing: BTreeSet<NodeId> = nodes(seat).collect();
        let (sender, incoming) = channel(HEARD_MAX);
        let mut conductor = Self {
            seat,
            application,
            observer,
            coordinator: blueprint.coordinator(),
            journal: Journal::new(plan),
            layouts: blueprint.layouts().to_vec(),
            lines: BTreeMap::new(),
            incoming,
            ready: BTreeSet::new(),
            links: BTreeMap::new(),
            lan_bytes: BTreeMap::new(),
            tallies: BTreeMap::new(),
            origin: Moment::now(),
            judging: None,
            due: None,
            tickets: 0,
            finished: false,
            _reading: JoinSet::new(),
            writing: Vec::new(),
        };
        let mut listening = BTreeMap::new();
        let mut complain = Moment::now() + COMPLAIN_AFTER;
        let mut beat = interval(HEARTBEAT);
        while !missing.is_empty() {
            tokio::select! {
                guest = door.guest() => {
                    let Some(guest) = guest else { break };
                    if let Some(node) = conductor.admit(guest, &mut listening, &sender).await {
                        missing.remove(&node);
                    }
                }
                Some(heard) = conductor.incoming.recv() => {
                    conductor.on_heard(heard)?;
                }
                () = sleep_until(complain) => {
                    let names: Vec<String> =
                        missing.iter().map(|node| seat.site.name(*node)).collect();
                    warn!("waiting for {}", names.join(", "));
                    complain = Moment::now() + COMPLAIN_EVERY;
                }
                _ = beat.tick() => {
                    seat.meter.on_turn();
                    conductor.tell_all(|_| true, &Order::Alive).await;
                }
            }
        }
        // Late callers and checks are still answered.
        conductor._reading.spawn(async move {
            while let Some(guest) = door.guest().await {
                guest.channel.refuse("this node is connected already".into()).await;
            }
        });
        let servers = listening.into_iter().collect();
        conductor.tell_all(|_| true, &Order::Begin { servers }).await;
        Ok(conductor)
    }

    async fn admit(
        &mut self,
        guest: Guest,
        listening: &mut BTreeMap<ServerId, String>,
        sender: &Sender<Heard>,
    ) -> Option<NodeId> {
        let Guest { hello, from, mut channel } = guest;
        let node = hello.node;
        if self.lines.contains_key(&node) {
            channel.refuse(format!("{} is connected already", self.seat.site.name(node))).await;
            return None;
        }
        if let NodeId::Server(id) = node {
            let named = self.seat.site.plan.deployment.server(id.dc, id.shard.index());
            let address = match (named, hello.listens) {
                (Some(named), _) => named.to_string(),
                // One that listens on every address is reached where it called from.
                (None, Some(at)) if at.ip().is_unspecified() => {
                    std::net::SocketAddr::new(from.ip(), at.port()).to_string()
                }
                (None, Some(at)) => at.to_string(),
                (None, None) => {
                    channel.refuse("a server listens somewhere".into()).await;
                    return None;
                }
            };
            listening.insert(id, address);
        }
        if channel.answer(&Answer::Welcome).await.is_err() {
            return None;
        }
        let (reader, parcels, writing) = channel.start(ORDERS_MAX);
        self.lines.insert(node, parcels);
        self.seat.on_connected(node);
        self.writing.push(writing);
        let copy_bytes_max = match node {
            NodeId::Server(id) => 8 + 4 * self.layouts[id.shard.index()].parameters(),
            _ => 0,
        };
        self._reading.spawn(hear(node, reader, copy_bytes_max, sender.clone()));
        Some(node)
    }

    /// Conducts the run from its first clock to its last.
    pub(super) async fn conduct(mut self, wall: Moment) -> Result<Outcome, RealError> {
        let conducted = self.run().await;
        let last = match conducted {
            Ok(last) => last,
            Err(error) => {
                let reason = error.to_string();
                self.tell_all(|_| true, &Order::Abort { reason }).await;
                self.hang_up().await;
                return Err(error);
            }
        };
        let (verdict, copies) = last;
        self.journal.lan_bytes = self.lan_bytes.values().sum();
        let carriages = self.carriages();
        let tallies: Vec<Tally> = std::mem::take(&mut self.tallies).into_values().collect();
        let copy = self.layouts.iter().zip(copies[0].iter().map(Vec::as_slice));
        let highlights = highlights_of(copy, self.application);
        let wall = wall.elapsed();
        let application = self.application.as_ref();
        let summary = self.journal.summary(&tallies, application, &verdict, &carriages, wall);
        Ok(Outcome { summary, progress: self.journal.into_progress(), highlights })
    }

    async fn run(&mut self) -> Result<(Verdict, Copies), RealError> {
        let all: BTreeSet<NodeId> = self.lines.keys().copied().collect();
        let mut tick = interval(HEARTBEAT);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.ready != all {
            tokio::select! {
                heard = self.incoming.recv() => self.on_some(heard)?,
                _ = tick.tick() => self.tell_all(|_| true, &Order::Alive).await,
            }
        }
        self.origin = Moment::now();
        self.coordinator.handle_start();
        self.seat.meter.on_begun();
        self.settle().await;
        while !self.finished {
            let deadline = self.coordinator.poll_timeout();
            let deadline = deadline.map(|at| self.origin + Duration::from_nanos(at.as_nanos()));
            tokio::select! {
                heard = self.incoming.recv() => self.on_some(heard)?,
                judged = judged(&mut self.judging) => {
                    self.on_verdict(judged?.0);
                    self.evaluate().await;
                }
                () = sleep_until(deadline.unwrap_or(self.origin)), if deadline.is_some() => {
                    self.coordinator.handle_timeout(self.now());
                }
                _ = tick.tick() => {
                    self.on_tick();
                    self.tell_all(|_| true, &Order::Alive).await;
                }
            }
            self.settle().await;
        }
        while self.judging.is_some() {
            tokio::select! {
                heard = self.incoming.recv() => self.on_some(heard)?,
                judged = judged(&mut self.judging) => self.on_verdict(judged?.0),
            }
        }
        self.end().await
    }

    /// Judges the last copies, asks what was counted, and ends workers before servers.
    async fn end(&mut self) -> Result<(Verdict, Copies), RealError> {
        let servers = |node: &NodeId| matches!(node, NodeId::Server(_));
        self.due = Some(Clock::ZERO);
        self.evaluate().await;
        self.tell_all(servers, &Order::Tally).await;
        let count = self.seat.site.plan.topology.servers();
        let last = loop {
            tokio::select! {
                heard = self.incoming.recv() => self.on_some(heard)?,
                judged = judged(&mut self.judging), if self.tallies.len() == count => break judged?,
            }
        };
        self.tell_all(|node| !servers(node), &Order::End).await;
        self.tell_all(servers, &Order::End).await;
        self.hang_up().await;
        Ok(last)
    }

    fn on_some(&mut self, heard: Option<Heard>) -> Result<(), RealError> {
        self.on_heard(heard.expect("a line tells of its own end before it ends"))
    }

    fn on_heard(&mut self, heard: Heard) -> Result<(), RealError> {
        let Heard { node, message } = heard;
        self.seat.meter.on_turn();
        let name = || self.seat.site.name(node);
        let broken = |reason: &str| RealError::Broken { from: name(), reason: reason.into() };
        let report = match message {
            Ok(Message::Report(report)) => report,
            Ok(Message::Copy { ticket, values }) => {
                let NodeId::Server(server) = node else { return Err(broken("it has no copy")) };
                if values.len() != self.layouts[server.shard.index()].parameters() {
                    return Err(broken("a copy of another size than the shard's"));
                }
                self.on_copy(server, ticket, values);
                return Ok(());
            }
            Err(reason) => {
                self.seat.on_lost(node);
                return Err(RealError::Lost { node: name(), reason });
            }
        };
        match (node, report) {
            (_, Report::Ready) => drop(self.ready.insert(node)),
            (_, Report::Failed { reason }) => {
                return Err(RealError::Failed { node: name(), reason });
            }
            (_, Report::Alive { links, lan_bytes }) => {
                self.lan_bytes.insert(node, lan_bytes);
                if let NodeId::Server(server) = node {
                    for (to, carriage) in links {
                        self.links.entry((server.dc, to)).or_default().insert(server, carriage);
                    }
                }
            }
            (NodeId::Server(server), Report::ClockFinished(clock)) => {
                self.coordinator.handle_clock_finished(server, clock);
                let clocks = self.clocks();
                self.journal.on_clocks(clocks.iter().copied());
            }
            (NodeId::Server(server), Report::CopyReady(clock)) => {
                self.coordinator.handle_copy_ready(server, clock);
            }
            (NodeId::Server(_), Report::Drained) => self.coordinator.handle_drained(),
            (NodeId::Server(server), Report::Tally(tally)) if tally.server == server => {
                self.tallies.insert(server, *tally);
            }
            (NodeId::Worker(worker), Report::Held(held)) => self.journal.on_held(worker.dc, &held),
            (NodeId::Worker(worker), Report::Stopped(clock)) => {
                self.coordinator.handle_worker_stopped(worker, clock);
            }
            (_, _) => return Err(broken("it reports what is not its business")),
        }
        Ok(())
    }

    fn on_copy(&mut self, server: ServerId, ticket: u64, values: Vec<f32>) {
        let count = self.seat.site.plan.topology.servers();
        let shards = self.layouts.len();
        let Some(judging) = self.judging.as_mut().filter(|judging| judging.ticket == ticket) else {
            return;
        };
        judging.copies.insert(server, values);
        if judging.copies.len() < count {
            return;
        }
        let mut all = std::mem::take(&mut judging.copies).into_values();
        let copies: Copies =
            (0..count / shards).map(|_| all.by_ref().take(shards).collect()).collect();
        let (layouts, application) = (self.layouts.clone(), self.application.clone());
        judging.verdict =
            Some(spawn_blocking(move || (judge_values(&copies, &layouts, &application), copies)));
    }

    async fn settle(&mut self) {
        while let Some(output) = self.coordinator.poll_output() {
            match output {
                CoordinatorOutput::Start => self.tell_all(is_worker, &Order::Start).await,
                CoordinatorOutput::Evaluate { clock } => {
                    self.due = Some(clock);
                    self.evaluate().await;
                }
                CoordinatorOutput::Stop { last, reason } => {
                    self.journal.on_stop(self.now(), reason);
                    self.tell_all(is_worker, &Order::Stop { last }).await;
                }
                CoordinatorOutput::Drain { dc, clocks } => {
                    let own = |node: &NodeId| matches!(node, NodeId::Server(id) if id.dc == dc);
                    self.tell_all(own, &Order::Drain { clocks }).await;
                }
                CoordinatorOutput::Finished => self.finished = true,
            }
        }
    }

    /// Asks every server for its copy, where an evaluation is due and none at work.
    async fn evaluate(&mut self) {
        if self.judging.is_some() {
            return;
        }
        let Some(clock) = self.due.take() else { return };
        self.tickets += 1;
        let ticket = self.tickets;
        self.judging = Some(Judging {
            ticket,
            at: self.now(),
            clock,
            clocks: self.clocks(),
            carriages: self.carriages(),
            copies: BTreeMap::new(),
            verdict: None,
        });
        self.tell_all(|node| !is_worker(node), &Order::Copy { ticket }).await;
    }

    fn on_verdict(&mut self, verdict: Verdict) {
        let judging = self.judging.take().expect("a verdict follows an evaluation");
        let Judging { at, clock, clocks, carriages, .. } = judging;
        let progress = self.journal.on_evaluation(at, clock, &verdict, &clocks, &carriages);
        info!(clock = progress.clock, objective = progress.objective, "copies were evaluated");
        self.observer.on_progress(progress);
        let objective = verdict.worst().objective;
        self.coordinator.handle_evaluation(self.now(), clock, objective);
    }

    fn on_tick(&mut self) {
        let topology = &self.seat.site.plan.topology;
        let carried = self.carriages();
        let sent = |dc: DcId| {
            let own = topology.links.iter().zip(&carried).filter(|(link, _)| link.from == dc);
            own.map(|(_, carriage)| carriage.bytes).sum()
        };
        let sent: Vec<u64> = topology.dc_ids().map(sent).collect();
        let clocks: Vec<u64> = self.clocks().iter().map(|clock| clock.0).collect();
        self.observer.on_tick(self.now().as_secs_f64(), &clocks, &sent);
    }

    /// What each link has carried, as of the servers' latest reports.
    fn carriages(&self) -> Carriages {
        let topology = &self.seat.site.plan.topology;
        let sum = |from, to| {
            let servers = self.links.get(&(from, to)).into_iter().flat_map(BTreeMap::values);
            servers.fold(Carriage::default(), |sum, one| Carriage {
                bytes: sum.bytes.saturating_add(one.bytes),
                control_bytes: sum.control_bytes.saturating_add(one.control_bytes),
                frames: sum.frames.saturating_add(one.frames),
                busy: sum.busy.saturating_add(one.busy / topology.dc(from).servers as u32),
            })
        };
        topology.links.iter().map(|link| sum(link.from, link.to)).collect()
    }

    async fn tell_all(&self, whom: impl Fn(&NodeId) -> bool, order: &Order) {
        let body = pack(order);
        for (_, line) in self.lines.iter().filter(|(node, _)| whom(node)) {
            // A node that has gone is noticed by who hears its line. One that does not read is, too.
            let _gone = timeout(SILENCE_MAX, line.send((LanKind::Order, body.clone()))).await;
        }
    }

    /// Sends what is in hand, and closes every line.
    async fn hang_up(&mut self) {
        self.lines.clear();
        for writing in self.writing.drain(..) {
            let _late = timeout(HANG_UP_MAX, writing).await;
        }
    }

    fn clocks(&self) -> Vec<Clock> {
        let topology = &self.seat.site.plan.topology;
        topology.dc_ids().map(|dc| self.coordinator.clock_of(dc)).collect()
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }
}

/// Every node of a run but the coordinator.
pub(super) fn nodes(seat: &Seat) -> impl Iterator<Item = NodeId> + '_ {
    let topology = &seat.site.plan.topology;
    server_ids(topology).map(NodeId::Server).chain(worker_ids(topology).map(NodeId::Worker))
}

fn is_worker(node: &NodeId) -> bool {
    matches!(node, NodeId::Worker(_))
}

/// Waits for the judge; for ever where nothing is at the judge's.
async fn judged(judging: &mut Option<Judging>) -> Result<(Verdict, Copies), RealError> {
    match judging.as_mut().and_then(|judging| judging.verdict.as_mut()) {
        Some(verdict) => verdict.await.map_err(|error| RealError::Panicked {
            part: "the evaluation".into(),
            message: error
                .try_into_panic()
                .map_or_else(|error| error.to_string(), |panic| message_of(&*panic)),
        }),
        None => std::future::pending().await,
    }
}

const HEARD_MAX: usize = 1024;
const ORDERS_MAX: usize = 64;
const HANG_UP_MAX: Duration = Duration::from_secs(2);
