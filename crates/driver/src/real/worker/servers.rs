//! A worker's connections to the servers of its data center, which may be lost and opened again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::info;

use crate::real::connections::channel::{Parcel, Reader};
use crate::real::connections::message::{
    Hello, Purpose, check_probes, check_waits, decode_copy, decode_copy_rows, unpack,
};
use crate::real::connections::message_memory::MessageMemory;
use crate::real::connections::throttle::LogThrottle;
use crate::real::error::{ChannelError, RealError};
use crate::real::node::context::{NodeContext, Patience};
use crate::real::server::mirrors::Addresses;
use crate::real::server::workers::PARCELS_MAX;
use crate::real::worker::evaluating::ShardCopy;
use crate::real::{FromNear, NearServer, NextRequests};
use gaia_core::node::{RowsRead, WorkerMessage, decode_rows_read, encode_worker_message};
use gaia_core::recovery::RequestSeq;
use gaia_core::store::ShardRows;
use gaia_core::topology::Address;
use gaia_core::types::{Clock, DcId, NodeId, ServerId, ShardId, ShardLayout, WorkerId};
use gaia_core::wire::{LanKind, ReceivedBody};

/// All servers of a data center, from the view of one of its workers.
pub(super) struct Servers {
    context: NodeContext,
    dc: DcId,
    layouts: Vec<ShardLayout>,
    ways: Vec<ToServer>,
    /// Which servers have been connected.
    joined: Vec<bool>,
    incoming: Receiver<Came>,
    addresses: watch::Sender<Addresses>,
    /// Ends with this value.
    _reading: JoinSet<()>,
}

/// An event of the connection to a server.
pub(super) enum FromServer {
    /// A new connection has replaced the one before. This request is due on it.
    Joined(RequestSeq),
    /// The request that is due from a worker that starts again, and whether the server has guessed it.
    Due((RequestSeq, bool)),
    Rows(Arc<RowsRead>),
    /// The server's copy of its shard, for an evaluation.
    Copy {
        ticket: u64,
        copy: ShardCopy,
    },
    /// The server is permanently unreachable.
    Lost(RealError),
}

/// An event of a server, with the sender to it if the connection is new.
struct Came {
    shard: ShardId,
    way: Option<Sender<Parcel>>,
    from: FromServer,
}

/// The connection to a server.
enum ToServer {
    /// The server in another process.
    Far {
        /// `None` if there is no connection.
        parcels: Option<Sender<Parcel>>,
        /// The latest read that was sent to it.
        asked: watch::Sender<Option<Asked>>,
    },
    /// The server in this process.
    Near(Sender<WorkerMessage>),
}

/// A read of the worker.
#[derive(Clone, Copy)]
struct Asked {
    clock: Clock,
    /// The number of values of its answer.
    values: usize,
}

impl Servers {
    /// Connects to all servers of a worker's data center, except for one in this process. For each shard there are the rows
    /// of copies that the worker evaluates.
    pub(super) fn connect(
        context: &NodeContext,
        id: WorkerId,
        (layouts, copy_rows): (&[ShardLayout], &[ShardRows]),
        (addresses, next_requests): (Addresses, watch::Receiver<NextRequests>),
        mut near: Option<NearServer>,
    ) -> Self {
        let count = addresses.len();
        let addresses = watch::Sender::new(addresses);
        let (sender, incoming) = channel(layouts.len() * MESSAGES_PER_SERVER);
        let mut reading = JoinSet::new();
        let mut ways = Vec::new();

        let memory = MessageMemory::default();
        for ((shard, layout), rows) in (0_u16..).map(ShardId).zip(layouts).zip(copy_rows) {
            let sender = sender.clone();
            if let Some(NearServer { requests, replies, .. }) =
                near.take_if(|near| near.shard == shard)
            {
                reading.spawn(receive_near(shard, replies, sender));
                ways.push(ToServer::Near(requests));
                continue;
            }
            let asked = watch::Sender::default();
            let server = Far {
                context: context.clone(),
                id: ServerId { dc: id.dc, shard },
                layout: layout.clone(),
                memory: memory.clone(),
                next_requests: next_requests.clone(),
                asked: asked.subscribe(),
                copy_rows_values: rows.parameters(layout),
                bytes_max: rows_read_bytes_max(layout, count),
                lines: LogThrottle::default(),
            };
            reading.spawn(server.keep(addresses.subscribe(), sender));
            ways.push(ToServer::Far { parcels: None, asked });
        }

        let joined = vec![false; ways.len()];
        Self {
            context: context.clone(),
            dc: id.dc,
            layouts: layouts.to_vec(),
            ways,
            joined,
            incoming,
            addresses,
            _reading: reading,
        }
    }

    /// Sets the addresses of servers.
    pub(super) fn reach(&self, addresses: Addresses) {
        self.addresses.send_replace(addresses);
    }

    /// The next event. Cancel safe.
    pub(super) async fn next(&mut self) -> (ShardId, FromServer) {
        let Some(Came { shard, way, from }) = self.incoming.recv().await else {
            // Connections are kept until this value is dropped, except for that of a server in this process, which
            // has ended.
            return std::future::pending().await;
        };
        if let (Some(way), ToServer::Far { parcels, .. }) = (way, &mut self.ways[shard.index()]) {
            *parcels = Some(way);
        }
        if let FromServer::Joined(_) = from {
            self.joined[shard.index()] = true;
            self.context.on_connected(NodeId::Server(ServerId { dc: self.dc, shard }));
        }
        (shard, from)
    }

    /// Sends a message to a server if it is connected. If not, the server requests it after the reconnect. Returns
    /// the size in bytes.
    pub(super) fn send(&self, shard: ShardId, message: WorkerMessage) -> u64 {
        let layout = &self.layouts[shard.index()];
        let bytes = message.lan_bytes(layout);
        match &self.ways[shard.index()] {
            ToServer::Far { parcels, asked } => {
                if let WorkerMessage::Read { clock, rows } = &message {
                    let (clock, values) = (*clock, rows.parameters(layout));
                    asked.send_replace(Some(Asked { clock, values }));
                }
                let Some(parcels) = parcels else { return bytes };
                let body = encode_worker_message(&message, layout);
                // If the queue is full or closed, the connection is lost. Its reader returns the error.
                let _lost = parcels.try_send((LanKind::WorkerMessage, body));
            }
            // If the server has ended, this process ends.
            ToServer::Near(requests) => drop(requests.try_send(message)),
        }
        bytes
    }

    /// Tells a server in another process which rows of copies this worker evaluates.
    pub(super) fn send_copy_rows(&self, shard: ShardId, rows: &ShardRows) {
        if let ToServer::Far { parcels: Some(parcels), .. } = &self.ways[shard.index()] {
            let (clock, layout) = (Clock::ZERO, &self.layouts[shard.index()]);
            let message = WorkerMessage::Read { clock, rows: rows.clone() };
            let body = encode_worker_message(&message, layout);
            // If the queue is full or closed, the connection is lost. Its reader returns the error.
            let _lost = parcels.try_send((LanKind::CopyRows, body));
        }
    }

    /// Whether all servers have been connected.
    pub(super) fn are_joined(&self) -> bool {
        self.joined.iter().all(|joined| *joined)
    }
}

async fn receive_near(shard: ShardId, mut replies: Receiver<FromNear>, sender: Sender<Came>) {
    while let Some(from) = replies.recv().await {
        let from = match from {
            FromNear::Joined(due) => FromServer::Joined(due),
            FromNear::Due(due) => FromServer::Due(due),
            FromNear::Rows(rows) => FromServer::Rows(rows),
            FromNear::Copy { ticket, values } => {
                FromServer::Copy { ticket, copy: ShardCopy::Whole(values) }
            }
        };
        if sender.send(Came { shard, way: None, from }).await.is_err() {
            return;
        }
    }
}

/// A server in another process.
struct Far {
    context: NodeContext,
    id: ServerId,
    layout: ShardLayout,
    memory: MessageMemory,
    next_requests: watch::Receiver<NextRequests>,
    /// The latest read that was sent to the server.
    asked: watch::Receiver<Option<Asked>>,
    /// The number of values of the rows of copies that the worker evaluates.
    copy_rows_values: usize,
    /// The largest message of the server, in bytes.
    bytes_max: usize,
    /// Of lost connections: a server loses them as often as it likes.
    lines: LogThrottle,
}

impl Far {
    /// Connects to a server, and reconnects whenever the connection is lost, until the receiver is dropped.
    async fn keep(self, mut addresses: watch::Receiver<Addresses>, sender: Sender<Came>) {
        let mut again = false;
        while let Err(error) = self.connect(&mut addresses, &sender, &mut again).await {
            let lost = Came { shard: self.id.shard, way: None, from: FromServer::Lost(error) };
            if sender.send(lost).await.is_err() {
                return;
            }
        }
    }

    /// Ends with an error if the server is permanently unreachable, and without one once the receiver is dropped.
    async fn connect(
        &self,
        addresses: &mut watch::Receiver<Addresses>,
        sender: &Sender<Came>,
        again: &mut bool,
    ) -> Result<(), RealError> {
        let node = NodeId::Server(self.id);
        let name = self.context.run_context.name(node);
        loop {
            let mut patience = Patience::new(name.clone(), *again);
            let (address, joined) = loop {
                let address = addresses.borrow_and_update().get(&self.id).cloned();
                let address = address.ok_or_else(|| RealError::Broken {
                    from: "the coordinator".into(),
                    reason: format!("it sent no address of {name}"),
                })?;
                let next_requests = self.next_requests.borrow().get(self.id.shard.index()).copied();
                let next_requests = next_requests.flatten();
                let hello = Hello { next_requests, ..self.context.hello(Purpose::Join) };
                match self.context.dial(node, &address, &hello).await {
                    Ok(channel) => break (address, channel),
                    Err(fault) => patience.wait(&address, fault).await?,
                }
            };
            *again = true;
            let (reader, parcels, _) = joined.start(PARCELS_MAX);
            let error = tokio::select! {
                biased;
                error = self.receive(reader, parcels, sender) => error,
                () = moved(addresses, self.id, &address) => {
                    ChannelError::Other("its address has changed".into())
                }
            };
            if sender.is_closed() {
                return Ok(());
            }
            if let Some(left_out) = self.lines.pass() {
                let own = self.context.name();
                info!("{own} has lost the connection to {name}: {error}{left_out}");
            }
            self.context.on_lost(node);
            sleep(BREATH).await;
        }
    }

    async fn receive(
        &self,
        reader: Reader,
        parcels: Sender<Parcel>,
        sender: &Sender<Came>,
    ) -> ChannelError {
        let mut reader = reader.in_memory(self.memory.clone());
        let mut parcels = Some(parcels);
        loop {
            let next = reader.next(|_| self.bytes_max, None).await;
            let from = next.and_then(|(kind, body)| match kind {
                LanKind::Hello if parcels.is_some() => Ok(FromServer::Joined(unpack(&body)?)),
                LanKind::Hello => Ok(FromServer::Due(unpack(&body)?)),
                LanKind::RowsRead if parcels.is_none() => self.read_rows(&body),
                LanKind::Copy if parcels.is_none() => {
                    let (ticket, values) = decode_copy(&body)?;
                    check_copy(values.len(), self.layout.parameters())?;
                    Ok(FromServer::Copy { ticket, copy: ShardCopy::Whole(values.into()) })
                }
                LanKind::CopyRows if parcels.is_none() => {
                    let (ticket, sparse, values) = decode_copy_rows(&body)?;
                    check_copy(values.len(), self.copy_rows_values)?;
                    Ok(FromServer::Copy { ticket, copy: ShardCopy::Rows { values, sparse } })
                }
                other => Err(ChannelError::Other(format!(
                    "received {other:?} from a server, which was not expected"
                ))),
            });
            let from = match from {
                Ok(from) => from,
                Err(error) => return error,
            };
            let came = Came { shard: self.id.shard, way: parcels.take(), from };
            if sender.send(came).await.is_err() {
                return ChannelError::Closed;
            }
        }
    }

    /// Decodes and validates an answer.
    ///
    /// # Errors
    /// If it is not one that a correct server sends. An answer to another read than the latest is valid: a server sends it
    /// again after a reconnect.
    fn read_rows(&self, body: &ReceivedBody) -> Result<FromServer, ChannelError> {
        let read = decode_rows_read(body, &self.layout)?;
        let topology = &self.context.run_context.plan.topology;
        check_waits(&read.held, topology)?;
        check_probes(&read.probes, self.id.dc, topology)?;
        self.check_values(&read)?;
        Ok(FromServer::Rows(Arc::new(read)))
    }

    /// Checks that an answer has the values that were asked for. A worker that only left it out would wait without end: its
    /// server has answered.
    fn check_values(&self, read: &RowsRead) -> Result<(), ChannelError> {
        let (asked, found) = (*self.asked.borrow(), read.values.len());
        match asked.filter(|asked| asked.clock == read.clock && asked.values != found) {
            None => Ok(()),
            Some(Asked { clock, values }) => Err(ChannelError::Other(format!(
                "received {found} values for the read of clock {clock}, expected {values}"
            ))),
        }
    }
}

/// Checks the number of values of a copy.
fn check_copy(found: usize, expected: usize) -> Result<(), ChannelError> {
    if found == expected {
        return Ok(());
    }
    let said = format!("received a copy of {found} values, expected {expected}");
    Err(ChannelError::Other(said))
}

/// Waits until a server has another address.
async fn moved(addresses: &mut watch::Receiver<Addresses>, server: ServerId, from: &Address) {
    let elsewhere = |addresses: &Addresses| addresses.get(&server) != Some(from);
    if addresses.wait_for(elsewhere).await.is_err() {
        // The owner of the addresses has ended.
        std::future::pending::<()>().await;
    }
}

/// The largest message of a server, in bytes: its whole shard, and for the skew guard two copies from each other data
/// center.
fn rows_read_bytes_max(layout: &ShardLayout, servers: usize) -> usize {
    4 * layout.parameters() * (1 + 2 * servers) + HELD_BYTES
}

/// The events of a connect, an answer, and a repeated answer.
const MESSAGES_PER_SERVER: usize = 4;

/// The pause before a reconnect to a lost server.
const BREATH: Duration = Duration::from_millis(50);

/// A few thousand reasons why reads were held back, in bytes.
const HELD_BYTES: usize = 64 << 10;
