//! What a conductor is told of its end of the WAN.

use std::time::Duration;

use bytes::Bytes;

use super::TransportError;
use crate::node::Lane;
use crate::types::{DcId, ShardId};

/// What happens at a data center's end of the WAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Frame(Incoming),
    /// A frame is on its way, and its lane has room for another. `busy` is how long the frame has kept the link
    /// as far as this lane can tell: no less than its bytes take, longer where it shared the link.
    Room {
        to: DcId,
        shard: ShardId,
        lane: Lane,
        bytes: u64,
        busy: Duration,
    },
    /// A peer said goodbye, after the last of its frames.
    Left {
        peer: DcId,
    },
    /// A peer will not be heard again.
    Lost {
        peer: DcId,
        error: TransportError,
    },
}

/// A whole frame from a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    pub from: DcId,
    pub shard: ShardId,
    pub lane: Lane,
    pub frame: Bytes,
}
