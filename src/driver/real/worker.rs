//! The process side of a worker: it moves the messages of one [`Worker`] and runs its iterations.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant as Moment, MissedTickBehavior, interval, sleep_until};

use super::channel::{Parcel, Reader};
use super::error::{ChannelError, RealError};
use super::line::Line;
use super::measure::tell_held;
use super::message::{Order, Purpose, Report};
use super::server::MESSAGES_PER_WORKER;
use super::site::Seat;
use super::{HEARTBEAT, NearServer};
use crate::driver::cost::CostModel;
use crate::driver::message_of;
use crate::ml::Work;
use crate::node::{RowsRead, WorkerMessage, decode_rows_read, encode_worker_message};
use crate::topology::Address;
use crate::types::{Clock, NodeId, ServerId, ShardId, ShardLayout, WorkerId};
use crate::wire::LanKind;
use crate::worker::{Worker, WorkerOutput};

/// An answer of a server: bytes that say little without the question, or the message itself.
enum FromServer {
    Far(Result<Vec<u8>, String>),
    Near(RowsRead),
}

/// The way to a server.
enum ToServer {
    Far(Sender<Parcel>),
    /// In this process.
    Near(Sender<WorkerMessage>),
}

/// A worker whose iteration has run, and the work done or the message of its panic.
type Ran = (Box<Worker>, Result<Work, String>);

/// A worker that has met its servers.
struct WorkerNode {
    seat: Seat,
    id: WorkerId,
    /// `None` while an iteration runs.
    worker: Option<Box<Worker>>,
    layouts: Vec<ShardLayout>,
    servers: Vec<ToServer>,
    /// What each server has been asked and has not answered: a clock and so many parameters.
    asked: Vec<Option<(Clock, usize)>>,
    incoming: Receiver<(ShardId, FromServer)>,
    running: Option<JoinHandle<Ran>>,
    began: Moment,
    /// What iterations cost, where the run file says so; otherwise they cost what they take.
    cost: Option<CostModel>,
    /// Until when the iteration that has run is charged.
    padded: Option<Moment>,
    stop: Option<Clock>,
    lan_bytes: u64,
    /// Ends with the node.
    _reading: JoinSet<()>,
}

/// Runs one worker until the coordinator ends the run.
pub(super) async fn work(
    seat: Seat,
    worker: Worker,
    layouts: Vec<ShardLayout>,
    coordinator: &Address,
    cost: Option<CostModel>,
    near: Option<NearServer>,
) -> Result<(), RealError> {
    let mut line = Line::open(&seat, coordinator, None).await?;
    let worked = async {
        let addresses = line.begin().await?;
        let id = worker.id();
        let (sender, incoming) = channel(layouts.len() * MESSAGES_PER_WORKER);
        let mut reading = JoinSet::new();
        let meeting = async {
            let mut servers = Vec::new();
            let mut near = near;
            for shard in (0..layouts.len() as u16).map(ShardId) {
                let server = ServerId { dc: id.dc, shard };
                if let Some(NearServer { says, mut hears, .. }) =
                    near.take_if(|near| near.shard == shard)
                {
                    let sender = sender.clone();
                    reading.spawn(async move {
                        while let Some(rows) = hears.recv().await {
                            if sender.send((shard, FromServer::Near(rows))).await.is_err() {
                                return;
                            }
                        }
                    });
                    servers.push(ToServer::Near(says));
                    seat.on_connected(NodeId::Server(server));
                    continue;
                }
                let address = addresses.get(&server).ok_or_else(|| RealError::Broken {
                    from: "the coordinator".into(),
                    reason: format!("it knows no address of {server}"),
                })?;
                let hello = seat.hello(Purpose::Join);
                let joined = seat.join(NodeId::Server(server), address, &hello).await?;
                let (reader, parcels, _) = joined.start(MESSAGES_PER_WORKER);
                let bytes_max = rows_read_bytes_max(&layouts[shard.index()], addresses.len());
                reading.spawn(hear(shard, reader, bytes_max, sender.clone()));
                servers.push(ToServer::Far(parcels));
                seat.on_connected(NodeId::Server(server));
            }
            Ok::<_, RealError>(servers)
        };
        let servers = tokio::select! {
            met = meeting => met?,
            error = line.end() => return Err(error),
        };
        line.report(&Report::Ready).await;
        let mut node = WorkerNode {
            seat: seat.clone(),
            id,
            worker: Some(Box::new(worker)),
            asked: vec![None; layouts.len()],
            layouts,
            servers,
            incoming,
            running: None,
            began: Moment::now(),
            cost,
            padded: None,
            stop: None,
            lan_bytes: 0,
            _reading: reading,
        };
        node.run(&mut line).await
    };
    let worked = worked.await;
    line.finish(worked).await
}

impl WorkerNode {
    async fn run(&mut self, line: &mut Line) -> Result<(), RealError> {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut started, mut over) = (false, false);
        loop {
            self.seat.meter.on_turn();
            tokio::select! {
                biased;
                order = line.order() => match order? {
                    Order::End => return Ok(()),
                    Order::Start if !started => {
                        started = true;
                        self.seat.meter.on_begun();
                        self.on_worker(Worker::handle_start);
                    }
                    Order::Stop { last } => {
                        self.stop = Some(last);
                        over = true;
                        self.on_worker(|worker| worker.handle_stop(last));
                    }
                    // Said again to who comes back.
                    Order::Begin { .. } | Order::Start | Order::Alive => {}
                    other => return Err(Line::unexpected(&other)),
                },
                _ = beat.tick() => {
                    let lan_bytes = self.lan_bytes;
                    self.seat.meter.on_lan(lan_bytes);
                    line.report(&Report::Alive { links: Vec::new(), lan_bytes }).await;
                }
                Some((shard, from)) = self.incoming.recv() => self.on_server(shard, from, over)?,
                ran = ran(&mut self.running) => self.on_ran(ran)?,
                () = due(self.padded) => self.finish_iteration(),
            }
            self.settle(line).await?;
        }
    }

    fn on_worker(&mut self, tell: impl FnOnce(&mut Worker)) {
        // One whose iteration runs hears of a stop when it is back.
        if let Some(worker) = &mut self.worker {
            tell(worker);
        }
    }

    fn on_server(&mut self, shard: ShardId, from: FromServer, over: bool) -> Result<(), RealError> {
        let server = NodeId::Server(ServerId { dc: self.id.dc, shard });
        let name = || self.seat.site.name(server);
        let asked = self.asked[shard.index()].take();
        let message = match from {
            FromServer::Near(message) => message,
            // A server that the coordinator has told that the run is over may hang up first.
            FromServer::Far(Err(_)) if over => return Ok(()),
            FromServer::Far(Err(reason)) => {
                self.seat.on_lost(server);
                return Err(RealError::Lost { node: name(), reason });
            }
            FromServer::Far(Ok(body)) => {
                let broken = |reason: String| RealError::Broken { from: name(), reason };
                let (clock, parameters) =
                    asked.ok_or_else(|| broken("rows that nobody asked for".into()))?;
                decode_rows_read(&body, &self.layouts[shard.index()], clock, parameters)
                    .map_err(|error| broken(error.to_string()))?
            }
        };
        self.lan_bytes += message.lan_bytes();
        let worker = self.worker.as_mut().expect("a worker waits while it reads");
        worker.handle_rows(shard, message);
        Ok(())
    }

    fn on_ran(&mut self, ran: Ran) -> Result<(), RealError> {
        let (mut worker, work) = ran;
        self.running = None;
        self.seat.meter.on_iteration(self.began.elapsed());
        let part = self.seat.name();
        let work = work.map_err(|message| RealError::Panicked { part, message })?;
        if let Some(last) = self.stop {
            worker.handle_stop(last);
        }
        self.worker = Some(worker);
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
        let worker = self.worker.as_mut().expect("an iteration that ran gave its worker back");
        worker.handle_computed();
    }

    async fn settle(&mut self, line: &Line) -> Result<(), RealError> {
        while let Some(output) = self.worker.as_mut().and_then(|worker| worker.poll_output()) {
            match output {
                WorkerOutput::ToServer { shard, message } => self.send(shard, message).await?,
                WorkerOutput::Compute => {
                    let Some(mut worker) = self.worker.take() else { continue };
                    let held = worker.take_held();
                    tell_held(&self.seat, &held);
                    if !held.is_empty() {
                        line.report(&Report::Held(held)).await;
                    }
                    self.compute(worker);
                }
                WorkerOutput::Stopped { clock } => {
                    let lan_bytes = self.lan_bytes;
                    line.report(&Report::Alive { links: Vec::new(), lan_bytes }).await;
                    line.report(&Report::Stopped(clock)).await;
                }
            }
        }
        Ok(())
    }

    async fn send(&mut self, shard: ShardId, message: WorkerMessage) -> Result<(), RealError> {
        let layout = &self.layouts[shard.index()];
        self.lan_bytes += message.lan_bytes(layout);
        if let WorkerMessage::Read { clock, rows } = &message {
            self.asked[shard.index()] = Some((*clock, rows.parameters(layout)));
        }
        let told = match &self.servers[shard.index()] {
            ToServer::Far(parcels) => {
                let body = encode_worker_message(&message, layout);
                parcels.send((LanKind::WorkerMessage, body)).await.is_ok()
            }
            ToServer::Near(says) => says.send(message).await.is_ok(),
        };
        if told {
            return Ok(());
        }
        let node = self.seat.site.name(NodeId::Server(ServerId { dc: self.id.dc, shard }));
        Err(RealError::Lost { node, reason: ChannelError::Closed.to_string() })
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

async fn hear(
    shard: ShardId,
    mut reader: Reader,
    bytes_max: usize,
    sender: Sender<(ShardId, FromServer)>,
) {
    loop {
        let next = reader.next(|_| bytes_max, None).await;
        let body = next.and_then(|(kind, body)| match kind {
            LanKind::RowsRead => Ok(body),
            other => Err(ChannelError::Other(format!("a {other:?} from a server"))),
        });
        let body = body.map_err(|error| error.to_string());
        let last = body.is_err();
        if sender.send((shard, FromServer::Far(body))).await.is_err() || last {
            return;
        }
    }
}

/// The most that a server says at once: all of its shard, and for the guard against skew two copies from each other
/// data center.
fn rows_read_bytes_max(layout: &ShardLayout, servers: usize) -> usize {
    4 * layout.parameters() * (1 + 2 * servers) + HELD_BYTES
}

/// Reasons for which a read was held back: a few thousand.
const HELD_BYTES: usize = 64 << 10;
