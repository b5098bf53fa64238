//! Topologies whose links are alike.

use std::time::Duration;

use gaia_core::topology::{DataCenter, Topology, WanLink};
use gaia_core::types::{Bandwidth, ByteSize, DcId, DurationSetting, UsdPerGb};

/// Data centers of a server and a worker each. Links have the queue that topology files give a link that does not say: 100 ms,
/// and never less than 16 KiB.
pub(crate) fn mesh(names: &[&str], mbit: f64, rtt: Duration, loss: f64) -> Topology {
    let bandwidth = Bandwidth::from_mbit(mbit);
    let link = |from, to| WanLink {
        from,
        to,
        bandwidth,
        rtt: DurationSetting(rtt),
        price: UsdPerGb(0.02),
        loss,
        queue: queue(bandwidth),
    };
    let ids = || (0..names.len() as u16).map(DcId);
    let pairs = ids().flat_map(|from| ids().map(move |to| (from, to)));
    Topology {
        name: "test".into(),
        data_centers: names
            .iter()
            .map(|name| DataCenter {
                name: (*name).into(),
                servers: 1,
                workers: 1,
                lan_bandwidth: Bandwidth::from_mbit(1_000.0),
                lan_rtt: DurationSetting(Duration::from_micros(100)),
                colocated: false,
                stands_for: Vec::new(),
            })
            .collect(),
        links: pairs.filter(|(from, to)| from != to).map(|(from, to)| link(from, to)).collect(),
        groups: Vec::new(),
        bandwidth_scale: 1.0,
    }
}

pub(crate) fn queue(bandwidth: Bandwidth) -> ByteSize {
    ByteSize((bandwidth.bytes_in(Duration::from_millis(100)) as u64).max(16 << 10))
}
