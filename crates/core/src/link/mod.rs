//! What a directed link does to whatever crosses it: when it leaves, when it arrives, whether it is lost.
//!
//! This room decides times and fates from bandwidth, round trip, queue and loss, and from nothing else: it
//! keeps no clock, opens no socket and does not know what the bytes mean. The emulated driver asks
//! [`Link`] about each datagram, with real QUIC above it; the simulated driver asks [`Transport`] about each
//! frame, with QUIC's bytes and delays as arithmetic. Both stand on the same [`Link`], so where the drivers
//! disagree it can only be QUIC. In the paper this is the WAN.

mod directed;
mod transport;

pub use directed::{Carried, DropReason, Dropped, Fate, Link, LinkConfig, LinkStats};
pub use transport::{
    DATAGRAM_BYTES_MAX, FRAME_PREFIX_BYTES, FrameFate, IP_UDP_HEADER_BYTES, PAYLOAD_SHARE_MAX,
    STREAM_PAYLOAD_BYTES_MAX, Train, Transport, quantum,
};
