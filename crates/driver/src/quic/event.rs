//! What a conductor is told of its end of the WAN.

use std::time::Duration;

use bytes::Bytes;

use super::TransportError;
use gaia_core::node::Lane;
use gaia_core::types::{DcId, ShardId};

/// What happens at a data center's end of the WAN, always of the connection to a peer that was joined last.
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
    /// A peer said goodbye, or this end did, and the last of its frames has come.
    Left {
        peer: DcId,
    },
    /// The connection to a peer is gone, and with it what was in hand. Another may be joined in its place.
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

/// Which of the connections to its peers an end has joined: each has a higher number than those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(pub(super) u64);

/// Something of one connection, which concerns nobody once another has taken its place.
#[derive(Debug)]
pub(crate) struct Of<T> {
    pub(super) peer: DcId,
    pub(super) generation: Generation,
    pub(super) what: T,
}

impl<T> Of<T> {
    pub(super) fn map<U>(self, with: impl FnOnce(T) -> U) -> Of<U> {
        let Self { peer, generation, what } = self;
        Of { peer, generation, what: with(what) }
    }
}
