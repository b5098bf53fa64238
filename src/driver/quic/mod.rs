//! Frames of mirrors over QUIC, whatever the connection runs over.
//!
//! This room decides how lanes lie on streams, when frames are written to them and how much QUIC may hold: a
//! [`DcTransport`] is what a server's driver sees, a pump and a listener are the two ends of each connection. It
//! refuses to know how connections come about and who may have one, which is the business of the driver that makes
//! them: `emulated/` over sockets in memory, `real/` over UDP.
#![allow(
    clippy::disallowed_types,
    reason = "quinn's congestion controllers are told the time as std's Instant"
)]

mod congestion;
mod counters;
mod error;
mod event;
pub(super) mod frames;
mod lanes;
pub(super) mod listener;
mod pump;
mod tracked;

pub use counters::LaneTraffic;
pub use error::{Breach, TransportError};
pub use event::{Event, Incoming};
pub use lanes::{CONTROL_IN_HAND_MAX, DcTransport};

pub(super) use congestion::{Flight, Provision, ProvisionedFactory};
pub(super) use counters::LaneCounters;
pub(super) use lanes::Ends;
pub(super) use listener::{End, Inbox, listen};
pub(super) use pump::Command;
pub(super) use tracked::{Chosen, TrackedFactory};

use std::time::Duration;

use quinn::{Connection, VarInt};

use crate::link::LinkConfig;
use crate::topology::Topology;
use crate::types::{Bytes, DcId};

/// The model of a directed link of a topology. A data center's link to itself, which nothing uses, is instant.
pub(in crate::driver) fn link_config(topology: &Topology, from: DcId, to: DcId) -> LinkConfig {
    if from == to {
        let bandwidth = topology.dc(from).lan_bandwidth;
        let queue = Bytes(u64::MAX);
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
pub(in crate::driver) fn close_for(connection: &Connection, breach: Breach) {
    connection.close(PROTOCOL_BROKEN, breach.to_string().as_bytes());
}

/// The code of a connection that is closed because the run is over.
pub(in crate::driver) const GOODBYE: VarInt = VarInt::from_u32(0);
const PROTOCOL_BROKEN: VarInt = VarInt::from_u32(1);
