//! A server's connections to the workers of its data center, which may be lost and opened again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tracing::info;

use crate::digest::digest_of_sparse;
use crate::real::connections::channel::{Channel, Parcel, Reader};
use crate::real::connections::message::{Answer, encode_copy, encode_copy_rows, pack};
use crate::real::connections::message_memory::MessageMemory;
use crate::real::connections::throttle::LogThrottle;
use crate::real::error::ChannelError;
use crate::real::node::context::NodeContext;
use crate::real::{FromNear, NearWorker, NextRequests};
use gaia_core::node::{RowsRead, WorkerMessage, decode_worker_message, encode_rows_read};
use gaia_core::recovery::RequestSeq;
use gaia_core::store::ShardRows;
use gaia_core::types::{NodeId, ShardId, ShardLayout, WorkerId};
use gaia_core::wire::LanKind;

/// All workers of a data center, from the view of one of its servers.
pub(in crate::real) struct Workers {
    context: NodeContext,
    layout: ShardLayout,
    /// The memory of what workers in other processes have sent.
    memory: MessageMemory,
    ways: BTreeMap<WorkerId, Way>,
    near: Option<Near>,
    /// The copy of an evaluation in progress.
    evaluated: Option<EvaluatedCopy>,
    /// Workers that have not been connected yet.
    missing: BTreeSet<WorkerId>,
    incoming: Receiver<FromWorker>,
    sender: Sender<FromWorker>,
    /// The number of connections so far.
    connections: u64,
    /// Of connections that ended or were closed: a worker reconnects at once, as often as it likes.
    lines: LogThrottle,
    /// Ends with this value.
    reading: JoinSet<()>,
}

/// The copy of an evaluation.
struct EvaluatedCopy {
    ticket: u64,
    values: Arc<[f32]>,
    /// The digest of the sparse tables. `None` if there are none.
    sparse: Option<u64>,
}

/// The worker in this process.
struct Near {
    worker: WorkerId,
    /// The next request to each server, if the worker knows it.
    next_requests: watch::Receiver<NextRequests>,
    replies: Sender<FromNear>,
}

/// The connection to a worker.
enum Way {
    Far {
        connection: u64,
        parcels: Sender<Parcel>,
        reading: AbortHandle,
        /// The rows of copies that the worker evaluates, once it has said so. Only of models with sparse tables.
        copy_rows: Option<ShardRows>,
    },
    /// The worker in this process.
    Near(Sender<FromNear>),
}

/// A message of a worker, or the error that ended its connection.
struct FromWorker {
    worker: WorkerId,
    /// `None` for the worker in this process.
    connection: Option<u64>,
    message: Result<Sent, String>,
}

/// What a worker sends.
enum Sent {
    Message(WorkerMessage),
    /// The rows of copies that it evaluates.
    CopyRows(ShardRows),
}

impl Workers {
    pub(in crate::real) fn new(
        context: &NodeContext,
        layout: ShardLayout,
        all: BTreeSet<WorkerId>,
        near: Option<NearWorker>,
    ) -> Self {
        let (sender, incoming) = channel(all.len() * MESSAGES_PER_WORKER);
        let mut workers = Self {
            context: context.clone(),
            layout,
            memory: MessageMemory::default(),
            ways: BTreeMap::new(),
            near: None,
            evaluated: None,
            missing: all,
            incoming,
            sender,
            connections: 0,
            lines: LogThrottle::default(),
            reading: JoinSet::new(),
        };

        if let Some(NearWorker { worker, next_requests, mut requests, replies }) = near {
            workers.near = Some(Near { worker, next_requests, replies });
            let sender = workers.sender.clone();
            workers.reading.spawn(async move {
                while let Some(message) = requests.recv().await {
                    let message = Ok(Sent::Message(message));
                    let message = FromWorker { worker, connection: None, message };
                    if sender.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }

        workers
    }

    /// The worker in this process, if there is one.
    pub(in crate::real) fn near(&self) -> Option<WorkerId> {
        self.near.as_ref().map(|near| near.worker)
    }

    /// The next request of that worker to the server of a shard, if the worker knows it.
    pub(in crate::real) fn near_next_request(&self, shard: ShardId) -> Option<RequestSeq> {
        let next_requests = self.near.as_ref()?.next_requests.borrow();
        next_requests.get(shard.index()).copied().flatten()
    }

    /// Connects the worker in this process, in place of any connection before, and sends it the due request.
    pub(in crate::real) fn join_near(&mut self, due: RequestSeq) {
        let Some(Near { worker, replies, .. }) = &self.near else { return };
        let (worker, replies) = (*worker, replies.clone());
        self.part(worker);
        self.context.on_connected(NodeId::Worker(worker));
        // If the worker has ended, this process ends.
        let _ended = replies.try_send(FromNear::Joined(due));
        self.ways.insert(worker, Way::Near(replies));
        self.missing.remove(&worker);
        self.send_copy(worker);
    }

    /// Replaces the connection of a worker, and sends it the due request.
    pub(in crate::real) fn join(&mut self, worker: WorkerId, channel: Channel, due: RequestSeq) {
        let (reader, parcels, _) = channel.start(PARCELS_MAX);
        for body in [pack(&Answer::Welcome), pack(&due)] {
            parcels
                .try_send((LanKind::Hello, body.into()))
                .expect("an empty queue has room for two");
        }
        self.part(worker);
        self.connections += 1;
        let connection = self.connections;
        while self.reading.try_join_next().is_some() {}
        let (layout, memory) = (self.layout.clone(), self.memory.clone());
        let requests = receive((worker, connection), reader, (layout, memory), self.sender.clone());
        let reading = self.reading.spawn(requests);
        let copy_rows = None;
        self.ways.insert(worker, Way::Far { connection, parcels, reading, copy_rows });
        self.context.on_connected(NodeId::Worker(worker));
        self.missing.remove(&worker);
        self.send_copy(worker);
    }

    /// The next message of a worker. Cancel safe.
    pub(in crate::real) async fn next(&mut self) -> (WorkerId, WorkerMessage) {
        loop {
            let next = self.incoming.recv().await;
            let FromWorker { worker, connection, message } =
                next.expect("this end keeps the other end");
            let current = match self.ways.get(&worker) {
                Some(Way::Far { connection, .. }) => Some(Some(*connection)),
                Some(Way::Near(_)) => Some(None),
                None => None,
            };
            if current != Some(connection) {
                continue;
            }
            match message {
                Ok(Sent::Message(message)) => return (worker, message),
                Ok(Sent::CopyRows(rows)) => self.on_copy_rows(worker, rows),
                Err(reason) => {
                    self.log(worker, "has lost", &reason);
                    self.part(worker);
                }
            }
        }
    }

    /// Closes the connection of a worker, which then reconnects. Messages of the worker in this process are ignored
    /// until it is admitted again.
    pub(in crate::real) fn part(&mut self, worker: WorkerId) {
        match self.ways.remove(&worker) {
            Some(Way::Far { reading, .. }) => reading.abort(),
            Some(Way::Near(_)) => {}
            None => return,
        }
        self.context.on_lost(NodeId::Worker(worker));
    }

    /// Logs why a request of a worker is refused. The caller closes its connection.
    pub(in crate::real) fn on_refused(&self, worker: WorkerId, reason: &str) {
        self.log(worker, "closes", reason);
    }

    fn log(&self, worker: WorkerId, verb: &str, reason: &str) {
        if let Some(left_out) = self.lines.pass() {
            let (own, node) =
                (self.context.name(), self.context.run_context.name(NodeId::Worker(worker)));
            info!("{own} {verb} the connection to {node}: {reason}{left_out}");
        }
    }

    /// Sends an answer to a worker, if it is connected. If not, it repeats the request after its reconnect.
    pub(in crate::real) fn answer(&mut self, worker: WorkerId, rows: Arc<RowsRead>) {
        match self.ways.get(&worker) {
            Some(Way::Far { .. }) => {
                self.send_far(worker, (LanKind::RowsRead, encode_rows_read(&rows)));
            }
            // If the worker has ended, this process ends.
            Some(Way::Near(replies)) => drop(replies.try_send(FromNear::Rows(rows))),
            None => {}
        }
    }

    /// Sends the due request to a worker that starts again, if it is connected. If not, it asks again after its
    /// reconnect.
    pub(in crate::real) fn send_due(&mut self, worker: WorkerId, due: (RequestSeq, bool)) {
        match self.ways.get(&worker) {
            Some(Way::Far { .. }) => self.send_far(worker, (LanKind::Hello, pack(&due).into())),
            // If the worker has ended, this process ends.
            Some(Way::Near(replies)) => drop(replies.try_send(FromNear::Due(due))),
            None => {}
        }
    }

    /// Sends a copy to all workers, for an evaluation. Those that connect before its end receive it, too.
    pub(in crate::real) fn begin_evaluation(&mut self, ticket: u64, copy: &[f32]) {
        let has_sparse_tables = self.layout.model().has_sparse_tables();
        let sparse = has_sparse_tables.then(|| digest_of_sparse(&self.layout, copy));
        self.evaluated = Some(EvaluatedCopy { ticket, values: copy.into(), sparse });
        let workers: Vec<WorkerId> = self.ways.keys().copied().collect();
        for worker in workers {
            self.send_copy(worker);
        }
    }

    /// Forgets the copy of an evaluation that is complete, and returns it if it is here.
    pub(in crate::real) fn end_evaluation(&mut self, ticket: u64) -> Option<Arc<[f32]>> {
        self.evaluated.take_if(|copy| copy.ticket == ticket).map(|copy| copy.values)
    }

    /// A worker says which rows of copies it evaluates, before it receives one.
    fn on_copy_rows(&mut self, worker: WorkerId, rows: ShardRows) {
        if let Some(Way::Far { copy_rows, .. }) = self.ways.get_mut(&worker) {
            *copy_rows = Some(rows);
        }
        self.send_copy(worker);
    }

    /// Sends a worker the copy of the evaluation in progress, if there is one: of a model with sparse tables the rows that
    /// it evaluates.
    fn send_copy(&mut self, worker: WorkerId) {
        let Some(EvaluatedCopy { ticket, values, sparse }) = &self.evaluated else { return };
        let parcel = match (self.ways.get(&worker), sparse) {
            (Some(Way::Far { .. }), None) => (LanKind::Copy, encode_copy(*ticket, values).into()),
            (Some(Way::Far { copy_rows: Some(rows), .. }), Some(sparse)) => {
                let rows = rows.of_shard(values, &self.layout);
                (LanKind::CopyRows, encode_copy_rows(*ticket, *sparse, &rows).into())
            }
            (Some(Way::Near(replies)), _) => {
                let values = values.clone();
                // If the worker has ended, this process ends.
                let _ended = replies.try_send(FromNear::Copy { ticket: *ticket, values });
                return;
            }
            _ => return,
        };
        self.send_far(worker, parcel);
    }

    fn send_far(&mut self, worker: WorkerId, parcel: Parcel) {
        if let Some(Way::Far { parcels, .. }) = self.ways.get(&worker)
            && parcels.try_send(parcel).is_err()
        {
            self.part(worker);
        }
    }

    /// Whether all workers have been connected.
    pub(in crate::real) fn are_joined(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Receives the messages of a worker over TCP until its connection ends. The last item sent is the reason.
async fn receive(
    (worker, connection): (WorkerId, u64),
    reader: Reader,
    (layout, memory): (ShardLayout, MessageMemory),
    sender: Sender<FromWorker>,
) {
    let mut reader = reader.in_memory(memory);
    let bytes_max = |_| worker_message_bytes_max(&layout);
    loop {
        let next = reader.next(bytes_max, None).await;
        let message = next.and_then(|(kind, body)| match kind {
            LanKind::WorkerMessage => Ok(Sent::Message(decode_worker_message(&body, &layout)?)),
            LanKind::CopyRows => match decode_worker_message(&body, &layout)? {
                WorkerMessage::Read { rows, .. } => Ok(Sent::CopyRows(rows)),
                _ => Err(ChannelError::Other(
                    "received rows of copies that are no read, expected a read".into(),
                )),
            },
            other => Err(ChannelError::Other(format!(
                "received {other:?} from a worker, expected a worker message"
            ))),
        });
        let message = message.map_err(|error| error.to_string());
        let last = message.is_err();
        let message = FromWorker { worker, connection: Some(connection), message };
        if sender.send(message).await.is_err() || last {
            return;
        }
    }
}

/// The largest message of a worker, in bytes: all rows with their numbers, and its measurements.
fn worker_message_bytes_max(layout: &ShardLayout) -> usize {
    4 * (layout.parameters() + layout.rows()) + 16 * layout.model().tables().len() + MEASURED_BYTES
}

/// A read and an update. The next read is sent with the update.
const MESSAGES_PER_WORKER: usize = 4;

/// The largest number of queued answers to one worker: one for each of its requests, and some for reconnects.
pub(in crate::real) const PARCELS_MAX: usize = 16;

/// The measurements of a thousand copies, in bytes.
const MEASURED_BYTES: usize = 64 << 10;
