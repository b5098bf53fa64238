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

mod arrival;
mod farewell;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant as Moment, MissedTickBehavior, interval, sleep_until, timeout};
use tracing::{info, warn};

use super::HEARTBEAT;
use super::door::Door;
use super::error::RealError;
use super::hearing::{Heard, Message};
use super::judging::{Copies, Judging, judged};
use super::lives::Lives;
use super::message::{Order, Report};
use super::meters::Meters;
use super::roll::{News, Roll};
use super::site::{COMPLAIN_AFTER, COMPLAIN_EVERY, Seat, nodes};
use super::standing::Standing;
use crate::checkpoint::StateFile;
use crate::coordinator::{Coordinator, CoordinatorOutput};
use crate::driver::Outcome;
use crate::driver::cluster::{Blueprint, server_ids};
use crate::driver::journal::Journal;
use crate::driver::judge::{Verdict, highlights_of};
use crate::driver::tally::Tally;
use crate::ml::Application;
use crate::telemetry::Observer;
use crate::types::{Clock, DcId, Instant, NodeId, ServerId, ShardLayout, State, StateError, Walk};

/// The coordinator and the lines to all nodes.
pub(super) struct Conductor<'a> {
    seat: &'a Seat,
    application: &'a Arc<dyn Application>,
    observer: &'a mut dyn Observer,
    coordinator: Coordinator,
    journal: Journal,
    layouts: Vec<ShardLayout>,
    roll: Roll,
    /// Whether all nodes have been on the line, and know of each other.
    begun: bool,
    /// Nodes that have met all they talk to.
    ready: BTreeSet<NodeId>,
    /// What nodes are to know that come back.
    standing: Standing,
    lives: Lives,
    /// Whether there is something to keep that is kept with the next outputs.
    unwritten: bool,
    meters: Meters,
    tallies: BTreeMap<ServerId, Tally>,
    origin: Moment,
    /// The copies under way, or at the judge's.
    judging: Option<Judging>,
    /// The latest evaluation that was asked for while another was at work.
    due: Option<Clock>,
    tickets: u64,
    finished: bool,
    /// Where this coordinator keeps what it needs to go on in another process.
    file: Option<StateFile>,
}

impl<'a> Conductor<'a> {
    /// Waits until every node of the run is on the line, and tells them of each other.
    pub(super) async fn gather(
        seat: &'a Seat,
        blueprint: &Blueprint<'_>,
        application: &'a Arc<dyn Application>,
        observer: &'a mut dyn Observer,
        door: Door,
        file: Option<StateFile>,
    ) -> Result<Self, RealError> {
        let plan = &seat.site.plan;
        let layouts = blueprint.layouts().to_vec();
        let mut conductor = Self {
            seat,
            application,
            observer,
            coordinator: blueprint.coordinator(),
            journal: Journal::new(plan),
            roll: Roll::new(seat.site.clone(), layouts.clone(), door),
            layouts,
            begun: false,
            ready: BTreeSet::new(),
            standing: Standing::default(),
            lives: Lives::default(),
            unwritten: false,
            meters: Meters::default(),
            tallies: BTreeMap::new(),
            origin: Moment::now(),
            judging: None,
            due: None,
            tickets: 0,
            finished: false,
            file,
        };
        conductor.take_up()?;
        let mut complain = Moment::now() + COMPLAIN_AFTER;
        let mut beat = interval(HEARTBEAT);
        loop {
            let missing = nodes(&seat.site).filter(|node| !conductor.roll.has(*node));
            let missing: Vec<String> = missing.map(|node| seat.site.name(node)).collect();
            if missing.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                () = sleep_until(complain) => {
                    warn!("waiting for {}", missing.join(", "));
                    complain = Moment::now() + COMPLAIN_EVERY;
                }
                _ = beat.tick() => {
                    seat.meter.on_turn();
                    conductor.roll.tell_all(|_| true, &Order::Alive).await;
                }
                news = conductor.roll.news() => conductor.on_news(news).await?,
            }
        }
        conductor.begun = true;
        for server in server_ids(&plan.topology) {
            conductor.meet(server).await?;
        }
        conductor.roll.tell_all(|_| true, &conductor.roll.begin()).await;
        for node in nodes(&seat.site) {
            conductor.tell_standing(node).await;
        }
        Ok(conductor)
    }

    /// Conducts the run from its first clock to its last.
    pub(super) async fn conduct(mut self, wall: Moment) -> Result<Outcome, RealError> {
        let conducted = self.run().await;
        let last = match conducted {
            Ok(last) => last,
            Err(error) => {
                let reason = error.to_string();
                self.roll.tell_all(|_| true, &Order::Abort { reason }).await;
                self.roll.hang_up().await;
                return Err(error);
            }
        };
        let (verdict, copies) = last;
        self.journal.lan_bytes = self.meters.lan_bytes();
        let carriages = self.meters.carriages(&self.seat.site.plan.topology);
        let tallies: Vec<Tally> = std::mem::take(&mut self.tallies).into_values().collect();
        let copy = self.layouts.iter().zip(copies[0].iter().map(Vec::as_slice));
        let highlights = highlights_of(copy, self.application);
        let wall = wall.elapsed();
        let application = self.application.as_ref();
        let summary = self.journal.summary(&tallies, application, &verdict, &carriages, wall);
        Ok(Outcome { summary, progress: self.journal.into_progress(), highlights })
    }

    async fn run(&mut self) -> Result<(Verdict, Copies), RealError> {
        let all: BTreeSet<NodeId> = nodes(&self.seat.site).collect();
        let mut tick = interval(HEARTBEAT);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.ready != all {
            tokio::select! {
                biased;
                _ = tick.tick() => self.on_beat().await?,
                news = self.roll.news() => self.on_news(news).await?,
            }
        }
        self.seat.meter.on_begun();
        if !self.standing.started {
            self.origin = Moment::now();
            self.coordinator.handle_start();
        }
        self.settle().await?;
        while !self.finished {
            let deadline = self.coordinator.poll_timeout();
            let deadline = deadline.map(|at| self.origin + Duration::from_nanos(at.as_nanos()));
            tokio::select! {
                biased;
                _ = tick.tick() => {
                    self.on_tick();
                    self.on_beat().await?;
                }
                judged = judged(&mut self.judging) => {
                    self.on_verdict(judged?.0)?;
                    self.evaluate().await;
                }
                news = self.roll.news() => self.on_news(news).await?,
                () = sleep_until(deadline.unwrap_or(self.origin)), if deadline.is_some() => {
                    self.coordinator.handle_timeout(self.now());
                }
            }
            self.settle().await?;
        }
        while self.judging.is_some() {
            tokio::select! {
                biased;
                _ = tick.tick() => self.on_beat().await?,
                judged = judged(&mut self.judging) => self.on_verdict(judged?.0)?,
                news = self.roll.news() => self.on_news(news).await?,
            }
        }
        self.end().await
    }

    /// Judges the last copies, asks what was counted, and ends workers before servers.
    async fn end(&mut self) -> Result<(Verdict, Copies), RealError> {
        let servers = |node: &NodeId| matches!(node, NodeId::Server(_));
        self.due = Some(Clock::ZERO);
        self.evaluate().await;
        self.standing.tally = true;
        self.roll.tell_all(servers, &Order::Tally).await;
        let count = self.seat.site.plan.topology.servers();
        let mut beat = interval(HEARTBEAT);
        let last = loop {
            tokio::select! {
                biased;
                _ = beat.tick() => self.on_beat().await?,
                judged = judged(&mut self.judging), if self.tallies.len() == count => break judged?,
                news = self.roll.news() => self.on_news(news).await?,
            }
        };
        // Who is away for a moment is to hear that the run is over.
        let back = async {
            while nodes(&self.seat.site).any(|node| !self.roll.has(node)) {
                if let News::Joined(node) = self.roll.news().await {
                    self.on_joined(node).await?;
                }
            }
            Ok::<_, RealError>(())
        };
        timeout(RETURN_MAX, back).await.unwrap_or(Ok(()))?;
        self.roll.tell_all(|node| !servers(node), &Order::End).await;
        self.roll.tell_all(servers, &Order::End).await;
        self.see_off().await?;
        self.roll.hang_up().await;
        Ok(last)
    }

    /// Says that the coordinator is there, and looks whether somebody has been away for too long.
    async fn on_beat(&mut self) -> Result<(), RealError> {
        self.seat.meter.on_turn();
        self.roll.tell_all(|_| true, &Order::Alive).await;
        let after = self.seat.site.plan.failures.give_up_after.0;
        match self.roll.given_up(after) {
            None => Ok(()),
            Some(node) => {
                let reason = format!("it was away for {} s", after.as_secs());
                Err(RealError::Lost { node: self.seat.site.name(node), reason })
            }
        }
    }

    async fn on_news(&mut self, news: News) -> Result<(), RealError> {
        self.seat.meter.on_turn();
        match news {
            News::Joined(node) => self.on_joined(node).await,
            News::Heard(heard) => self.on_heard(heard),
        }
    }

    fn on_heard(&mut self, heard: Heard) -> Result<(), RealError> {
        let Heard { node, message, .. } = heard;
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
                self.roll.lose(node, &reason.to_string());
                return Ok(());
            }
        };
        match (node, report) {
            (_, Report::Ready) => {
                self.ready.insert(node);
                if let NodeId::Server(server) = node {
                    self.lives.on_ready(server);
                }
            }
            (_, Report::Failed { reason }) => {
                return Err(RealError::Failed { node: name(), reason });
            }
            (_, Report::Alive { links, lan_bytes }) => {
                self.meters.on_lan(node, lan_bytes);
                if let NodeId::Server(server) = node {
                    for (to, carriage) in links {
                        self.meters.on_link(server, to, carriage);
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
            (NodeId::Server(server), Report::Drained) => self.coordinator.handle_drained(server),
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
        if let Some(judging) = self.judging.as_mut().filter(|judging| judging.ticket == ticket) {
            judging.take(server, values, count, &self.layouts, self.application);
        }
    }

    async fn settle(&mut self) -> Result<(), RealError> {
        let mut moved = std::mem::take(&mut self.unwritten);
        while let Some(output) = self.coordinator.poll_output() {
            match output {
                CoordinatorOutput::Start => {
                    self.standing.started = true;
                    moved = true;
                    self.roll.tell_all(is_worker, &Order::Start).await;
                }
                CoordinatorOutput::Evaluate { clock } => {
                    self.due = Some(clock);
                    self.evaluate().await;
                }
                CoordinatorOutput::Stop { last, reason } => {
                    self.journal.on_stop(self.now(), reason);
                    self.standing.stop = Some(last);
                    moved = true;
                    self.roll.tell_all(is_worker, &Order::Stop { last }).await;
                }
                CoordinatorOutput::Drain { dc, clocks } => {
                    let own = |node: &NodeId| matches!(node, NodeId::Server(id) if id.dc == dc);
                    self.standing.drain.insert(dc, clocks.clone());
                    moved = true;
                    self.roll.tell_all(own, &Order::Drain { clocks }).await;
                }
                CoordinatorOutput::Finished => self.finished = true,
            }
        }
        if moved { self.write_down() } else { Ok(()) }
    }

    /// Asks every server for its copy, where an evaluation is due and none at work.
    async fn evaluate(&mut self) {
        if self.judging.is_some() {
            return;
        }
        let Some(clock) = self.due.take() else { return };
        self.tickets += 1;
        let ticket = self.tickets;
        let carriages = self.meters.carriages(&self.seat.site.plan.topology);
        self.judging = Some(Judging::new(ticket, self.now(), clock, self.clocks(), carriages));
        self.roll.tell_all(|node| !is_worker(node), &Order::Copy { ticket }).await;
    }

    fn on_verdict(&mut self, verdict: Verdict) -> Result<(), RealError> {
        let judging = self.judging.take().expect("a verdict follows an evaluation");
        let Judging { at, clock, clocks, carriages, .. } = judging;
        let progress = self.journal.on_evaluation(at, clock, &verdict, &clocks, &carriages);
        info!(clock = progress.clock, objective = progress.objective, "copies were evaluated");
        self.observer.on_progress(progress);
        let objective = verdict.worst().objective;
        self.coordinator.handle_evaluation(self.now(), clock, objective);
        // What that decides is carried out, and written down, by who settles.
        if self.coordinator.has_output() { Ok(()) } else { self.write_down() }
    }

    fn on_tick(&mut self) {
        let topology = &self.seat.site.plan.topology;
        let carried = self.meters.carriages(&self.seat.site.plan.topology);
        let sent = |dc: DcId| {
            let own = topology.links.iter().zip(&carried).filter(|(link, _)| link.from == dc);
            own.map(|(_, carriage)| carriage.bytes).sum()
        };
        let sent: Vec<u64> = topology.dc_ids().map(sent).collect();
        let clocks: Vec<u64> = self.clocks().iter().map(|clock| clock.0).collect();
        self.observer.on_tick(self.now().as_secs_f64(), &clocks, &sent);
    }

    /// Goes on where another process of this coordinator was.
    fn take_up(&mut self) -> Result<(), RealError> {
        let Some(state) = self.file.as_ref().map(StateFile::read).transpose()?.flatten() else {
            return Ok(());
        };
        let mut now = Instant::ZERO;
        state.restore(|walk| self.walk(&mut now, walk)).map_err(RealError::OtherState)?;
        let elapsed = now.since(Instant::ZERO);
        self.origin = Moment::now().checked_sub(elapsed).unwrap_or(self.origin);
        self.finished = self.coordinator.is_finished();
        for progress in self.journal.progress() {
            self.observer.on_progress(progress);
        }
        Ok(())
    }

    /// Keeps what it takes to go on in another process.
    fn write_down(&mut self) -> Result<(), RealError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut now = self.now();
        let written = file.write(&State::of(|walk| self.walk(&mut now, walk)));
        self.file = Some(file);
        Ok(written?)
    }

    /// Walks over what changes as time goes on and nodes do not say again.
    fn walk(&mut self, now: &mut Instant, walk: &mut Walk<'_>) -> Result<(), StateError> {
        walk.record("now", now)?;
        self.coordinator.state(&mut walk.at("coordinator"))?;
        self.journal.state(&mut walk.at("journal"))?;
        walk.record("standing", &mut self.standing)?;
        walk.record("lives", &mut self.lives)?;
        walk.record("meters", &mut self.meters)?;
        walk.record("tickets", &mut self.tickets)
    }

    fn clocks(&self) -> Vec<Clock> {
        let topology = &self.seat.site.plan.topology;
        topology.dc_ids().map(|dc| self.coordinator.clock_of(dc)).collect()
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }
}

fn is_worker(node: &NodeId) -> bool {
    matches!(node, NodeId::Worker(_))
}

/// How long nodes that are away at the end of a run are waited for.
const RETURN_MAX: Duration = Duration::from_secs(10);
