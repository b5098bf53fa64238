//! The model of a directed link: when bytes leave, when they arrive, and whether they are lost.
//!
//! This room computes times and losses from bandwidth, round-trip time, queue and loss probability alone. It has no
//! clock and no socket, and does not know the meaning of the bytes. The emulated driver asks [`Link`] about each
//! datagram, below real QUIC. The simulated driver asks [`Transport`] about each frame, which computes QUIC's overhead
//! and delays. Both use the same [`Link`], so QUIC is the cause where the drivers' network times differ. In the paper
//! this is the WAN.

mod directed;
mod transport;

pub use directed::{Carried, DropReason, Dropped, Fate, Link, LinkConfig, LinkStats};
pub use transport::{
    DATAGRAM_BYTES_MAX, FRAME_PREFIX_BYTES, FrameFate, IP_UDP_HEADER_BYTES, PAYLOAD_SHARE_MAX,
    PAYLOAD_SHARE_MAX_BOTH_WAYS, STREAM_PAYLOAD_BYTES_MAX, Train, Transport, quantum,
};
