//! The state of a server's links to its mirrors, and their windows.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time;

use super::refusals::Refusals;
use super::resumption::Resumption;
use super::stall::{Watch, stall_max};
use crate::real::connections::throttle::LogThrottle;
use gaia_core::link::quantum;
use gaia_core::session::window;
use gaia_core::topology::Topology;
use gaia_core::types::DcId;

/// The state of the link to a mirror.
pub(in crate::real) struct LinkMonitor {
    /// The largest frame size that keeps the control lane prompt.
    pub(in crate::real) room: usize,
    /// How long an acknowledgement may wait for a frame to be sent with.
    pub(in crate::real) ack_delay: Duration,
    /// When it has waited that long.
    pub(in crate::real) ack_due: Option<time::Instant>,
    pub(in crate::real) watch: Watch,
    pub(in crate::real) refusals: Refusals,
    /// Present from a reconnect until both ends have the same frames.
    pub(in crate::real) resumption: Option<Resumption>,
    /// Of reconnects and lost copies: a mirror reconnects as often as it likes.
    pub(in crate::real) lines: LogThrottle,
}

impl LinkMonitor {
    pub(in crate::real) fn new(
        topology: &Topology,
        own: DcId,
        peer: DcId,
        parameters: usize,
    ) -> Self {
        Self {
            room: quantum(topology.server_bandwidth(own, peer)).0 as usize,
            ack_delay: (topology.link(own, peer).rtt.0 / 4).clamp(ACK_DELAY_MIN, ACK_DELAY_MAX),
            ack_due: None,
            watch: Watch::new(stall_max(topology, (own, peer), parameters)),
            refusals: Refusals::default(),
            resumption: None,
            lines: LogThrottle::default(),
        }
    }
}

/// The windows between a server and each of its mirrors, in bytes.
pub(in crate::real) fn windows_of(topology: &Topology, own: DcId) -> BTreeMap<DcId, usize> {
    let peers = topology.dc_ids().filter(|peer| *peer != own);
    peers.map(|peer| (peer, window_of(topology, own, peer))).collect()
}

/// The window between two mirrors: the larger of both directions, so that both ends use the same.
fn window_of(topology: &Topology, own: DcId, peer: DcId) -> usize {
    let ways = [(own, peer), (peer, own)].map(|(from, to)| {
        let (rtt, bandwidth) = (topology.link(from, to).rtt.0, topology.server_bandwidth(from, to));
        window(bandwidth, rtt).max(FRAMES_IN_WINDOW * quantum(bandwidth).0 as usize)
    });
    ways[0].max(ways[1])
}

/// The smallest window, in frames of the usual size.
const FRAMES_IN_WINDOW: usize = 4;

/// The shortest time that an acknowledgement may wait. A sender needs it only once its window is full, which takes a
/// round trip or more.
const ACK_DELAY_MIN: Duration = Duration::from_millis(10);
const ACK_DELAY_MAX: Duration = Duration::from_millis(100);
