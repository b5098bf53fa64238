//! What has crossed each directed link: the link's own counters, and the frames of each lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Network;
use crate::link::{LinkStats, Train};
use crate::node::Lane;
use crate::types::DcId;

/// Reads the traffic of a run at any time, from any thread.
#[derive(Clone, Debug)]
pub struct Meter {
    network: Arc<Network>,
    /// By directed pair, as the network numbers them.
    lanes: Arc<[LaneCounters]>,
}

/// What one directed link has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTraffic {
    pub from: DcId,
    pub to: DcId,
    /// Every byte of every datagram: both lanes, acknowledgements, handshake and retransmissions.
    pub stats: LinkStats,
    /// Datagrams that met a severed link.
    pub severed_packets: u64,
    pub control: LaneTraffic,
    pub data: LaneTraffic,
}

/// The frames of one lane that QUIC has accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneTraffic {
    pub frames: u64,
    pub payload_bytes: u64,
    /// With headers, reckoned as the simulated driver reckons them.
    pub wire_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct LaneCounters {
    control: LaneCounter,
    data: LaneCounter,
}

#[derive(Debug, Default)]
struct LaneCounter {
    frames: AtomicU64,
    payload_bytes: AtomicU64,
    wire_bytes: AtomicU64,
}

impl Meter {
    pub(super) fn new(network: Arc<Network>) -> Self {
        let lanes = (0..network.links()).map(|_| LaneCounters::default()).collect();
        Self { network, lanes }
    }

    pub(super) fn count(&self, from: DcId, to: DcId, lane: Lane, bytes: usize) {
        let counters = &self.lanes[self.network.number(from, to)];
        let counter = match lane {
            Lane::Control => &counters.control,
            Lane::Data => &counters.data,
        };
        counter.frames.fetch_add(1, Ordering::Relaxed);
        counter.payload_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        counter.wire_bytes.fetch_add(Train::of(bytes as u64).bytes, Ordering::Relaxed);
    }

    /// What each directed link has carried so far, sorted by `(from, to)`.
    pub fn traffic(&self) -> Vec<LinkTraffic> {
        self.network.pairs().map(|(from, to)| self.link(from, to)).collect()
    }

    /// What the link between two different data centers has carried so far.
    pub fn link(&self, from: DcId, to: DcId) -> LinkTraffic {
        let (stats, severed_packets) = self.network.stats(from, to);
        let counters = &self.lanes[self.network.number(from, to)];
        let (control, data) = (counters.control.read(), counters.data.read());
        LinkTraffic { from, to, stats, severed_packets, control, data }
    }
}

impl LaneCounter {
    fn read(&self) -> LaneTraffic {
        LaneTraffic {
            frames: self.frames.load(Ordering::Relaxed),
            payload_bytes: self.payload_bytes.load(Ordering::Relaxed),
            wire_bytes: self.wire_bytes.load(Ordering::Relaxed),
        }
    }
}
