//! The process side of a worker: it moves the messages of one [`RecoverableWorker`] and runs its iterations.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant as Moment, Interval, MissedTickBehavior, interval, sleep, sleep_until};
use tracing::info;

use super::channel::{Parcel, Reader};
use super::diary::Diary;
use super::error::{ChannelError, RealError};
use super::line::{Line, addresses_of};
use super::message::{Order, Purpose, Report, unpack};
use super::mirrors::Addresses;
use super::site::{Patience, Seat};
use super::workers::PARCELS_MAX;
use super::{Errand, Exit, FromNear, HEARTBEAT, Interrupted, NearServer};
use crate::driver::cost::CostModel;
use crate::driver::message_of;
use crate::ml::Work;
use crate::node::{RowsRead, WorkerMessage, decode_rows_read, encode_worker_message};
use crate::recovery::{RecoverableWorker, RecoveringWorker, Turn};
use crate::topology::Address;
use crate::types::{Clock, NodeId, ServerId, ShardId, ShardLayout, WorkerId};
use crate::wire::LanKind;
use crate::worker::Worker;

/// What comes from a server.
enum FromServer {
    /// There is a connection, in place of any before; this is due over it.
    Joined {
        way: Option<Sender<Parcel>>,
        due: Turn,
    },
    Rows(Arc<RowsRead>),
    /// It cannot be reached at all.
    Lost(RealError),
}

/// The way to a server.
enum ToServer {
    /// Nothing where there is no connection.
    Far(Option<Sender<Parcel>>),
    /// In this process.
    Near(Sender<WorkerMessage>),
}

/// A worker whose iteration has run, and the work done or the message of its panic.
type Ran = (Box<Worker>, Result<Work, String>);

/// A worker at work.
struct WorkerNode {
    seat: Seat,
    id: WorkerId,
    worker: RecoverableWorker,
    /// Nothing where a crash loses what the worker has not sent.
    diary: Option<Diary>,
    /// How long it would take to compute again what was computed since the last checkpoint.
    replay: Duration,
    layouts: Vec<ShardLayout>,
    servers: Vec<ToServer>,
    /// Which servers have been met.
    met: Vec<bool>,
    /// Whether the coordinator knows that all have.
    ready: bool,
    incoming: Receiver<(ShardId, FromServer)>,
    addresses: watch::Sender<Addresses>,
    beat: Interval,
    running: Option<JoinHandle<Ran>>,
    began: Moment,
    /// What iterations cost, where the run file says so; otherwise they cost what they take.
    cost: Option<CostModel>,
    /// Until when the iteration that has run is charged.
    padded: Option<Moment>,
    /// The clock at which the coordinator knows this worker to have stopped.
    told_stopped: Option<Clock>,
    lan_bytes: u64,
    interrupted: Interrupted,
    /// Ends with the node.
    _reading: JoinSet<()>,
}

/// What can happen to a worker.
enum Happening {
    Order(Order),
    Beat,
    Server(ShardId, FromServer),
    Ran(Ran),
    /// The time of the iteration that has run is over.
    Over,
}

/// Runs one worker until the coordinator ends the run.
pub(super) async fn work(
    seat: Seat,
    worker: Worker,
    layouts: Vec<ShardLayout>,
    errand: &Errand,
    cost: Option<CostModel>,
    near: Option<NearServer>,
) -> Result<Exit, RealError> {
    let id = worker.id();
    let worker = RecoveringWorker::new(worker, layouts.len());
    let (diary, worker) = match &errand.shelf {
        Some(shelf) => {
            let (diary, worker) = shelf.recover(&seat, worker)?;
            (Some(diary), worker)
        }
        None => (None, worker),
    };
    let worker = worker.begin(diary.is_some());
    let opened = Line::open(&seat, &errand.coordinator, None);
    let mut line = tokio::select! {
        line = opened => line?,
        () = errand.interrupted.set() => return Ok(Exit::Interrupted),
    };
    let worked = async {
        let addresses = tokio::select! {
            begun = line.begin() => begun?,
            () = errand.interrupted.set() => return Ok(Exit::Interrupted),
        };
        let (incoming, addresses, servers, reading) = meet((&seat, id), &layouts, addresses, near);
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut node = WorkerNode {
            seat: seat.clone(),
            id,
            worker,
            diary,
            replay: Duration::ZERO,
            met: vec![false; layouts.len()],
            ready: false,
            layouts,
            servers,
            incoming,
            addresses,
            beat,
            running: None,
            began: Moment::now(),
            cost,
            padded: None,
            told_stopped: None,
            lan_bytes: 0,
            interrupted: errand.interrupted.clone(),
            _reading: reading,
        };
        node.run(&mut line).await
    };
    let worked = worked.await;
    line.finish(worked).await
}

impl WorkerNode {
    async fn run(&mut self, line: &mut Line) -> Result<Exit, RealError> {
        loop {
            let mut happening = self.next(line).await?;
            for _ in 0..GROUP_MAX {
                if let Happening::Order(Order::End) = happening {
                    return Ok(Exit::Over);
                }
                self.handle(happening, line).await?;
                happening = tokio::select! {
                    biased;
                    next = self.next(line) => next?,
                    () = std::future::ready(()) => break,
                };
            }
            self.settle(line).await?;
            if self.running.is_some() || self.padded.is_some() {
                continue;
            }
            let interrupted = self.interrupted.is_set();
            self.keep(interrupted)?;
            if interrupted {
                return Ok(Exit::Interrupted);
            }
        }
    }

    /// Waits for what happens next. Dropping the future loses nothing.
    async fn next(&mut self, line: &mut Line) -> Result<Happening, RealError> {
        let happening = tokio::select! {
            biased;
            order = line.order() => Happening::Order(order?),
            _ = self.beat.tick() => Happening::Beat,
            Some((shard, from)) = self.incoming.recv() => Happening::Server(shard, from),
            ran = ran(&mut self.running) => Happening::Ran(ran),
            () = due(self.padded) => Happening::Over,
        };
        Ok(happening)
    }

    async fn handle(&mut self, happening: Happening, line: &Line) -> Result<(), RealError> {
        match happening {
            Happening::Order(order) => self.on_order(order)?,
            Happening::Beat => {
                let lan_bytes = self.lan_bytes;
                line.report(&Report::Alive { links: Vec::new(), lan_bytes }).await;
            }
            Happening::Server(shard, from) => self.on_server(shard, from)?,
            Happening::Ran(ran) => self.on_ran(ran)?,
            Happening::Over => self.finish_iteration(),
        }
        Ok(())
    }

    fn on_order(&mut self, order: Order) -> Result<(), RealError> {
        match order {
            Order::Begin { servers } => drop(self.addresses.send_replace(addresses_of(servers)?)),
            Order::Start => self.worker.handle_start(),
            Order::Stop { last } => self.worker.handle_stop(last),
            Order::Alive => {}
            other => return Err(Line::unexpected(&other)),
        }
        Ok(())
    }

    fn on_server(&mut self, shard: ShardId, from: FromServer) -> Result<(), RealError> {
        match from {
            FromServer::Lost(error) => return Err(error),
            FromServer::Rows(rows) => {
                self.lan_bytes += rows.lan_bytes();
                // Rows that come again are not asked for.
                self.worker.handle_rows(shard, Arc::unwrap_or_clone(rows));
            }
            FromServer::Joined { way, due } => {
                if !self.worker.may_have_said(due) {
                    let server = NodeId::Server(ServerId { dc: self.id.dc, shard });
                    let (node, peer) = (self.seat.name(), self.seat.site.name(server));
                    let reason = format!("{due} is due");
                    return Err(RealError::Forgot { node, peer, reason });
                }
                if let Some(parcels) = way {
                    self.servers[shard.index()] = ToServer::Far(Some(parcels));
                }
                self.met[shard.index()] = true;
                self.write()?;
                for message in self.worker.handle_joined(shard, due) {
                    self.send(shard, message);
                }
            }
        }
        Ok(())
    }

    fn on_ran(&mut self, ran: Ran) -> Result<(), RealError> {
        let (worker, work) = ran;
        self.running = None;
        self.replay += self.began.elapsed();
        let part = self.seat.name();
        let work = work.map_err(|message| RealError::Panicked { part, message })?;
        self.worker.handle_ran(worker);
        let topology = &self.seat.site.plan.topology;
        let number = topology.first_worker(self.id.dc) + usize::from(self.id.index);
        let over = self.cost.as_mut().map(|cost| self.began + cost.time(self.id, number, work));
        match over {
            Some(over) if over > Moment::now() => self.padded = Some(over),
            _ => self.finish_iteration(),
        }
        Ok(())
    }

    fn finish_iteration(&mut self) {
        self.padded = None;
        self.worker.handle_computed();
    }

    /// Ends a group: writes down what has happened, and lets out what the worker has to say.
    async fn settle(&mut self, line: &Line) -> Result<(), RealError> {
        self.write()?;
        while let Some((shard, message)) = self.worker.poll_message() {
            self.send(shard, message);
        }
        // While its iteration is charged, a worker that has run is here.
        if self.padded.is_none()
            && let Some(mut worker) = self.worker.poll_compute()
        {
            let held = worker.take_held();
            if !held.is_empty() {
                line.report(&Report::Held(held)).await;
            }
            self.compute(worker);
        }
        let stopped = self.worker.stopped();
        if stopped != self.told_stopped {
            self.told_stopped = stopped;
            if let Some(clock) = stopped {
                let lan_bytes = self.lan_bytes;
                line.report(&Report::Alive { links: Vec::new(), lan_bytes }).await;
                line.report(&Report::Stopped(clock)).await;
            }
        }
        if !self.ready && self.met.iter().all(|met| *met) {
            self.ready = true;
            line.report(&Report::Ready).await;
        }
        Ok(())
    }

    /// Writes down what has happened, so that what follows from it may leave.
    fn write(&mut self) -> Result<(), RealError> {
        if let Some(diary) = &mut self.diary {
            diary.write(&self.worker.take_entries())?;
            self.worker.handle_synced();
        }
        Ok(())
    }

    /// Writes a checkpoint where computing again would take long, or where there must be one; not while the worker
    /// computes.
    fn keep(&mut self, must: bool) -> Result<(), RealError> {
        let Some(diary) = &mut self.diary else { return Ok(()) };
        let Some(clock) = self.worker.worker_mut().map(|worker| worker.clock()) else {
            return Ok(());
        };
        let long = self.replay > REPLAY_MIN.max(CHECKPOINTS_PER_REPLAY * diary.took());
        if !must && !long && !diary.is_due(clock) {
            return Ok(());
        }
        let Some(state) = self.worker.state() else { return Ok(()) };
        self.replay = Duration::ZERO;
        diary.keep(clock, state)
    }

    /// Sends a message to a server, if it is on the line; one that is not asks for it.
    fn send(&mut self, shard: ShardId, message: WorkerMessage) {
        let layout = &self.layouts[shard.index()];
        self.lan_bytes += message.lan_bytes(layout);
        match &self.servers[shard.index()] {
            ToServer::Far(Some(parcels)) => {
                let body = encode_worker_message(&message, layout);
                // One that does not take it is lost, of which its reader tells.
                let _lost = parcels.try_send((LanKind::WorkerMessage, body));
            }
            ToServer::Far(None) => {}
            // One that has ended ends this process.
            ToServer::Near(says) => drop(says.try_send(message)),
        }
    }

    fn compute(&mut self, mut worker: Box<Worker>) {
        self.began = Moment::now();
        self.running = Some(spawn_blocking(move || {
            // A worker whose iteration has panicked is never asked again.
            let work = catch_unwind(AssertUnwindSafe(|| worker.compute()));
            let work = work.map_err(|panic| message_of(&*panic));
            (worker, work)
        }));
    }
}

/// Waits for the iteration at work; for ever where there is none.
async fn ran(running: &mut Option<JoinHandle<Ran>>) -> Ran {
    match running {
        Some(running) => running.await.expect("an iteration's panic is caught within it"),
        None => std::future::pending().await,
    }
}

async fn due(at: Option<Moment>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What comes from servers, where they listen, the ways to them, and the tasks behind those.
type Ways = (Receiver<(ShardId, FromServer)>, watch::Sender<Addresses>, Vec<ToServer>, JoinSet<()>);

/// Calls every server of a worker's data center, but for one in this process.
fn meet(
    (seat, id): (&Seat, WorkerId),
    layouts: &[ShardLayout],
    addresses: Addresses,
    mut near: Option<NearServer>,
) -> Ways {
    let count = addresses.len();
    let addresses = watch::Sender::new(addresses);
    let (sender, incoming) = channel(layouts.len() * MESSAGES_PER_SERVER);
    let mut reading = JoinSet::new();
    let mut servers = Vec::new();
    for (shard, layout) in (0_u16..).map(ShardId).zip(layouts) {
        let sender = sender.clone();
        if let Some(NearServer { says, hears, .. }) = near.take_if(|near| near.shard == shard) {
            reading.spawn(hear_near(shard, hears, sender));
            servers.push(ToServer::Near(says));
            continue;
        }
        let server = Far {
            seat: seat.clone(),
            id: ServerId { dc: id.dc, shard },
            layout: layout.clone(),
            bytes_max: rows_read_bytes_max(layout, count),
        };
        reading.spawn(server.keep(addresses.subscribe(), sender));
        servers.push(ToServer::Far(None));
    }
    (incoming, addresses, servers, reading)
}

async fn hear_near(
    shard: ShardId,
    mut hears: Receiver<FromNear>,
    sender: Sender<(ShardId, FromServer)>,
) {
    while let Some(from) = hears.recv().await {
        let from = match from {
            FromNear::Joined(due) => FromServer::Joined { way: None, due },
            FromNear::Rows(rows) => FromServer::Rows(rows),
        };
        if sender.send((shard, from)).await.is_err() {
            return;
        }
    }
}

/// A server in another process.
struct Far {
    seat: Seat,
    id: ServerId,
    layout: ShardLayout,
    /// The most that it says at once.
    bytes_max: usize,
}

impl Far {
    /// Calls a server, and calls it again whenever it is lost, for as long as somebody listens.
    async fn keep(
        self,
        mut addresses: watch::Receiver<Addresses>,
        sender: Sender<(ShardId, FromServer)>,
    ) {
        let mut again = false;
        while let Err(error) = self.meet(&mut addresses, &sender, &mut again).await {
            if sender.send((self.id.shard, FromServer::Lost(error))).await.is_err() {
                return;
            }
        }
    }

    /// Ends with an error where the server cannot be reached, and otherwise once nobody listens.
    async fn meet(
        &self,
        addresses: &mut watch::Receiver<Addresses>,
        sender: &Sender<(ShardId, FromServer)>,
        again: &mut bool,
    ) -> Result<(), RealError> {
        let node = NodeId::Server(self.id);
        let name = self.seat.site.name(node);
        let hello = self.seat.hello(Purpose::Join);
        loop {
            let mut patience = Patience::new(name.clone(), *again);
            let (address, joined) = loop {
                let address = addresses.borrow_and_update().get(&self.id).cloned();
                let address = address.ok_or_else(|| RealError::Broken {
                    from: "the coordinator".into(),
                    reason: format!("it knows no address of {name}"),
                })?;
                match self.seat.dial(node, &address, &hello).await {
                    Ok(channel) => break (address, channel),
                    Err(fault) => patience.wait(&address, fault).await?,
                }
            };
            *again = true;
            let (reader, parcels, _) = joined.start(PARCELS_MAX);
            let error = tokio::select! {
                error = self.hear(reader, parcels, sender) => error,
                () = moved(addresses, self.id, &address) => {
                    ChannelError::Other("it listens elsewhere now".into())
                }
            };
            if sender.is_closed() {
                return Ok(());
            }
            info!("{} does not hear {name} any more: {error}", self.seat.name());
            sleep(BREATH).await;
        }
    }

    async fn hear(
        &self,
        mut reader: Reader,
        parcels: Sender<Parcel>,
        sender: &Sender<(ShardId, FromServer)>,
    ) -> ChannelError {
        let mut way = Some(parcels);
        loop {
            let next = reader.next(|_| self.bytes_max, None).await;
            let from = next.and_then(|(kind, body)| match kind {
                LanKind::Hello if way.is_some() => {
                    Ok(FromServer::Joined { way: way.take(), due: unpack(&body)? })
                }
                LanKind::RowsRead if way.is_none() => {
                    Ok(FromServer::Rows(Arc::new(decode_rows_read(&body, &self.layout)?)))
                }
                other => Err(ChannelError::Other(format!("a {other:?} from a server"))),
            });
            let from = match from {
                Ok(from) => from,
                Err(error) => return error,
            };
            if sender.send((self.id.shard, from)).await.is_err() {
                return ChannelError::Closed;
            }
        }
    }
}

/// Waits until a server listens elsewhere.
async fn moved(addresses: &mut watch::Receiver<Addresses>, server: ServerId, from: &Address) {
    let elsewhere = |addresses: &Addresses| addresses.get(&server) != Some(from);
    if addresses.wait_for(elsewhere).await.is_err() {
        // Nobody is left to say so.
        std::future::pending().await
    }
}

/// The most that a server says at once: all of its shard, and for the guard against skew two copies from each other
/// data center.
fn rows_read_bytes_max(layout: &ShardLayout, servers: usize) -> usize {
    4 * layout.parameters() * (1 + 2 * servers) + HELD_BYTES
}

/// What is handed in at most before a group is written down.
const GROUP_MAX: usize = 64;

/// A hello and an answer, and the answer once more.
const MESSAGES_PER_SERVER: usize = 4;

/// Before a server is called again that was lost.
const BREATH: Duration = Duration::from_millis(50);

/// A worker that comes back computes for about a second, or as long as twenty checkpoints take, or one clock: so
/// checkpoints cost it a twentieth of its time at most.
const REPLAY_MIN: Duration = Duration::from_secs(1);
const CHECKPOINTS_PER_REPLAY: u32 = 20;

/// Reasons for which a read was held back: a few thousand.
const HELD_BYTES: usize = 64 << 10;
