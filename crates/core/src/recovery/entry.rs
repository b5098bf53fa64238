//! The inputs of nodes, in the form in which a log holds them.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::RecoveryError;
use super::log_buffer::EntryKind;
use super::worker_session::RequestSeq;
use crate::node::{RowsRead, WorkerMessage};
use crate::session::{Incarnation, PeerHello};
use crate::types::{Clock, DcId, Instant, Lane, ShardId, ShardLayout, WorkerId, messagepack};

/// An input of a server, with its time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The time of the input. It is not before that of the entry before.
    pub at: Instant,
    /// The input.
    pub input: Input,
}

/// An input of a server. The names of variants are part of the format of logs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Input {
    /// A process has begun to run the server.
    Started {
        /// The incarnation of the process, higher than all before.
        incarnation: Incarnation,
        /// Whether what workers had sent may be lost ([`super::Logging::Deferred`]). A worker may then have the answer to a read
        /// that is held back again, so it is to read again.
        #[serde(default)]
        defers: bool,
    },
    /// A worker has sent the request that was due from it, or a reset.
    Worker {
        /// The worker.
        from: WorkerId,
        /// The request or the reset.
        message: WorkerMessage,
    },
    /// The hello of a mirror was received of an incarnation that is new to this server.
    Hello {
        /// The mirror's data center.
        from: DcId,
        /// The durable part of the hello.
        hello: PeerHello,
    },
    /// The next frame of a mirror was received.
    Frame {
        /// The mirror's data center.
        from: DcId,
        /// The lane of the frame.
        lane: Lane,
        /// The encoded frame.
        frame: Bytes,
    },
    /// A mirror has acknowledged frames.
    Acknowledged {
        /// The mirror's data center.
        by: DcId,
        /// The total numbers of frames that it has acknowledged in this state of the session, by lane.
        counts: [u64; 2],
    },
    /// The server was asked for a frame for a mirror.
    Cut {
        /// The mirror's data center.
        to: DcId,
        /// The lane of the frame.
        lane: Lane,
        /// The approximate largest size of the frame in bytes.
        room: u64,
        /// Whether there was a frame. If not, updates had waited for the mirror, and the server found that they had
        /// cancelled out.
        came: bool,
    },
    /// Data frames for a mirror were sent.
    Drained {
        /// The mirror's data center.
        to: DcId,
        /// Their size in bytes.
        bytes: u64,
        /// How long the link was busy with them.
        busy: Duration,
    },
    /// Nothing is received from a mirror: its connection is lost, or it is silent.
    Disconnected {
        /// The mirror's data center.
        from: DcId,
    },
    /// A deadline of the server has passed.
    Timeout,
    /// The server has lost its copy, or joins late, and takes the copy of a mirror.
    Rebuild {
        /// The mirror's data center.
        from: DcId,
        /// The data centers that take no part.
        inactive: BTreeSet<DcId>,
    },
    /// A mirror has left for good.
    Left {
        /// The mirror's data center.
        from: DcId,
        /// The number of the incarnation that began the state with which the mirror took part.
        incarnation: u64,
    },
    /// A worker has connected, and the server has lost or only guesses its next request.
    Placed {
        /// The worker.
        worker: WorkerId,
        /// The next request as the worker knows it. `None` if the worker has lost it, too.
        at: Option<RequestSeq>,
    },
    /// The coordinator has ordered the drain, once the workers have finished their clocks.
    Drain {
        /// The clocks at which the workers of this data center have stopped, by worker.
        clocks: Vec<Clock>,
        /// The data centers that take no part.
        inactive: BTreeSet<DcId>,
    },
}

/// An input of a worker. A worker's steps do not depend on the time. The names of variants are part of the format of
/// logs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkerEntry {
    /// The worker has started at the first clock.
    Start,
    /// The worker has started without its state, and continues the work of an earlier process.
    TakeUp {
        /// The clock at which it starts: the lowest of the requests that servers know to be due, or a guess if no
        /// server knows.
        clock: Clock,
        /// The highest of these clocks. The worker does not stop before it.
        owed: Clock,
    },
    /// A server has taken requests that the worker does not know of. The worker drops the messages that it has not
    /// sent.
    Outrun {
        /// Whether an iteration had run whose end was not noted.
        ran: bool,
    },
    /// A server has answered a read.
    Rows {
        /// The shard of the server.
        from: ShardId,
        /// The answer.
        rows: RowsRead,
    },
    /// The iteration has run, and its computation time has elapsed.
    Computed,
    /// The coordinator has ordered the worker to stop.
    Stop {
        /// The clock at which it stops.
        last: Clock,
    },
}

impl Input {
    /// What may wait for the entry of this input, and what it depends on. What a worker sends reaches another data center only
    /// with a frame, and the frame's cut is an input of its own. A reset is not repeated, and without it the server would answer
    /// a read of before. `in_rounds` is whether other data centers receive nothing but what was taken for a round.
    pub(super) fn kind(&self, in_rounds: bool) -> EntryKind {
        match self {
            Self::Worker { message, .. } if RequestSeq::of(message).is_some() => EntryKind::Local,
            Self::Acknowledged { .. } | Self::Drained { .. } => EntryKind::Local,
            Self::Frame { lane: Lane::Data, .. } | Self::Cut { lane: Lane::Data, .. }
                if in_rounds =>
            {
                EntryKind::Independent
            }
            _ => EntryKind::Prompt,
        }
    }

    /// About the bytes of what a worker has sent. `layout` is that of the server.
    pub(super) fn worker_bytes(&self, layout: &ShardLayout) -> u64 {
        match self {
            Self::Worker { message, .. } => message.lan_bytes(layout),
            _ => 0,
        }
    }
}

impl WorkerEntry {
    /// About the bytes of the rows that a server has sent.
    pub(super) fn rows_bytes(&self) -> u64 {
        match self {
            Self::Rows { rows, .. } => rows.lan_bytes(),
            _ => 0,
        }
    }

    /// Whether an iteration has run between the entry before and this one.
    pub(super) fn follows_iteration(&self) -> bool {
        matches!(self, Self::Computed | Self::Outrun { ran: true })
    }
}

/// Encodes an entry as the body of a record.
pub(super) fn encode<T: Serialize>(entry: &T) -> Bytes {
    messagepack::encode(entry).into()
}

/// Reads an entry from the body of the record of this number.
///
/// # Errors
/// If the bytes are not an entry.
pub(super) fn decode<T: DeserializeOwned>(number: u64, body: &[u8]) -> Result<T, RecoveryError> {
    messagepack::decode(body)
        .map_err(|error| RecoveryError::Unreadable { number, problem: error.to_string() })
}
