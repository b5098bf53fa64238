//! The inputs of nodes, as a log keeps them.

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

/// An input of a server, and when it came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub at: Instant,
    pub input: Input,
}

/// What can happen to a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Input {
    /// A process began to run it.
    Started {
        incarnation: Incarnation,
    },
    /// A worker said what was due.
    Worker {
        from: WorkerId,
        message: WorkerMessage,
    },
    /// A mirror said hello.
    Met {
        from: DcId,
        met: Met,
    },
    /// The next frame of a mirror.
    Frame {
        from: DcId,
        lane: Lane,
        frame: Bytes,
    },
    /// A mirror has so many frames of each lane.
    Acknowledged {
        by: DcId,
        counts: [u64; 2],
    },
    /// A frame was cut for a mirror; or updates that waited for it had come to nothing, and none was.
    Cut {
        to: DcId,
        lane: Lane,
        room: u64,
        came: bool,
    },
    /// Bytes towards a mirror have left.
    Drained {
        to: DcId,
        bytes: u64,
        busy: Duration,
    },
    /// The connection to a mirror was lost.
    Disconnected {
        from: DcId,
    },
    Timeout,
    /// Its copy is lost, or it joins late: it takes that of a mirror. Some data centers take no part.
    Rebuild {
        from: DcId,
        inactive: BTreeSet<DcId>,
    },
    /// A data center has left for good, in this incarnation of its server.
    Left {
        from: DcId,
        incarnation: u64,
    },
    /// After that: a worker is on the line, and says this next, if it knows.
    Placed {
        worker: WorkerId,
        at: Option<RequestSeq>,
    },
    /// The coordinator said that copies are to become equal.
    Drain {
        clocks: Vec<Clock>,
        inactive: BTreeSet<DcId>,
    },
}

/// What can happen to a worker. Time is no input of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkerEntry {
    Start,
    /// It began anew, at the least clock that is due at any server; `owed` is the greatest.
    TakeUp {
        clock: Clock,
        owed: Clock,
    },
    /// A server knew of more than the worker did itself: it lets go of all that it was about to say. `ran` says
    /// whether an iteration had run by then.
    Outrun {
        ran: bool,
    },
    Rows {
        from: ShardId,
        rows: RowsRead,
    },
    /// The time of the iteration was over.
    Computed,
    Stop {
        last: Clock,
    },
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

/// # Errors
/// Where the bytes are no entry.
pub(super) fn decode<T: DeserializeOwned>(number: u64, body: &[u8]) -> Result<T, RecoveryError> {
    rmp_serde::from_slice(body)
        .map_err(|error| RecoveryError::Unreadable { number, problem: error.to_string() })
}
