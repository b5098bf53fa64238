//! The process side of a parameter server: it moves the messages of one [`RecoverableServer`] and tells it the time.
//!
//! It goes round in groups: what has come is handed in, frames are cut where links have room, and then everything that
//! this makes the server say is written down and let out.

mod guests;
mod links;
mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tokio::time::{Instant as Moment, Interval, MissedTickBehavior, interval, sleep_until};
use tracing::info;

use super::diary::Diary;
use super::door::{Door, Guest, listen};
use super::error::RealError;
use super::ground::{Datagrams, Ground, Listener};
use super::line::{Line, addresses_of};
use super::measure::Meters;
use super::message::{Life, Order, Report};
use super::mirrors::{
    Addresses, FromMirror, Link, MESSAGES_IN_HAND_MAX, Mirrors, Reunion, windows_of,
};
use super::site::Seat;
use super::stand_ins::StandIns;
use super::workers::Workers;
use super::{Errand, Exit, HEARTBEAT, Interrupted, NearWorker};
use crate::tally::Tally;
use gaia_core::node::WorkerMessage;
use gaia_core::recovery::{Due, Output, RecoverableServer, RecoveringServer};
use gaia_core::server::Server;
use gaia_core::types::{Clock, DcId, Instant, Lane, NodeId, ServerId, WorkerId};

/// A server at work.
struct ServerNode {
    seat: Seat,
    server: RecoverableServer,
    /// Nothing where a crash is the end.
    diary: Option<Diary>,
    mirrors: Mirrors,
    links: BTreeMap<DcId, Link>,
    workers: Workers,
    door: Door,
    /// Workers that called while the copy was on its way; nothing for the one in this process.
    parked: BTreeMap<WorkerId, Option<Guest>>,
    /// Who is heard in the place of which worker.
    stand_ins: StandIns,
    /// Data centers that must not train, as was last logged, each with one that trains.
    paused: BTreeMap<DcId, DcId>,
    beat: Interval,
    /// The server's time, and when it was that.
    origin: (Instant, Moment),
    /// Whether everyone has been met, and the coordinator knows.
    ready: bool,
    interrupted: Interrupted,
    meters: Meters,
}

/// What can happen to a server.
enum Happening {
    Order(Order),
    Beat,
    Worker(WorkerId, WorkerMessage),
    Guest(Box<Guest>),
    Mirror(FromMirror),
    Timeout,
    /// News or a look at a connection is due.
    Link,
}

/// Runs one server until the coordinator ends the run.
pub(super) async fn serve(
    seat: Seat,
    id: ServerId,
    server: Server,
    errand: &Errand,
    listens: SocketAddr,
    near: Option<NearWorker>,
) -> Result<Exit, RealError> {
    let (tcp, udp) = bind(&*seat.site.ground, listens).await?;
    let listens = tcp.local_addr()?;
    // Both are open before anybody is waited for, so that links can be checked.
    let own = seat.site.plan.topology.dc(id.dc).workers as u16;
    let workers: BTreeSet<WorkerId> = (0..own).map(|index| WorkerId { dc: id.dc, index }).collect();
    let door = Door::open(&seat, tcp, workers.iter().copied().map(NodeId::Worker).collect());
    let mirrors = Mirrors::open(&seat, id, udp)?;
    let parameters = server.layout().parameters();
    let callers = Workers::new(&seat, server.layout().clone(), workers.clone(), near);
    let windows = windows_of(&seat.site.plan.topology, id.dc);
    let server = RecoveringServer::new(server, workers, windows);
    let (diary, server) = match &errand.shelf {
        Some(shelf) => {
            let (diary, server) = shelf.recover(&seat, server)?;
            (Some(diary), server)
        }
        None => {
            info!("nothing is kept of {}: after a crash it has what a mirror has", seat.name());
            (None, server)
        }
    };
    let (incarnation, called) = match server.goes_on_as() {
        Some(incarnation) => (incarnation, None),
        None => tokio::select! {
            biased;
            called = Line::call_to_begin(&seat, &errand.coordinator, listens) => {
                let (incarnation, channel) = called?;
                (incarnation, Some(channel))
            }
            () = errand.interrupted.set() => return Ok(Exit::Interrupted),
        },
    };
    let origin = (server.now(), Moment::now());
    let mut beat = interval(HEARTBEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let topology = &seat.site.plan.topology;
    let links = topology.dc_ids().filter(|peer| *peer != id.dc);
    let mut node = ServerNode {
        seat: seat.clone(),
        links: links.map(|peer| (peer, Link::new(topology, id.dc, peer, parameters))).collect(),
        server: server.begin(diary.is_some(), incarnation),
        diary,
        mirrors,
        workers: callers,
        door,
        parked: BTreeMap::new(),
        stand_ins: StandIns::default(),
        paused: BTreeMap::new(),
        beat,
        origin,
        ready: false,
        interrupted: errand.interrupted.clone(),
        meters: Meters::new(&seat, id),
    };
    let life = Life {
        began: node.server.began().number(),
        incarnation: incarnation.number(),
        is_new: node.server.is_new(),
    };
    let coordinator = &errand.coordinator;
    let mut line = match called {
        Some(channel) => Line::over(&seat, coordinator, Some(listens), Some(life), channel),
        None => tokio::select! {
            biased;
            line = Line::open(&seat, coordinator, Some(listens), Some(life)) => line?,
            () = errand.interrupted.set() => return Ok(Exit::Interrupted),
        },
    };
    let served = async {
        let begun = tokio::select! {
            biased;
            begun = line.begin() => begun?,
            () = errand.interrupted.set() => return Ok(Exit::Interrupted),
        };
        if let Some((from, absent)) = begun.copy_from {
            node.rebuild(from, &absent)?;
        }
        node.stand_ins = begun.stand_ins;
        let exit = node.run(&mut line, begun.servers).await?;
        node.mirrors.close().await;
        Ok(exit)
    };
    let served = served.await;
    line.finish(served).await
}

impl ServerNode {
    async fn run(&mut self, line: &mut Line, addresses: Addresses) -> Result<Exit, RealError> {
        self.seat.meter.on_begun();
        self.stand(line).await;
        self.mirrors.reach(addresses);
        // What was heard again has had its consequences; that this process has begun has not.
        self.write()?;
        if let Some(worker) = self.workers.near().filter(|near| self.stand_ins.of(*near).is_none())
        {
            self.let_in(worker, None)?;
        }
        loop {
            self.seat.meter.on_turn();
            let mut happening = self.next(line).await?;
            for taken in 1.. {
                if let Happening::Order(Order::End) = happening {
                    return Ok(Exit::Over);
                }
                self.handle(happening, line).await?;
                // Asked for before it is known that there is room, what comes next would be lost.
                if taken == GROUP_MAX {
                    break;
                }
                happening = tokio::select! {
                    biased;
                    next = self.next(line) => next?,
                    () = std::future::ready(()) => break,
                };
            }
            // What they are owed leaves with this group.
            self.let_in_parked()?;
            self.settle(line).await?;
            self.keep_if_due()?;
            if self.interrupted.is_set() {
                self.keep()?;
                return Ok(Exit::Interrupted);
            }
        }
    }

    /// Waits for what happens next. Dropping the future loses nothing.
    async fn next(&mut self, line: &mut Line) -> Result<Happening, RealError> {
        let timeout = self.server.poll_timeout().map(|at| self.moment(at));
        let links = self.links.values().flat_map(|link| [link.news_due, Some(link.watch.due())]);
        let links = links.flatten().min();
        let now = Moment::now();
        let happening = tokio::select! {
            biased;
            order = line.order() => Happening::Order(order?),
            _ = self.beat.tick() => Happening::Beat,
            guest = self.door.guest() => Happening::Guest(Box::new(guest)),
            (worker, message) = self.workers.next() => Happening::Worker(worker, message),
            from = self.mirrors.next() => Happening::Mirror(from?),
            () = sleep_until(links.unwrap_or(now)), if links.is_some() => Happening::Link,
            () = sleep_until(timeout.unwrap_or(now)), if timeout.is_some() => Happening::Timeout,
        };
        Ok(happening)
    }

    async fn handle(&mut self, happening: Happening, line: &Line) -> Result<(), RealError> {
        match happening {
            Happening::Order(order) => self.on_order(order, line).await?,
            Happening::Beat => {
                let links = self.mirrors.carriages();
                self.meters.read(self.server.server(), &links);
                line.report(&Report::Alive { links, lan_bytes: 0 }).await;
                self.tell_refusals(line).await;
            }
            Happening::Guest(guest) => self.on_guest(*guest).await?,
            Happening::Worker(worker, message) => self.on_worker(worker, message)?,
            Happening::Mirror(from) => self.on_mirror(from)?,
            Happening::Timeout => self.server.handle_timeout(self.now()),
            Happening::Link => self.look_at_links()?,
        }
        Ok(())
    }

    async fn on_order(&mut self, order: Order, line: &Line) -> Result<(), RealError> {
        match order {
            Order::Begin { servers, stand_ins } => {
                self.mirrors.reach(addresses_of(servers)?);
                self.hear_instead(stand_ins)?;
            }
            Order::Rebuild { from, absent } => self.rebuild(from, &absent)?,
            Order::Left { from, life } => {
                self.mirrors.dismiss(from);
                let left = self.server.handle_left(self.now(), from, life);
                left.map_err(|error| self.refused(error))?;
            }
            Order::Drain { clocks, absent } => self.server.handle_drain(self.now(), clocks, absent),
            Order::Copy { ticket } => line.send_copy(ticket, self.server.server().copy()).await,
            Order::Tally => {
                let links = self.mirrors.carriages();
                line.report(&Report::Alive { links, lan_bytes: 0 }).await;
                let count = self.seat.site.plan.topology.data_centers.len();
                let mut tally = Tally::of(self.server.server(), count);
                tally.ledgers.clone_from(self.server.ledgers());
                line.report(&Report::Tally(Box::new(tally))).await;
            }
            // These are the workers' business.
            Order::Start { .. } | Order::Stop { .. } | Order::Alive => {}
            other => return Err(Line::unexpected(&other)),
        }
        Ok(())
    }

    /// Tells the coordinator, which may not have heard it, where the process before this one had come to.
    async fn stand(&self, line: &Line) {
        let server = self.server.server();
        if server.clock() > Clock::ZERO {
            line.report(&Report::ClockFinished(server.clock())).await;
        }
        if server.copy_ready() > Clock::ZERO {
            line.report(&Report::CopyReady(server.copy_ready())).await;
        }
        if server.is_drained() {
            line.report(&Report::Drained).await;
        }
    }

    fn on_worker(&mut self, worker: WorkerId, message: WorkerMessage) -> Result<(), RealError> {
        match self.server.handle_worker(self.now(), worker, message) {
            Due::Ahead => self.set_right(worker),
            Due::Now | Due::Repeated | Due::Known => Ok(()),
        }
    }

    fn on_mirror(&mut self, from: FromMirror) -> Result<(), RealError> {
        match from {
            FromMirror::Joined { peer } => {
                // The hello acknowledges what has come.
                self.write()?;
                let hello = self.server.connect(peer);
                self.mirrors.send(peer, Lane::Control, hello.to_bytes())?;
                let session = self.server.session(peer);
                let reunion = session.met().map(|_| Reunion::begin(session));
                let link = self.link(peer);
                link.watch.begin();
                link.reunion = reunion;
                Ok(())
            }
            FromMirror::Message { from, message } => self.on_message(from, &message),
            FromMirror::Drained { to, bytes, busy } => {
                let now = self.now();
                let drained = self.server.handle_drained(now, to, bytes, busy);
                drained.map_err(|error| self.refused(error))
            }
            FromMirror::Parted { peer } => {
                let parted = self.server.handle_parted(self.now(), peer);
                parted.map_err(|error| self.refused(error))
            }
            FromMirror::Room => Ok(()),
        }
    }

    fn look_at_reunions(&mut self) {
        for (peer, link) in &mut self.links {
            let Some(reunion) = &mut link.reunion else { continue };
            let waits = self.server.server().has_updates_for(*peer);
            let (own, name) = (self.seat.name(), self.mirrors.name(*peer));
            if reunion.look(self.server.session(*peer), waits, &own, &name) {
                link.reunion = None;
            }
        }
    }

    /// Ends a group: cuts frames, writes down what has happened, and lets out what the server has to say.
    async fn settle(&mut self, line: &Line) -> Result<(), RealError> {
        self.cut();
        self.write()?;
        while let Some(output) = self.server.poll_output() {
            match output {
                Output::ToWorker { worker, message } => self.workers.answer(worker, message),
                Output::Due { worker, due, guessed } => {
                    self.workers.tell_due(worker, (due, guessed));
                }
                Output::ClockFinished { clock } => {
                    line.report(&Report::ClockFinished(clock)).await;
                }
                Output::CopyReady { clock } => line.report(&Report::CopyReady(clock)).await,
                Output::Drained => line.report(&Report::Drained).await,
                Output::Diverged(found) => line.report(&Report::Diverged(found)).await,
            }
        }
        self.transmit()?;
        self.look_at_reunions();
        self.log_pauses();
        let is_whole = self.server.server().is_whole();
        if !self.ready && is_whole && self.mirrors.are_met() && self.workers.are_met() {
            self.ready = true;
            line.report(&Report::Ready).await;
        }
        Ok(())
    }

    /// Cuts frames for the lanes that have room and nothing that waits.
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
                    if let Some(reunion) = link.reunion.as_mut().filter(|_| lane == Lane::Data) {
                        reunion.on_cut(frame.len());
                    }
                }
            }
        }
    }

    /// Writes down what has happened, so that what follows from it may leave.
    fn write(&mut self) -> Result<(), RealError> {
        if let Some(diary) = &mut self.diary {
            diary.write(&self.server.take_entries())?;
            self.server.handle_synced();
        }
        Ok(())
    }

    fn keep_if_due(&mut self) -> Result<(), RealError> {
        let clock = self.server.server().clock();
        let due = self.diary.as_ref().is_some_and(|diary| diary.is_due(clock));
        if due { self.keep() } else { Ok(()) }
    }

    /// Writes a checkpoint, where everything has left.
    fn keep(&mut self) -> Result<(), RealError> {
        let clock = self.server.server().clock();
        let Some(diary) = &mut self.diary else { return Ok(()) };
        let Some(state) = self.server.state() else { return Ok(()) };
        diary.keep(clock, state)
    }

    fn transmit(&mut self) -> Result<(), RealError> {
        let now = Moment::now();
        for (to, link) in &mut self.links {
            for lane in Lane::ALL {
                while self.mirrors.has_room(*to, lane) {
                    let Some(message) = self.server.poll_message(*to, lane) else { break };
                    self.mirrors.send(*to, lane, message.to_bytes())?;
                }
            }
            if link.news_due.is_none_or(|due| due > now) {
                continue;
            }
            link.news_due = None;
            if self.mirrors.has_room(*to, Lane::Control) {
                if let Some(message) = self.server.poll_acknowledgement(*to) {
                    self.mirrors.send(*to, Lane::Control, message.to_bytes())?;
                }
            } else if self.mirrors.is_joined(*to) {
                link.news_due = Some(now + link.news_wait);
            }
        }
        Ok(())
    }

    fn link(&mut self, peer: DcId) -> &mut Link {
        self.links.get_mut(&peer).expect("every other data center has a link")
    }

    fn now(&self) -> Instant {
        self.origin.0 + self.origin.1.elapsed()
    }

    fn moment(&self, at: Instant) -> Moment {
        self.origin.1 + at.since(self.origin.0)
    }
}

/// Listens for workers over TCP and for mirrors over UDP, on one port.
async fn bind(
    ground: &dyn Ground,
    address: SocketAddr,
) -> Result<(Box<dyn Listener>, Datagrams), RealError> {
    let mut left = if address.port() == 0 { FREE_PORTS_TRIED } else { 1 };
    loop {
        let tcp = listen(ground, address).await?;
        let own = tcp.local_addr()?;
        left -= 1;
        match ground.datagrams(own) {
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

/// What is handed in at most before a group is written down.
const GROUP_MAX: usize = 64;

const FREE_PORTS_TRIED: usize = 16;
