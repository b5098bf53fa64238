//! The errors of connections between data centers.

use super::stripes::{Stripe, stripes_max};
use gaia_core::node::Lane;
use gaia_core::types::{DcId, ShardId};

/// Why a connection failed. Data centers have their names of the topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    #[error("certificates for {name}: {reason}")]
    Certificates { name: String, reason: String },
    #[error("{from} cannot connect to {to}: {reason}")]
    Unreachable { from: String, to: String, reason: String },
    #[error("{at} refused {peer}: {reason}")]
    WrongCertificate { at: String, peer: String, reason: String },
    #[error("the connection between {at} and {peer} was lost: {reason}")]
    ConnectionLost { at: String, peer: String, reason: String },
    #[error("{peer} has left the run")]
    PeerLeft { peer: DcId },
    #[error("{at} closed the connection to {peer}, which sent {breach}")]
    PeerBrokeProtocol { at: String, peer: String, breach: Breach },
    #[error("{connections} connections ended before their last frames were acknowledged")]
    Unfinished { connections: usize },
    #[error("a frame of {bytes} bytes for the {lane:?} lane to {to}, expected at most {max}")]
    FrameTooLong { to: DcId, lane: Lane, bytes: usize, max: usize },
    #[error("a frame for the {lane:?} lane of shard {} to {to}, which has no room", shard.0)]
    NoRoom { to: DcId, shard: ShardId, lane: Lane },
    #[error("a frame for shard {} of {to}, expected one of the {shards} shards of a peer", shard.0)]
    NoSuchLane { to: DcId, shard: ShardId, shards: usize },
}

/// How a peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    #[error("a stream that begins with {found:02x?}, expected `GAIA`")]
    NotGaia { found: [u8; 4] },
    #[error("a stream of protocol version {found}, expected {expected}")]
    Version { found: u16, expected: u16 },
    #[error("a stream for lane {found}, expected 0 (control) or 1 (data)")]
    Lane { found: u8 },
    #[error("stripe {index} of {count} of the {lane:?} lane, expected one of at most {}", stripes_max(*lane))]
    Stripe { lane: Lane, index: u8, count: u8 },
    #[error("stripe {} of {} of the {lane:?} lane of shard {}, which has it or has another number of them", stripe.index, stripe.count, shard.0)]
    StreamTwice { shard: ShardId, lane: Lane, stripe: Stripe },
    #[error("a stream that claims to come from {found}, expected {expected}")]
    Origin { found: DcId, expected: DcId },
    #[error("a stream for shard {}, expected one of {shards}", found.0)]
    Shard { found: ShardId, shards: usize },
    #[error("a frame of {bytes} bytes in the {lane:?} lane, expected at most {max}")]
    FrameTooLong { lane: Lane, bytes: usize, max: usize },
    #[error("a stream that ended within a frame or a hello")]
    Truncated,
}
