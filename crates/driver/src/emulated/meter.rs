//! The traffic of each directed link: the link's counters, and the frames of each lane.

use std::sync::Arc;

use super::Network;
use gaia_core::link::LinkStats;
use gaia_core::types::DcId;
use gaia_quic::{LaneCounters, LaneTraffic};

/// Reads the traffic of a run at any time, from any thread.
#[derive(Clone, Debug)]
pub struct Meter {
    network: Arc<Network>,
    /// By directed pair, as the network numbers them.
    lanes: Arc<[Arc<LaneCounters>]>,
}

/// The traffic of one directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTraffic {
    /// The sender.
    pub from: DcId,
    /// The receiver.
    pub to: DcId,
    /// All datagrams: both lanes, acknowledgements, handshakes and retransmissions.
    pub stats: LinkStats,
    /// The number of datagrams sent while the link was cut.
    pub severed_packets: u64,
    /// The frames of the control lane.
    pub control: LaneTraffic,
    /// The frames of the data lane.
    pub data: LaneTraffic,
}

impl Meter {
    pub(super) fn new(network: Arc<Network>) -> Self {
        let lanes = (0..network.links()).map(|_| Arc::default()).collect();
        Self { network, lanes }
    }

    pub(super) fn counters(&self, from: DcId, to: DcId) -> &Arc<LaneCounters> {
        &self.lanes[self.network.number(from, to)]
    }

    /// The traffic of all directed links so far, sorted by `(from, to)`.
    pub fn traffic(&self) -> Vec<LinkTraffic> {
        self.network.pairs().map(|(from, to)| self.link(from, to)).collect()
    }

    /// The traffic so far of the link between two different data centers.
    pub fn link(&self, from: DcId, to: DcId) -> LinkTraffic {
        let (stats, severed_packets) = self.network.stats(from, to);
        let (control, data) = self.counters(from, to).read();
        LinkTraffic { from, to, stats, severed_packets, control, data }
    }
}
