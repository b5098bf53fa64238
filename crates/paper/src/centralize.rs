//! Centralisation: all data is sent to one region and the model is trained there (the paper's Table 1).
//!
//! It is computed, not run: the training time is that on the LAN, and the transfer time follows from the links. The
//! only free parameter is the volume of data. It is set so that the ratio of the transfer over the worst WAN to the
//! training on the LAN is that of the paper. The times over the other WANs follow.

use super::money::{Bill, rent};
use super::published::published;
use gaia_core::topology::Topology;
use gaia_core::types::DcId;

/// The time and the cost of centralisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Centralized {
    /// The region that receives all data.
    pub(super) region: DcId,
    /// The time of the transfer, in seconds.
    pub(super) shipping_s: f64,
    /// The time of the transfer and of the training on the LAN, in seconds.
    pub(super) time_s: f64,
    /// The volume of the transfer in bytes, at the size of the paper's model.
    pub(super) bytes: f64,
    /// The bill if machines are rented for the training only.
    pub(super) bill: Bill,
    /// The bill if machines are rented from the start, as for all other models.
    pub(super) bill_waiting: Bill,
}

/// The volume of data in all data centers, in bytes, for which the ratio of the transfer over the worst WAN to `lan_s`,
/// the training time on the LAN in seconds, is that of the paper. Applications that the paper does not have use the
/// ratio of MF.
pub(super) fn data_bytes(app: &str, worst: &Topology, wan: &str, lan_s: f64) -> f64 {
    let row = published(app, wan).or_else(|| published("mf", wan));
    let share = row.map_or(1.0, super::published::Published::shipping);
    // Time is linear in the volume, apart from the round trip, so a unit gives the time of a byte.
    let (_, unit) = best_region(worst, UNIT_BYTES);
    let trip = worst.rtt_max().0.as_secs_f64();
    UNIT_BYTES * (share * lan_s - trip).max(0.0) / (unit - trip)
}

/// Computes the transfer of `data_bytes`, distributed over the data centers like their workers, to the region that
/// receives them first, or at the lowest price if several do, followed by `lan_s` seconds of training.
pub(super) fn centralize(topology: &Topology, data_bytes: f64, lan_s: f64) -> Centralized {
    let (region, shipping_s) = best_region(topology, data_bytes);
    let time_s = shipping_s + lan_s;
    let wan = dollars(topology, region, data_bytes);
    let bill = Bill { machines: rent(topology, lan_s), wan };
    let bill_waiting = Bill { machines: rent(topology, time_s), wan };
    let bytes = senders(topology, region).map(|from| held(topology, from, data_bytes)).sum();
    Centralized { region, shipping_s, time_s, bytes, bill, bill_waiting }
}

fn best_region(topology: &Topology, data_bytes: f64) -> (DcId, f64) {
    let seconds = |region: DcId| {
        senders(topology, region).fold(0.0_f64, |slowest, from| {
            let link = topology.link(from, region);
            let real = link.bandwidth.bytes_per_second() / topology.bandwidth_scale;
            let bytes = held(topology, from, data_bytes);
            slowest.max(bytes / real + link.rtt.0.as_secs_f64())
        })
    };
    let regions = topology.dc_ids().map(|region| (region, seconds(region)));
    let best = regions.min_by(|(a, a_seconds), (b, b_seconds)| {
        let dollars = |region| dollars(topology, region, data_bytes);
        a_seconds.total_cmp(b_seconds).then_with(|| dollars(*a).total_cmp(&dollars(*b)))
    });
    best.expect("a topology has a data center")
}

fn senders(topology: &Topology, region: DcId) -> impl Iterator<Item = DcId> + use<> {
    topology.dc_ids().filter(move |from| *from != region)
}

/// The volume of data in one data center, in bytes.
fn held(topology: &Topology, dc: DcId, data_bytes: f64) -> f64 {
    data_bytes * topology.dc(dc).workers as f64 / topology.workers() as f64
}

fn dollars(topology: &Topology, region: DcId, data_bytes: f64) -> f64 {
    senders(topology, region).fold(0.0, |sum, from| {
        let price = topology.link(from, region).price.0;
        sum + held(topology, from, data_bytes) / BYTES_PER_GB * price
    })
}

const UNIT_BYTES: f64 = 1e12;
const BYTES_PER_GB: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_config::topology_from_text;

    /// Bandwidths are a thousandth of the real ones; links to `c` are the fastest and the dearest.
    const THREE: &str = r#"
        name = "three"
        bandwidth_scale = 0.001
        [defaults]
        servers = 1
        workers = 1
        [wan]
        bandwidth = "80 Mbit/s"
        rtt = "100 ms"
        price = "0.02 USD/GB"
        [[data_center]]
        name = "a"
        [[data_center]]
        name = "b"
        workers = 2
        [[data_center]]
        name = "c"
        [[link]]
        from = "b"
        to = "c"
        bandwidth = "160 Mbit/s"
        price = "0.1 USD/GB"
        symmetric = false
    "#;

    /// By hand: 4 GB in four parts. To `c`, a sends 1 GB at 10 MB/s and b 2 GB at 20 MB/s, 100 s both; to `b` the
    /// same 100 s, but only 2 GB of it for less money; to `a`, b alone takes 200 s.
    #[test]
    fn data_goes_where_it_arrives_soonest_and_then_where_that_is_cheapest() {
        let topology = topology_from_text("three.toml", THREE).unwrap();
        let central = centralize(&topology, 4e9, 900.0);
        assert_eq!(topology.dc(central.region).name, "b");
        assert!((central.shipping_s - 100.1).abs() < 1e-9, "{central:?}");
        assert!((central.time_s - 1000.1).abs() < 1e-9);
        assert!((central.bytes - 2e9).abs() < 1e-3);
        assert!((central.bill.wan - 0.04).abs() < 1e-12);
        // Four machines for a quarter of an hour, none of them while the data is on its way.
        assert!((central.bill.machines - 0.796).abs() < 1e-12);
        // Or all of them for another 100.1 s.
        let waiting = central.bill_waiting;
        assert!((waiting.machines - 0.796 * 1000.1 / 900.0).abs() < 1e-12);
        assert_eq!(waiting.wan, central.bill.wan);
    }

    #[test]
    fn the_volume_of_data_is_what_takes_the_papers_share_to_ship() {
        let topology = topology_from_text("three.toml", THREE).unwrap();
        for app in ["mf", "tm", "ic"] {
            let bytes = data_bytes(app, &topology, "ss", 5000.0);
            let share = centralize(&topology, bytes, 5000.0).shipping_s / 5000.0;
            let published = published(app, "ss").unwrap().shipping();
            assert!((share - published).abs() < 1e-6, "{app}: {share} for {published}");
        }
    }
}
