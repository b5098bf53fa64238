//! The process side of a parameter server: it moves the messages of one [`Server`] and tells it the time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{Instant as Moment, MissedTickBehavior, interval, sleep_until};

use super::channel::{Parcel, Reader};
use super::door::{Door, Guest, listen};
use super::error::{ChannelError, RealError};
use super::line::Line;
use super::measure::Meters;
use super::message::{Answer, Order, Report};
use super::mirrors::{Meeting, Mirrors};
use super::site::Seat;
use super::{HEARTBEAT, NearWorker};
use crate::driver::quic::Event;
use crate::driver::tally::Tally;
use crate::link::quantum;
use crate::node::{
    Lane, RowsRead, ServerInput, WorkerMessage, decode_worker_message, encode_rows_read,
};
use crate::server::{Server, ServerOutput};
use crate::topology::Address;
use crate::types::{Clock, DcId, Instant, NodeId, ServerId, ShardLayout, WorkerId};
use crate::wire::LanKind;

/// What comes from a worker.
pub(super) struct FromWorker {
    pub(super) worker: WorkerId,
    pub(super) message: Result<WorkerMessage, String>,
}

/// The way to a worker.
enum ToWorker {
    Far(Sender<Parcel>),
    /// In this process.
    Near(Sender<RowsRead>),
}

/// A server that has met everyone it talks to.
struct ServerNode {
    seat: Seat,
    server: Server,
    mirrors: Mirrors,
    workers: BTreeMap<WorkerId, ToWorker>,
    incoming: Receiver<FromWorker>,
    /// The frame size that keeps control prompt, per mirror.
    rooms: BTreeMap<DcId, usize>,
    /// How long frames have kept each link.
    busy: BTreeMap<DcId, Duration>,
    origin: Moment,
    /// Whether this copy equals all others: nobody is waited for any more.
    drained: bool,
    draining: bool,
    meters: Meters,
    /// Ends with the node.
    _reading: JoinSet<()>,
}

/// Runs one server until the coordinator ends the run.
pub(super) async fn serve(
    seat: Seat,
    id: ServerId,
    server: Server,
    coordinator: &Address,
    listens: SocketAddr,
    near: Option<NearWorker>,
) -> Result<(), RealError> {
    let (tcp, udp) = bind(listens).await?;
    let listens = tcp.local_addr()?;
    // Both are open before anybody is waited for, so that links can be checked.
    let own = seat.site.plan.topology.dc(id.dc).workers as u16;
    let callers = (0..own).map(|index| NodeId::Worker(WorkerId { dc: id.dc, index })).collect();
    let door = Door::open(&seat, tcp, callers);
    let meeting = Meeting::open(&seat, id, udp)?;
    let mut line = Line::open(&seat, coordinator, Some(listens)).await?;
    let served = async {
        let addresses = line.begin().await?;
        let mut node = tokio::select! {
            node = ServerNode::meet(&seat, server, (door, meeting), &addresses, near) => node?,
            error = line.end() => return Err(error),
        };
        line.report(&Report::Ready).await;
        node.run(&mut line).await?;
        node.mirrors.close().await;
        Ok(())
    };
    let served = served.await;
    line.finish(served).await
}

impl ServerNode {
    async fn meet(
        seat: &Seat,
        server: Server,
        (mut door, meeting): (Door, Meeting),
        addresses: &BTreeMap<ServerId, Address>,
        near: Option<NearWorker>,
    ) -> Result<Self, RealError> {
        let id = server.id();
        let topology = &seat.site.plan.topology;
        let all = (0..topology.dc(id.dc).workers as u16).map(|index| WorkerId { dc: id.dc, index });
        let all: BTreeSet<WorkerId> = all.collect();
        let (sender, incoming) = channel(all.len() * MESSAGES_PER_WORKER);
        let mut reading = JoinSet::new();
        let mut workers = BTreeMap::new();
        if let Some(NearWorker { worker, mut says, hears }) = near {
            workers.insert(worker, ToWorker::Near(hears));
            seat.on_connected(NodeId::Worker(worker));
            let sender = sender.clone();
            reading.spawn(async move {
                while let Some(message) = says.recv().await {
                    let message = Ok(message);
                    if sender.send(FromWorker { worker, message }).await.is_err() {
                        return;
                    }
                }
            });
        }
        let mirrors = Mirrors::meet(seat, meeting, addresses);
        let guests = async {
            while workers.len() < all.len() {
                let Some(guest) = door.guest().await else { break };
                let Guest { hello, mut channel, .. } = guest;
                let NodeId::Worker(worker) = hello.node else { continue };
                if workers.contains_key(&worker) {
                    channel.refuse("this worker is connected already".into()).await;
                    continue;
                }
                if channel.answer(&Answer::Welcome).await.is_err() {
                    continue;
                }
                let (reader, parcels, _) = channel.start(MESSAGES_PER_WORKER);
                workers.insert(worker, ToWorker::Far(parcels));
                seat.on_connected(NodeId::Worker(worker));
                reading.spawn(hear(worker, reader, server.layout().clone(), sender.clone()));
            }
        };
        let (mirrors, ()) = tokio::try_join!(mirrors, async {
            guests.await;
            Ok(())
        })?;
        // Late callers and checks are still answered.
        reading.spawn(async move {
            while let Some(guest) = door.guest().await {
                guest.channel.refuse("this worker is connected already".into()).await;
            }
        });
        let peers = topology.dc_ids().filter(|peer| *peer != id.dc);
        let shards = topology.dc(id.dc).servers as f64;
        let room = |to| quantum(topology.link(id.dc, to).bandwidth.scaled(1.0 / shards)).0 as usize;
        Ok(Self {
            seat: seat.clone(),
            rooms: peers.map(|to| (to, room(to))).collect(),
            server,
            mirrors,
            workers,
            incoming,
            busy: BTreeMap::new(),
            origin: Moment::now(),
            drained: false,
            draining: false,
            meters: Meters::new(seat, id),
            _reading: reading,
        })
    }

    async fn run(&mut self, line: &mut Line) -> Result<(), RealError> {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.seat.meter.on_begun();
        loop {
            self.seat.meter.on_turn();
            let timeout = self.server.poll_timeout();
            let wake = timeout.map(|(at, _)| self.origin + Duration::from_nanos(at.as_nanos()));
            tokio::select! {
                biased;
                order = line.order() => match order? {
                    Order::End => return Ok(()),
                    order => self.on_order(order, line).await?,
                },
                _ = beat.tick() => {
                    let links = self.mirrors.carriages(&self.busy);
                    self.meters.read(&self.server, &links);
                    line.report(&Report::Alive { links, lan_bytes: 0 }).await;
                    continue;
                }
                Some(from) = self.incoming.recv() => self.on_worker(from)?,
                event = self.mirrors.transport.event() => self.on_event(event)?,
                () = sleep_until(wake.unwrap_or(self.origin)), if wake.is_some() => {
                    self.server.handle_timeout(self.now());
                }
            }
            self.settle(line).await?;
        }
    }

    async fn on_order(&mut self, order: Order, line: &Line) -> Result<(), RealError> {
        match order {
            Order::Drain { clocks } if !self.draining => {
                self.draining = true;
                self.server.handle_drain(self.now(), clocks);
            }
            Order::Copy { ticket } => {
                line.send_copy(ticket, self.server.copy()).await;
            }
            Order::Tally => {
                let links = self.mirrors.carriages(&self.busy);
                line.report(&Report::Alive { links, lan_bytes: 0 }).await;
                let count = self.seat.site.plan.topology.data_centers.len();
                line.report(&Report::Tally(Box::new(Tally::of(&self.server, count)))).await;
            }
            // Said again to who comes back, or the workers' business.
            Order::Begin { .. }
            | Order::Drain { .. }
            | Order::Start
            | Order::Stop { .. }
            | Order::Alive => {}
            other => return Err(Line::unexpected(&other)),
        }
        Ok(())
    }

    fn on_worker(&mut self, from: FromWorker) -> Result<(), RealError> {
        let FromWorker { worker, message } = from;
        let node = || self.seat.site.name(NodeId::Worker(worker));
        let message = match message {
            Ok(message) => message,
            // The coordinator ends workers first.
            Err(_) if self.drained => return Ok(()),
            Err(reason) => {
                self.seat.on_lost(NodeId::Worker(worker));
                return Err(RealError::Lost { node: node(), reason });
            }
        };
        self.server.handle_worker(self.now(), worker, message);
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> Result<(), RealError> {
        let input = match event {
            Event::Frame(incoming) => {
                self.meters.on_frame(&incoming);
                ServerInput::Frame {
                    from: incoming.from,
                    lane: incoming.lane,
                    frame: incoming.frame,
                }
            }
            Event::Room { to, lane: Lane::Data, bytes, busy, .. } => {
                *self.busy.entry(to).or_default() += busy;
                ServerInput::Drained { to, bytes, busy }
            }
            // A mirror that has left has been told that the run is over, as this node will be.
            Event::Room { .. } => return Ok(()),
            Event::Left { peer } => {
                self.lose(peer);
                return Ok(());
            }
            Event::Lost { peer, error } => {
                self.lose(peer);
                return if self.drained { Ok(()) } else { Err(error.into()) };
            }
        };
        let at = self.seat.name();
        let now = self.now();
        self.server.handle_input(now, input).map_err(|error| {
            self.meters.on_frame_refused(error.peer());
            RealError::Peer { at, error }
        })
    }

    fn lose(&self, mirror: DcId) {
        let shard = self.server.id().shard;
        self.seat.on_lost(NodeId::Server(ServerId { dc: mirror, shard }));
    }

    /// Carries out what the server wants done until it wants nothing, then fills the lanes.
    async fn settle(&mut self, line: &Line) -> Result<(), RealError> {
        loop {
            while let Some(output) = self.server.poll_output() {
                match output {
                    ServerOutput::ToWorker { worker, message } => {
                        self.answer(worker, message).await?;
                    }
                    ServerOutput::ClockFinished { clock } => {
                        line.report(&Report::ClockFinished(clock)).await;
                    }
                    ServerOutput::CopyReady { clock } => {
                        line.report(&Report::CopyReady(clock)).await;
                    }
                    ServerOutput::Drained => {
                        self.drained = true;
                        line.report(&Report::Drained).await;
                    }
                }
            }
            if !self.transmit()? {
                return Ok(());
            }
        }
    }

    async fn answer(&self, worker: WorkerId, message: RowsRead) -> Result<(), RealError> {
        let told = match &self.workers[&worker] {
            ToWorker::Far(parcels) => {
                let body = encode_rows_read(&message);
                parcels.send((LanKind::RowsRead, body)).await.is_ok()
            }
            ToWorker::Near(hears) => hears.send(message).await.is_ok(),
        };
        if told {
            return Ok(());
        }
        let node = self.seat.site.name(NodeId::Worker(worker));
        Err(RealError::Lost { node, reason: ChannelError::Closed.to_string() })
    }

    fn transmit(&mut self) -> Result<bool, RealError> {
        let now = self.now();
        let shard = self.server.id().shard;
        let mut moved = false;
        for (to, room) in &self.rooms {
            for (lane, room) in [(Lane::Control, usize::MAX), (Lane::Data, *room)] {
                while self.mirrors.transport.has_room(*to, shard, lane) {
                    let Some(frame) = self.server.poll_transmit(now, *to, lane, room) else {
                        break;
                    };
                    moved = true;
                    self.mirrors.transport.send(*to, shard, lane, frame)?;
                }
            }
        }
        Ok(moved)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }
}

/// Listens for workers over TCP and for mirrors over UDP, on one port.
async fn bind(address: SocketAddr) -> Result<(TcpListener, UdpSocket), RealError> {
    let mut left = if address.port() == 0 { FREE_PORTS_TRIED } else { 1 };
    loop {
        let tcp = listen(address).await?;
        let own = tcp.local_addr()?;
        left -= 1;
        match UdpSocket::bind(own) {
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

/// Hears a worker over TCP, and checks that what it says is in turn.
async fn hear(
    worker: WorkerId,
    mut reader: Reader,
    layout: ShardLayout,
    sender: Sender<FromWorker>,
) {
    let bytes_max = |_| worker_message_bytes_max(&layout);
    let mut due = Due { clock: Clock::ZERO, read: false };
    loop {
        let next = reader.next(bytes_max, None).await;
        let message = next.and_then(|(kind, body)| match kind {
            LanKind::WorkerMessage => {
                let message = decode_worker_message(&body, &layout)?;
                due.check(&message)?;
                Ok(message)
            }
            other => Err(ChannelError::Other(format!("a {other:?} from a worker"))),
        });
        let message = message.map_err(|error| error.to_string());
        let last = message.is_err();
        if sender.send(FromWorker { worker, message }).await.is_err() || last {
            return;
        }
    }
}

/// What a worker may say next: it reads at a clock, then it sends what that iteration changed.
struct Due {
    clock: Clock,
    read: bool,
}

impl Due {
    fn check(&mut self, message: &WorkerMessage) -> Result<(), ChannelError> {
        let (clock, reads) = match message {
            WorkerMessage::Read { clock, .. } => (*clock, true),
            WorkerMessage::Update { clock, .. } => (*clock, false),
        };
        if clock != self.clock || reads == self.read {
            let due = if self.read { "an update" } else { "a read" };
            let said = format!("clock {clock} where {due} of clock {} was due", self.clock);
            return Err(ChannelError::Other(said));
        }
        if !reads {
            self.clock = clock.next();
        }
        self.read = reads;
        Ok(())
    }
}

/// The most that a worker says at once: every row with its number, and what it has measured.
fn worker_message_bytes_max(layout: &ShardLayout) -> usize {
    4 * (layout.parameters() + layout.rows()) + 16 * layout.model().tables().len() + MEASURED_BYTES
}

/// A read and an update; the next read comes with the update.
pub(super) const MESSAGES_PER_WORKER: usize = 4;
const FREE_PORTS_TRIED: usize = 16;

/// Measurements of a thousand copies.
const MEASURED_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ShardRows;
    use crate::types::RowSet;

    #[test]
    fn a_worker_speaks_in_turn() {
        let layout = std::sync::Arc::new(crate::types::ModelLayout::new(Vec::new()));
        let layout = ShardLayout::new(layout, crate::types::ShardId(0), 1);
        let rows = ShardRows::checked(RowSet { tables: Vec::new() }, &layout).unwrap();
        let read = |clock| WorkerMessage::Read { clock: Clock(clock), rows: rows.clone() };
        let mut due = Due { clock: Clock::ZERO, read: false };
        assert!(due.check(&read(1)).is_err());
        assert!(due.check(&read(0)).is_ok());
        assert!(due.check(&read(0)).is_err());
    }
}
