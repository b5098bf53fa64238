//! Frames of mirrors over QUIC.
//!
//! This crate decides how lanes are mapped to streams, when frames are written to them and how much QUIC may buffer. A
//! server's driver uses a [`DcTransport`]. A pump and a listener are the two directions of each connection. It
//! does not know how connections are made and authenticated. The drivers do that: the emulated one over sockets in
//! memory, the real one over UDP.
//!
//! **The lifetime of a connection.** A driver that has a connection to an authenticated peer describes it in [`Ends`],
//! whose `open` opens the lanes, and passes the result to [`DcTransport::join`]. It returns the [`Carriers`], a pump
//! and a listener that the driver runs as tasks. Both end with the connection and free all their memory. The last event
//! is [`Event::Lost`] or, after an orderly shutdown, [`Event::Left`]. The driver may join the next connection to the
//! same peer at any time, even before the loss of the last one is detected:
//!
//!  - Lanes begin empty, with room. Unsent frames of the old connection are lost.
//!  - No frames and events of the old connection are returned. If it is still open, it is closed, and the peer's end of it
//!    is lost.
//!  - [`DcTransport::part`] does the same without a successor, for a driver that gives a connection up.
//!
//! A caller that must not lose frames numbers and keeps them.
#![warn(missing_docs)]
#![allow(
    clippy::disallowed_types,
    reason = "quinn's congestion controllers are told the time as std's Instant"
)]

mod callers;
mod congestion;
mod counters;
mod error;
mod event;
pub mod frames;
mod lanes;
pub mod listener;
mod pump;
mod settings;
mod silence;
pub mod stripe;
mod stripes;
mod tracked;

pub use counters::LaneTraffic;
pub use error::{Breach, TransportError};
pub use event::{Event, Incoming};
pub use lanes::{CONTROL_IN_HAND_MAX, DcTransport};

pub use callers::Callers;
pub use congestion::{Flight, Provision, ProvisionedFactory};
pub use counters::LaneCounters;
pub use lanes::{Carriers, Ends, Finisher, Lanes};
pub use listener::End;
pub use settings::{DATAGRAM_BYTES_PROBED_MAX, Windows, datagram_discovery};
pub use tracked::{Chosen, TrackedFactory};

use std::time::Duration;

use quinn::{Connection, VarInt};

use gaia_core::link::LinkConfig;
use gaia_core::topology::Topology;
use gaia_core::types::{ByteSize, DcId};

/// The model of a directed link of a topology. A data center's link to itself, which is not used, has no delay.
pub fn link_config(topology: &Topology, from: DcId, to: DcId) -> LinkConfig {
    if from == to {
        let bandwidth = topology.dc(from).lan_bandwidth;
        let queue = ByteSize(u64::MAX);
        return LinkConfig { bandwidth, delay: Duration::ZERO, queue, loss: 0.0 };
    }
    let link = topology.link(from, to);
    LinkConfig {
        bandwidth: link.bandwidth,
        delay: link.rtt.0 / 2,
        queue: link.queue,
        loss: link.loss,
    }
}

/// Closes a connection whose peer broke the protocol.
pub fn close_for(connection: &Connection, breach: Breach) {
    connection.close(PROTOCOL_BROKEN, breach.to_string().as_bytes());
}

/// The code of a connection that is closed at the end of the run. Not 0, which is the code if a process fails.
pub const GOODBYE: VarInt = VarInt::from_u32(5);
const PROTOCOL_BROKEN: VarInt = VarInt::from_u32(1);

/// The code of a connection that another one of the same peer has replaced.
const REPLACED: VarInt = VarInt::from_u32(2);

/// The code of a connection that its owner has given up. The real driver uses 3.
const PARTED: VarInt = VarInt::from_u32(4);

/// The code of a connection from whose peer no packet arrives.
const SILENT: VarInt = VarInt::from_u32(6);
