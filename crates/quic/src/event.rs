//! The events of a data center's connections.

use std::time::Duration;

use bytes::Bytes;

use super::TransportError;
use gaia_core::node::Lane;
use gaia_core::types::{DcId, ShardId};

/// An event at a data center's end of the WAN, always of the latest connection to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame was received.
    Frame(Incoming),
    /// A frame was sent, and its lane has room for another. `busy` is how long the link was busy with the frame, as far
    /// as this lane can measure: at least the time of its bytes, and longer if it shared the link.
    Room {
        /// The receiver of the frame.
        to: DcId,
        /// The shard of the frame.
        shard: ShardId,
        /// The lane of the frame.
        lane: Lane,
        /// The size of the frame, in bytes.
        bytes: u64,
        /// How long the link was busy with the frame.
        busy: Duration,
    },
    /// No packet of a peer has arrived for a second, or three round trips if that is longer. Repeated every half second for
    /// as long as none arrives. The connection is still open: frames may follow, and if none does it is lost some seconds
    /// later.
    Silent {
        /// The peer.
        peer: DcId,
    },
    /// A peer or this end has closed the connection in order, and the peer's last frame was received.
    Left {
        /// The peer.
        peer: DcId,
    },
    /// The connection to a peer failed, and its unsent frames are lost. Another connection may replace it.
    Lost {
        /// The peer.
        peer: DcId,
        /// Why the connection failed.
        error: TransportError,
    },
}

/// A whole frame from a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The data center of the sender.
    pub from: DcId,
    /// The shard of the frame.
    pub shard: ShardId,
    /// The lane of the frame.
    pub lane: Lane,
    /// The frame, without its length prefix.
    pub frame: Bytes,
}

/// The number of a connection of an end. Each has a higher number than those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(pub(super) u64);

/// An item of one connection, which is ignored once another connection has replaced it.
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
