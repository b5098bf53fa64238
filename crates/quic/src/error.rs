//! The errors of connections between data centers.

use super::stripe::{Stripe, stripes_max};
use gaia_core::node::Lane;
use gaia_core::types::{DcId, ShardId};

/// Why a connection failed. Data centers have their names of the topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The certificates of a data center are invalid.
    #[error("certificates for {name}: {reason}")]
    Certificates {
        /// The data center.
        name: String,
        /// The error of the certificates.
        reason: String,
    },
    /// A connection attempt failed.
    #[error("{from} cannot connect to {to}: {reason}")]
    Unreachable {
        /// The data center that connects.
        from: String,
        /// The data center that it connects to.
        to: String,
        /// The error of the attempt.
        reason: String,
    },
    /// A peer has shown a certificate that is not trusted, or that of another node.
    #[error("{at} refused {peer}: {reason}")]
    WrongCertificate {
        /// This data center.
        at: String,
        /// The other data center.
        peer: String,
        /// Why the certificate was refused.
        reason: String,
    },
    /// A connection failed.
    #[error("the connection between {at} and {peer} was lost: {reason}")]
    ConnectionLost {
        /// This data center.
        at: String,
        /// The other data center.
        peer: String,
        /// The error of the connection.
        reason: String,
    },
    /// A frame is for a peer that has closed its connection in order.
    #[error("{peer} has left the run")]
    PeerLeft {
        /// The peer.
        peer: DcId,
    },
    /// A peer has violated the protocol, and its connection is closed.
    #[error("{at} closed the connection to {peer}, which sent {breach}")]
    PeerBrokeProtocol {
        /// This data center.
        at: String,
        /// The other data center.
        peer: String,
        /// The violation.
        breach: Breach,
    },
    /// The transport was closed before peers had acknowledged all frames.
    #[error("{connections} connections ended before their last frames were acknowledged")]
    Unfinished {
        /// The number of connections with such frames.
        connections: usize,
    },
    /// A frame exceeds the limit of its lane.
    #[error("a frame of {bytes} bytes for the {lane:?} lane to {to}, expected at most {max}")]
    FrameTooLong {
        /// The receiver.
        to: DcId,
        /// The lane of the frame.
        lane: Lane,
        /// The size of the frame, in bytes.
        bytes: usize,
        /// The largest size, in bytes.
        max: usize,
    },
    /// A frame is for a lane without room.
    #[error("a frame for the {lane:?} lane of shard {} to {to}, which has no room", shard.0)]
    NoRoom {
        /// The receiver.
        to: DcId,
        /// The shard of the frame.
        shard: ShardId,
        /// The lane.
        lane: Lane,
    },
    /// A frame is for a shard that the receiver does not have.
    #[error("a frame for shard {} of {to}, expected one of the {shards} shards of a peer", shard.0)]
    NoSuchLane {
        /// The receiver.
        to: DcId,
        /// The shard of the frame.
        shard: ShardId,
        /// The number of shards of the receiver.
        shards: usize,
    },
}

/// How a peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A stream does not begin with the magic bytes.
    #[error("a stream that begins with {found:02x?}, expected `GAIA`")]
    NotGaia {
        /// Its first bytes.
        found: [u8; 4],
    },
    /// A stream has another version of the protocol.
    #[error("a stream of protocol version {found}, expected {expected}")]
    Version {
        /// The version of the peer.
        found: u16,
        /// The version of this program.
        expected: u16,
    },
    /// A stream is for an unknown lane.
    #[error("a stream for lane {found}, expected 0 (control) or 1 (data)")]
    Lane {
        /// The number of the lane.
        found: u8,
    },
    /// A stream has an invalid number of a stripe, or too many stripes.
    #[error("stripe {index} of {count} of the {lane:?} lane, expected one of at most {}", stripes_max(*lane))]
    Stripe {
        /// The lane of the stream.
        lane: Lane,
        /// The number of the stripe.
        index: u8,
        /// The number of stripes of the lane.
        count: u8,
    },
    /// A stream is for a stripe that is already open, or its lane has another number of stripes.
    #[error("stripe {} of {} of the {lane:?} lane of shard {}, expected a new stripe and the same number of stripes as before", stripe.index, stripe.count, shard.0)]
    StreamTwice {
        /// The shard of the stream.
        shard: ShardId,
        /// The lane of the stream.
        lane: Lane,
        /// The stripe of the stream.
        stripe: Stripe,
    },
    /// A stream claims to come from another data center than that of the connection.
    #[error("a stream that claims to come from {found}, expected {expected}")]
    Origin {
        /// The data center in the hello of the stream.
        found: DcId,
        /// The data center of the connection.
        expected: DcId,
    },
    /// A stream is for a shard that does not exist.
    #[error("a stream for shard {}, expected one of {shards}", found.0)]
    Shard {
        /// The shard in the hello of the stream.
        found: ShardId,
        /// The number of shards.
        shards: usize,
    },
    /// A frame exceeds the limit of its lane.
    #[error("a frame of {bytes} bytes in the {lane:?} lane, expected at most {max}")]
    FrameTooLong {
        /// The lane of the frame.
        lane: Lane,
        /// The size of the frame, in bytes.
        bytes: usize,
        /// The largest size, in bytes.
        max: usize,
    },
    /// A stream ended within a frame or a hello.
    #[error("a stream that ended within a frame or a hello")]
    Truncated,
}
