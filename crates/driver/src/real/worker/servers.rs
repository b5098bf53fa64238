//! A worker's connections to the servers of its data center, which come and go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::info;

use crate::real::connections::channel::{Parcel, Reader};
use crate::real::connections::message::{Hello, Purpose, unpack};
use crate::real::error::{ChannelError, RealError};
use crate::real::node::context::{NodeContext, Patience};
use crate::real::server::mirrors::Addresses;
use crate::real::server::workers::PARCELS_MAX;
use crate::real::{FromNear, NearServer, NextRequests};
use gaia_core::node::{RowsRead, WorkerMessage, decode_rows_read, encode_worker_message};
use gaia_core::recovery::RequestSeq;
use gaia_core::topology::Address;
use gaia_core::types::{DcId, NodeId, ServerId, ShardId, ShardLayout, WorkerId};
use gaia_core::wire::LanKind;

/// Every server of a data center, as one of its workers sees them.
pub(super) struct Servers {
    context: NodeContext,
    dc: DcId,
    layouts: Vec<ShardLayout>,
    ways: Vec<ToServer>,
    /// Which have been met.
    met: Vec<bool>,
    incoming: Receiver<Came>,
    addresses: watch::Sender<Addresses>,
    /// Ends with this.
    _reading: JoinSet<()>,
}

/// What comes from a server.
pub(super) enum FromServer {
    /// There is a connection, in place of any before; this is due over it.
    Joined(RequestSeq),
    /// This is due from a worker that begins anew.
    Due((RequestSeq, bool)),
    Rows(Arc<RowsRead>),
    /// It cannot be reached at all.
    Lost(RealError),
}

/// The same on its way here, with the way to the server where there is a new one.
struct Came {
    shard: ShardId,
    way: Option<Sender<Parcel>>,
    from: FromServer,
}

/// The way to a server.
enum ToServer {
    /// Nothing where there is no connection.
    Far(Option<Sender<Parcel>>),
    /// In this process.
    Near(Sender<WorkerMessage>),
}

impl Servers {
    /// Calls every server of a worker's data center, but for one in this process.
    pub(super) fn meet(
        context: &NodeContext,
        id: WorkerId,
        layouts: &[ShardLayout],
        (addresses, next_requests): (Addresses, watch::Receiver<NextRequests>),
        mut near: Option<NearServer>,
    ) -> Self {
        let count = addresses.len();
        let addresses = watch::Sender::new(addresses);
        let (sender, incoming) = channel(layouts.len() * MESSAGES_PER_SERVER);
        let mut reading = JoinSet::new();
        let mut ways = Vec::new();

        for (shard, layout) in (0_u16..).map(ShardId).zip(layouts) {
            let sender = sender.clone();
            if let Some(NearServer { says, hears, .. }) = near.take_if(|near| near.shard == shard) {
                reading.spawn(hear_near(shard, hears, sender));
                ways.push(ToServer::Near(says));
                continue;
            }
            let server = Far {
                context: context.clone(),
                id: ServerId { dc: id.dc, shard },
                layout: layout.clone(),
                next_requests: next_requests.clone(),
                bytes_max: rows_read_bytes_max(layout, count),
            };
            reading.spawn(server.keep(addresses.subscribe(), sender));
            ways.push(ToServer::Far(None));
        }

        let met = vec![false; ways.len()];
        Self {
            context: context.clone(),
            dc: id.dc,
            layouts: layouts.to_vec(),
            ways,
            met,
            incoming,
            addresses,
            _reading: reading,
        }
    }

    /// Says where servers listen.
    pub(super) fn reach(&self, addresses: Addresses) {
        self.addresses.send_replace(addresses);
    }

    /// What comes next. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> (ShardId, FromServer) {
        let Some(Came { shard, way, from }) = self.incoming.recv().await else {
            // Every server is asked for until this is dropped, but for one in this process, which has ended.
            return std::future::pending().await;
        };
        if way.is_some() {
            self.ways[shard.index()] = ToServer::Far(way);
        }
        if let FromServer::Joined(_) = from {
            self.met[shard.index()] = true;
            self.context.on_connected(NodeId::Server(ServerId { dc: self.dc, shard }));
        }
        (shard, from)
    }

    /// Sends a message to a server, if it is on the line; one that is not asks for it. Answers with its bytes.
    pub(super) fn send(&self, shard: ShardId, message: WorkerMessage) -> u64 {
        let layout = &self.layouts[shard.index()];
        let bytes = message.lan_bytes(layout);
        match &self.ways[shard.index()] {
            ToServer::Far(Some(parcels)) => {
                let body = encode_worker_message(&message, layout);
                // One that does not take it is lost, of which its reader tells.
                let _lost = parcels.try_send((LanKind::WorkerMessage, body));
            }
            ToServer::Far(None) => {}
            // One that has ended ends this process.
            ToServer::Near(says) => drop(says.try_send(message)),
        }
        bytes
    }

    /// Whether every server has been met.
    pub(super) fn are_met(&self) -> bool {
        self.met.iter().all(|met| *met)
    }
}

async fn hear_near(shard: ShardId, mut hears: Receiver<FromNear>, sender: Sender<Came>) {
    while let Some(from) = hears.recv().await {
        let from = match from {
            FromNear::Joined(due) => FromServer::Joined(due),
            FromNear::Due(due) => FromServer::Due(due),
            FromNear::Rows(rows) => FromServer::Rows(rows),
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
    next_requests: watch::Receiver<NextRequests>,
    /// The most that it says at once.
    bytes_max: usize,
}

impl Far {
    /// Calls a server, and calls it again whenever it is lost, for as long as somebody listens.
    async fn keep(self, mut addresses: watch::Receiver<Addresses>, sender: Sender<Came>) {
        let mut again = false;
        while let Err(error) = self.meet(&mut addresses, &sender, &mut again).await {
            let lost = Came { shard: self.id.shard, way: None, from: FromServer::Lost(error) };
            if sender.send(lost).await.is_err() {
                return;
            }
        }
    }

    /// Ends with an error where the server cannot be reached, and otherwise once nobody listens.
    async fn meet(
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
                    reason: format!("it knows no address of {name}"),
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
                error = self.hear(reader, parcels, sender) => error,
                () = moved(addresses, self.id, &address) => {
                    ChannelError::Other("it listens elsewhere now".into())
                }
            };
            if sender.is_closed() {
                return Ok(());
            }
            info!("{} does not hear {name} any more: {error}", self.context.name());
            self.context.on_lost(node);
            sleep(BREATH).await;
        }
    }

    async fn hear(
        &self,
        mut reader: Reader,
        parcels: Sender<Parcel>,
        sender: &Sender<Came>,
    ) -> ChannelError {
        let mut parcels = Some(parcels);
        loop {
            let next = reader.next(|_| self.bytes_max, None).await;
            let from = next.and_then(|(kind, body)| match kind {
                LanKind::Hello if parcels.is_some() => Ok(FromServer::Joined(unpack(&body)?)),
                LanKind::Hello => Ok(FromServer::Due(unpack(&body)?)),
                LanKind::RowsRead if parcels.is_none() => {
                    Ok(FromServer::Rows(Arc::new(decode_rows_read(&body, &self.layout)?)))
                }
                other => Err(ChannelError::Other(format!("a {other:?} from a server"))),
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
}

/// Waits until a server listens elsewhere.
async fn moved(addresses: &mut watch::Receiver<Addresses>, server: ServerId, from: &Address) {
    let elsewhere = |addresses: &Addresses| addresses.get(&server) != Some(from);
    if addresses.wait_for(elsewhere).await.is_err() {
        // Nobody is left to say so.
        std::future::pending::<()>().await;
    }
}

/// The most that a server says at once: all of its shard, and for the guard against skew two copies from each other
/// data center.
fn rows_read_bytes_max(layout: &ShardLayout, servers: usize) -> usize {
    4 * layout.parameters() * (1 + 2 * servers) + HELD_BYTES
}

/// A hello and an answer, and the answer once more.
const MESSAGES_PER_SERVER: usize = 4;

/// Before a server is called again that was lost.
const BREATH: Duration = Duration::from_millis(50);

/// Reasons for which a read was held back: a few thousand.
const HELD_BYTES: usize = 64 << 10;
