//! What the three kinds of node have in common: how a driver talks to them.
//!
//! A node does no I/O and keeps no clock. The driver tells it what arrived ([`ServerInput`], messages) and what
//! time it is; the node answers with messages, frames and the next time it wants to be woken.
//! After every call that changes a node, the driver polls outputs until none is left, then asks each peer lane
//! that has room for a frame, then reads the next timeout.

mod lan;
mod message;

pub use crate::types::Lane;
pub use lan::{
    LanError, decode_rows_read, decode_worker_message, encode_rows_read, encode_worker_message,
};
pub use message::{ProbeRequest, Probed, RowsRead, WorkerMessage};

use std::time::Duration;

use bytes::Bytes;

use crate::types::DcId;

/// What can happen to a parameter server, apart from messages of its own data center.
#[derive(Clone, Debug)]
pub enum ServerInput {
    /// A whole frame from the mirror in another data center.
    Frame { from: DcId, lane: Lane, frame: Bytes },
    /// `bytes` of data lane frames towards a mirror have left the sending side, having kept the link busy for
    /// `busy`. The server estimates the link's rate from these.
    Drained { to: DcId, bytes: u64, busy: Duration },
    /// The connection to a mirror is lost: nothing will come until there is another.
    Disconnected { from: DcId },
    /// A mirror has said hello for the first time, in the incarnation of this number.
    First { from: DcId, incarnation: u64 },
    /// A mirror has lost all that it had, and begins an incarnation of this number: each is above those before.
    Reset { from: DcId, incarnation: u64 },
    /// A mirror has left the run for good, in the incarnation of this number.
    Left { from: DcId, incarnation: u64 },
}
