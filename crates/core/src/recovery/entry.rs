//! The inputs of nodes, in the form that a log holds.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::RecoveryError;
use super::worker_session::RequestSeq;
use crate::node::{RowsRead, WorkerMessage};
use crate::session::{Incarnation, Met};
use crate::types::{Clock, DcId, Instant, Lane, ShardId, WorkerId};

/// An input of a server, and the time at which it came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub at: Instant,
    pub input: Input,
}

/// An input of a server. The names of variants are part of the format of logs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Input {
    /// A process has begun to run the server.
    Started { incarnation: Incarnation },
    /// A worker has sent the request that was due from it.
    Worker { from: WorkerId, message: WorkerMessage },
    /// A mirror that has not been met in this incarnation has said hello.
    Met { from: DcId, met: Met },
    /// The next frame of a mirror.
    Frame { from: DcId, lane: Lane, frame: Bytes },
    /// A mirror has acknowledged so many frames of each lane.
    Acknowledged { by: DcId, counts: [u64; 2] },
    /// The server was asked for a frame of about `room` bytes for a mirror. `came` says whether there was one. Where
    /// there was none, updates had waited for the mirror, and the server found that they had cancelled out.
    Cut { to: DcId, lane: Lane, room: u64, came: bool },
    /// Bytes for a mirror have left, and have kept the link busy for a time.
    Drained { to: DcId, bytes: u64, busy: Duration },
    /// The connection to a mirror is lost.
    Disconnected { from: DcId },
    /// A deadline of the server has passed.
    Timeout,
    /// The server has lost its copy, or joins late, and takes the copy of a mirror. Some data centers are inactive.
    Rebuild { from: DcId, inactive: BTreeSet<DcId> },
    /// A data center has left for good. Its server was in this incarnation.
    Left { from: DcId, incarnation: u64 },
    /// A worker has connected whose next request the server has lost. `at` is what the worker knows of it.
    Placed { worker: WorkerId, at: Option<RequestSeq> },
    /// The coordinator has asked for the drain, once the workers are at these clocks.
    Drain { clocks: Vec<Clock>, inactive: BTreeSet<DcId> },
}

/// An input of a worker. Time is none. The names of variants are part of the format of logs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkerEntry {
    /// The worker has started at the first clock.
    Start,
    /// The worker has started without its state, at the least clock that is due at any server; `owed` is the greatest.
    TakeUp { clock: Clock, owed: Clock },
    /// A server has taken requests that the worker does not know of, so the worker drops all that it was about to send.
    /// `ran` says whether an iteration had run whose end was not noted.
    Outrun { ran: bool },
    /// A server has answered a read.
    Rows { from: ShardId, rows: RowsRead },
    /// The iteration has run, and its time is over.
    Computed,
    /// The worker is to stop at a clock.
    Stop { last: Clock },
}

impl WorkerEntry {
    /// Whether an iteration has run since the entry before.
    pub(super) fn follows_iteration(&self) -> bool {
        matches!(self, Self::Computed | Self::Outrun { ran: true })
    }
}

/// An entry as the body of a record.
pub(super) fn encode<T: Serialize>(entry: &T) -> Bytes {
    rmp_serde::to_vec(entry).expect("a vector takes every entry").into()
}

/// Reads an entry from the body of the record of this number.
///
/// # Errors
/// Where the bytes are no entry.
pub(super) fn decode<T: DeserializeOwned>(number: u64, body: &[u8]) -> Result<T, RecoveryError> {
    rmp_serde::from_slice(body)
        .map_err(|error| RecoveryError::Unreadable { number, problem: error.to_string() })
}
