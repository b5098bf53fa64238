//! Frames of mirrors over QUIC, whatever the connection runs over.
//!
//! This room decides how lanes lie on streams, when frames are written to them and how much QUIC may hold: a
//! [`DcTransport`] is what a server's driver sees, a pump and a listener are the two ends of each connection. It
//! refuses to know how connections come about and who may have one, which is the business of the driver that makes
//! them: `emulated/` over sockets in memory, `real/` over UDP.
//!
//! **The lifetime of a connection.** A driver that has a connection to a peer that has proven itself says so in [`Ends`], whose
//! `open` opens the lanes, and hands the result to [`DcTransport::join`]: from then on the peer is that connection. What comes
//! back are its [`Carriers`], a pump and a listener for the driver to run as tasks. Both end with the connection, free
//! all that they held, and leave one last event, [`Event::Lost`] or, after a goodbye, [`Event::Left`]. Whenever it likes the
//! driver may join the next connection to the same peer, even before the last one is known to be lost:
//!
//!  - lanes begin empty, with room, and frames that the old connection had in hand are gone;
//!  - nothing of the old one is told any more, no frame, no room, no loss; if it still lives, it is closed, and the
//!    peer's end of it is lost;
//!  - [`DcTransport::part`] does the same without a successor, for a driver that will not go on with a connection.
//!
//! Whoever must lose nothing numbers and keeps frames above this room.
#![allow(
    clippy::disallowed_types,
    reason = "quinn's congestion controllers are told the time as std's Instant"
)]

mod callers;
mod congestion;
mod counters;
mod error;
mod event;
pub(super) mod frames;
mod lanes;
pub(super) mod listener;
mod pump;
mod settings;
pub(super) mod stripes;
mod tracked;

pub use counters::LaneTraffic;
pub use error::{Breach, TransportError};
pub use event::{Event, Incoming};
pub use lanes::{CONTROL_IN_HAND_MAX, DcTransport};

pub(super) use callers::Callers;
pub(super) use congestion::{Flight, Provision, ProvisionedFactory};
pub(super) use counters::LaneCounters;
pub(super) use lanes::{Carriers, Ends, Finisher, Lanes};
pub(super) use listener::End;
pub(super) use settings::Windows;
pub(super) use tracked::{Chosen, TrackedFactory};

use std::time::Duration;

use quinn::{Connection, VarInt};

use gaia_core::link::LinkConfig;
use gaia_core::topology::Topology;
use gaia_core::types::{ByteSize, DcId};

/// The model of a directed link of a topology. A data center's link to itself, which nothing uses, is instant.
pub(crate) fn link_config(topology: &Topology, from: DcId, to: DcId) -> LinkConfig {
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
pub(crate) fn close_for(connection: &Connection, breach: Breach) {
    connection.close(PROTOCOL_BROKEN, breach.to_string().as_bytes());
}

/// The code of a connection that is closed because the run is over: not 0, which one has that ends with a process that fails.
pub(crate) const GOODBYE: VarInt = VarInt::from_u32(5);
const PROTOCOL_BROKEN: VarInt = VarInt::from_u32(1);

/// The code of a connection in whose place the same peer has another.
const REPLACED: VarInt = VarInt::from_u32(2);

/// The code of a connection that its owner gives up; 3 is the real driver's.
const PARTED: VarInt = VarInt::from_u32(4);
