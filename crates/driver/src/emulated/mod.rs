//! The emulated driver: the whole cluster in one process, with real QUIC and TLS over a network in memory.
//!
//! This room decides how frames are sent between data centers: one mutually authenticated QUIC connection for each
//! pair, two lanes for each shard and direction, congestion windows provisioned from the topology. The model of `link/`
//! determines the fate of each datagram, so bandwidth, delay, queue and loss are those of the simulated driver. QUIC,
//! TLS and their processor time are real. The room does not know the contents of a frame. In the paper this is the
//! emulated WAN.
//!
//! Time is tokio's. With tokio's paused clock the same code runs in virtual time and repeats from its seed.
#![allow(
    clippy::disallowed_types,
    reason = "quinn's congestion controllers are told the time as std's Instant"
)]

mod certificates;
mod conductor;
mod connection;
mod data_center;
mod evaluating;
#[cfg(test)]
mod hostile_peers;
#[cfg(test)]
mod long_links;
mod meter;
#[cfg(test)]
mod reconnecting;
mod socket;
#[cfg(test)]
mod strangers;
mod transport;
#[cfg(test)]
mod wire;

pub(super) use conductor::run;

pub use certificates::Certificates;
pub use gaia_quic::{
    Breach, CONTROL_IN_HAND_MAX, DcTransport, Event, Incoming, LaneTraffic, TransportError,
};
pub use meter::{LinkTraffic, Meter};
pub use socket::{Disorder, Network, Socket};
pub use transport::EmulatedWan;

/// The parts of a stream, for tests with hostile peers.
#[doc(hidden)]
pub mod hostile {
    pub use gaia_quic::frames::{Hello as Opening, length as frame_bytes};
    pub use gaia_quic::stripe::Stripe;
}
