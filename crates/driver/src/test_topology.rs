//! The topologies of tests.

use std::time::Duration;

use gaia_core::topology::{DataCenter, Topology, WanLink};
use gaia_core::types::{Bandwidth, ByteSize, DcId, DurationSetting, UsdPerGb};

/// A link without loss and without a price. [`mesh`] sets its data centers.
pub(crate) fn link(bandwidth: Bandwidth, rtt: Duration, queue_bytes: u64) -> WanLink {
    WanLink {
        from: DcId(0),
        to: DcId(0),
        bandwidth,
        rtt: DurationSetting(rtt),
        price: UsdPerGb::default(),
        loss: 0.0,
        queue: ByteSize(queue_bytes),
    }
}

/// Data centers with these names, each with one server and one worker, and a copy of `link` for each directed pair.
pub(crate) fn mesh(names: &[impl AsRef<str>], link: WanLink) -> Topology {
    let dc = |name: &str| DataCenter {
        name: name.into(),
        servers: 1,
        workers: 1,
        lan_bandwidth: Bandwidth::from_mbit(1_000.0),
        lan_rtt: DurationSetting::default(),
        colocated: false,
        stands_for: Vec::new(),
    };

    let dcs = || (0..names.len() as u16).map(DcId);
    let pairs = dcs().flat_map(|from| dcs().map(move |to| (from, to)));

    Topology {
        name: "mesh".into(),
        data_centers: names.iter().map(|name| dc(name.as_ref())).collect(),
        links: pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| WanLink { from, to, ..link.clone() })
            .collect(),
        groups: Vec::new(),
        bandwidth_scale: 1.0,
    }
}
