//! Data centers and the links between them, as checked facts.
//!
//! This room decides what a valid topology is: each ordered pair of different data centers has one link. It does not
//! know files (`config/` does), and what a link does to bytes (`link/` does).

mod deployment;
mod overlay;
mod ring;
mod tree;

pub use deployment::{ADDRESS, Address, Deployment, NotAnAddress};
pub use overlay::{Group, Overlay, first_hops};
pub use ring::fastest_ring;
pub use tree::fastest_tree;

use std::ops::Range;

use crate::types::{Bandwidth, ByteSize, DcId, DurationSetting, UsdPerGb};

/// The data centers of a run and the links between them.
///
/// `links` has one entry for each ordered pair of different data centers, sorted by `(from, to)`. Bandwidths are
/// already multiplied by `bandwidth_scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The name in reports.
    pub name: String,
    /// The data centers, in the order of the file. A [`DcId`] is a position in the vector.
    pub data_centers: Vec<DataCenter>,
    /// The links of the WAN.
    pub links: Vec<WanLink>,
    /// The groups of data centers with a hub. Each data center is in one group. Empty if the topology names no groups.
    pub groups: Vec<Group>,
    /// The factor by which all WAN bandwidths were multiplied, for reports.
    pub bandwidth_scale: f64,
}

/// One data center.
#[derive(Clone, Debug, PartialEq)]
pub struct DataCenter {
    /// The name in reports.
    pub name: String,
    /// The number of parameter servers, at least 1. It is the same in all data centers.
    pub servers: usize,
    /// The number of workers, at least 1.
    pub workers: usize,
    /// The bandwidth of each node's network card within the data center, in each direction.
    pub lan_bandwidth: Bandwidth,
    /// The round-trip time between two nodes of the data center.
    pub lan_rtt: DurationSetting,
    /// Whether worker `i` and server `i` share a machine and its network card. Their messages to each other then do not
    /// cross the LAN.
    pub colocated: bool,
    /// The data centers whose data and workers it has, in order of its workers. Empty if it has its own.
    pub stands_for: Vec<DataHome>,
}

/// A data center as the place of training data, and the workers that train on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataHome {
    /// The name of the data center.
    pub name: String,
    /// The number of workers that train on its data.
    pub workers: usize,
}

/// One directed link between two data centers.
#[derive(Clone, Debug, PartialEq)]
pub struct WanLink {
    /// The data center that sends.
    pub from: DcId,
    /// The data center that receives.
    pub to: DcId,
    /// The bandwidth of the link.
    pub bandwidth: Bandwidth,
    /// The round-trip time over this link and the link back.
    pub rtt: DurationSetting,
    /// The price of a gigabyte sent over the link.
    pub price: UsdPerGb,
    /// The probability that a packet is lost, 0 to below 1.
    pub loss: f64,
    /// The size of the queue at the bottleneck. Packets beyond it are dropped.
    pub queue: ByteSize,
}

impl Topology {
    /// The identifiers of all data centers, in order.
    pub fn dc_ids(&self) -> impl Iterator<Item = DcId> + use<> {
        (0..self.data_centers.len() as u16).map(DcId)
    }

    /// Whether this identifier is that of a data center.
    pub fn has(&self, dc: DcId) -> bool {
        dc.index() < self.data_centers.len()
    }

    /// The data center of a name, if there is one.
    pub fn dc_named(&self, name: &str) -> Option<DcId> {
        self.dc_ids().find(|dc| self.dc(*dc).name == name)
    }

    /// One data center.
    ///
    /// # Panics
    /// If the topology has no such data center.
    pub fn dc(&self, dc: DcId) -> &DataCenter {
        &self.data_centers[dc.index()]
    }

    /// The directed link between two different data centers.
    ///
    /// # Panics
    /// If `from` is `to`, or one of them is not in the topology.
    pub fn link(&self, from: DcId, to: DcId) -> &WanLink {
        // A row for each sender, without the sender itself.
        let others = self.data_centers.len() - 1;
        let place = from.index() * others + to.index() - usize::from(to > from);
        let link = &self.links[place];
        assert_eq!((link.from, link.to), (from, to), "a topology has a link for each ordered pair");
        link
    }

    /// The places in `links` of those from a data center.
    pub fn links_from(&self, dc: DcId) -> Range<usize> {
        let place = |before: DcId| self.links.partition_point(|link| link.from < before);
        place(dc)..place(DcId(dc.0 + 1))
    }

    /// The bandwidth from each server of `from` to its mirror in `to`: an equal share of the link's bandwidth.
    ///
    /// # Panics
    /// As [`Self::link`].
    pub fn server_bandwidth(&self, from: DcId, to: DcId) -> Bandwidth {
        self.link(from, to).bandwidth.scaled(1.0 / self.dc(from).servers as f64)
    }

    /// The number of workers in the whole run.
    pub fn workers(&self) -> usize {
        self.data_centers.iter().map(|dc| dc.workers).sum()
    }

    /// The number of workers of each data center, in order.
    pub fn workers_per_dc(&self) -> Vec<usize> {
        self.data_centers.iter().map(|dc| dc.workers).collect()
    }

    /// The number of servers in the whole run.
    pub fn servers(&self) -> usize {
        self.data_centers.iter().map(|dc| dc.servers).sum()
    }

    /// The lowest, the mean and the highest bandwidth of all links. `None` if there are no links.
    pub fn bandwidth_range(&self) -> Option<(Bandwidth, Bandwidth, Bandwidth)> {
        let mut all: Vec<f64> =
            self.links.iter().map(|link| link.bandwidth.bits_per_second()).collect();
        all.sort_by(f64::total_cmp);
        let (slowest, fastest) = (*all.first()?, *all.last()?);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        Some((
            Bandwidth::from_bits_per_second(slowest),
            Bandwidth::from_bits_per_second(mean),
            Bandwidth::from_bits_per_second(fastest),
        ))
    }

    /// The longest round-trip time between two data centers. Zero if there is only one.
    pub fn rtt_max(&self) -> DurationSetting {
        self.links.iter().map(|link| link.rtt).max().unwrap_or_default()
    }

    /// The number of a data center's first worker, counted over the whole run.
    ///
    /// # Panics
    /// If the topology has no such data center.
    pub fn first_worker(&self, dc: DcId) -> usize {
        self.data_centers[..dc.index()].iter().map(|dc| dc.workers).sum()
    }

    /// Where training data lies, in order of the workers.
    pub fn data_homes(&self) -> Vec<DataHome> {
        let homes = self.data_centers.iter().flat_map(|dc| match dc.stands_for.as_slice() {
            [] => vec![DataHome { name: dc.name.clone(), workers: dc.workers }],
            several => several.to_vec(),
        });
        homes.collect()
    }

    /// Which of [`Self::data_homes`] are those of a data center.
    pub fn homes_of(&self, dc: DcId) -> Range<usize> {
        let count = |dc: &DataCenter| dc.stands_for.len().max(1);
        let first: usize = self.data_centers[..dc.index()].iter().map(count).sum();
        first..first + count(self.dc(dc))
    }

    /// The same machines in one data center, connected by the fastest of the LANs. A run over the WAN is compared with
    /// a run over this topology ("times LAN").
    #[must_use]
    pub fn collapsed(&self) -> Self {
        let fastest = self
            .data_centers
            .iter()
            .max_by(|a, b| {
                a.lan_bandwidth.bits_per_second().total_cmp(&b.lan_bandwidth.bits_per_second())
            })
            .expect("a topology has a data center");

        let all = DataCenter {
            name: "lan".into(),
            servers: self.data_centers.iter().map(|dc| dc.servers).sum(),
            workers: self.workers(),
            colocated: self.data_centers.iter().all(|dc| dc.colocated),
            stands_for: Vec::new(),
            ..fastest.clone()
        };

        Self {
            name: "lan".into(),
            data_centers: vec![all],
            links: Vec::new(),
            groups: Vec::new(),
            bandwidth_scale: 1.0,
        }
    }
}
