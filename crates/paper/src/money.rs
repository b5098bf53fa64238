//! The cost of a run at the size of the paper's model.
//!
//! Times are as measured: a small model over scaled links takes as long as the large one. Bytes are scaled: over a link
//! of a thousand times the bandwidth the large model sends a thousand times the bytes.

use gaia_core::topology::Topology;
use gaia_telemetry::Summary;

/// A bill in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bill {
    /// The rent of machines, including the time in which they wait.
    pub(super) machines: f64,
    /// The price of WAN traffic.
    pub(super) wan: f64,
}

impl Bill {
    pub(super) fn total(self) -> f64 {
        self.machines + self.wan
    }
}

/// The bill of a run over `topology` until its target, or until its end if it did not reach the target.
pub(super) fn bill(summary: &Summary, topology: &Topology) -> Bill {
    let links: f64 = summary.links.iter().fold(0.0, |sum, link| sum + link.cost_usd);
    Bill {
        machines: rent(topology, summary.time_to_target_s.unwrap_or(summary.time_s)),
        wan: links * share(summary.wan_bytes_to_target, summary.wan_bytes)
            / topology.bandwidth_scale,
    }
}

/// The price of one data center's WAN traffic in the whole run, including the drain, in US dollars.
pub(super) fn data_center_bill(summary: &Summary, topology: &Topology, from: &str) -> f64 {
    let links = summary.links.iter().filter(|link| link.from == from);
    links.map(|link| link.cost_usd).sum::<f64>() / topology.bandwidth_scale
}

/// The share of all bytes that were sent until the target. The prices of links are multiplied by it.
fn share(to_target: Option<u64>, all: u64) -> f64 {
    match to_target {
        Some(bytes) if all > 0 => bytes as f64 / all as f64,
        _ => 1.0,
    }
}

/// The rent of a topology's machines for some seconds, in US dollars.
///
/// Servers and workers share machines, so a data center has as many machines as servers or workers, whichever is more.
pub(super) fn rent(topology: &Topology, seconds: f64) -> f64 {
    let machines: usize = topology.data_centers.iter().map(|dc| dc.servers.max(dc.workers)).sum();
    machines as f64 * seconds / SECONDS_PER_HOUR * USD_PER_MACHINE_HOUR
}

/// The price of an EC2 c4.4xlarge instance on demand in us-east-1 in 2016, the instance type of the paper.
const USD_PER_MACHINE_HOUR: f64 = 0.796;
const SECONDS_PER_HOUR: f64 = 3600.0;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_config::topology_from_text;

    #[test]
    fn machines_are_counted_once_for_servers_and_workers() {
        let text = r#"
            name = "two"
            [defaults]
            servers = 2
            workers = 4
            [wan]
            bandwidth = "10 Mbit/s"
            rtt = "10 ms"
            [[data_center]]
            name = "one"
            [[data_center]]
            name = "two"
            workers = 1
        "#;
        let topology = topology_from_text("two.toml", text).unwrap();
        // Four machines and two, for half an hour.
        assert!((rent(&topology, 1800.0) - 6.0 * 0.5 * 0.796).abs() < 1e-12);
    }

    #[test]
    fn only_what_was_sent_until_the_target_is_charged() {
        assert_eq!(share(Some(30), 120), 0.25);
        assert_eq!(share(None, 120), 1.0);
        assert_eq!(share(Some(0), 0), 1.0);
    }
}
