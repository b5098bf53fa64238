//! Data centers and the links between them, as checked facts.
//!
//! This room decides what a topology is: every ordered pair of data centers has one link, and none is joined to
//! itself. It refuses to know files, which are `config/`'s business, and what a link does to bytes, which is
//! `link/`'s.

mod deployment;
mod overlay;

pub use deployment::{ADDRESS, Address, Deployment, NotAnAddress};
pub use overlay::{Group, Overlay, first_hops};

use crate::types::{Bandwidth, ByteSize, DcId, DurationSetting, UsdPerGb};

/// Where the nodes of a run are and how they are joined.
///
/// `links` holds one entry per ordered pair of different data centers, sorted by `(from, to)`; bandwidths
/// are already multiplied by `bandwidth_scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// As reports call it.
    pub name: String,
    /// The data centers, in the order of the file; [`DcId`] is a position in it.
    pub data_centers: Vec<DataCenter>,
    /// The WAN between them.
    pub links: Vec<WanLink>,
    /// Data centers that share hubs, every one in one group; empty where none are named.
    pub groups: Vec<Group>,
    /// What all WAN bandwidths were multiplied by, so that reports can state it.
    pub bandwidth_scale: f64,
}

/// One data center.
#[derive(Clone, Debug, PartialEq)]
pub struct DataCenter {
    /// As reports call it.
    pub name: String,
    /// Its parameter servers, at least 1; as many in every data center.
    pub servers: usize,
    /// Its workers, at least 1.
    pub workers: usize,
    /// What each node's network card carries inside the data center, each way.
    pub lan_bandwidth: Bandwidth,
    /// The round trip between two nodes of the data center.
    pub lan_rtt: DurationSetting,
    /// Whether worker `i` and server `i` share a machine and its network card: what they say to each other does
    /// not cross the LAN.
    pub colocated: bool,
}

/// One directed link between two data centers.
#[derive(Clone, Debug, PartialEq)]
pub struct WanLink {
    /// The data center that sends.
    pub from: DcId,
    /// The data center that receives.
    pub to: DcId,
    /// What it carries.
    pub bandwidth: Bandwidth,
    /// The round trip over it and the link back.
    pub rtt: DurationSetting,
    /// What a gigabyte costs that is sent over it.
    pub price: UsdPerGb,
    /// Packet loss, 0 to below 1.
    pub loss: f64,
    /// What the bottleneck queues before it drops.
    pub queue: ByteSize,
}

impl Topology {
    /// The numbers of all data centers, in order.
    pub fn dc_ids(&self) -> impl Iterator<Item = DcId> + use<> {
        (0..self.data_centers.len() as u16).map(DcId)
    }

    /// One data center.
    ///
    /// # Panics
    /// Where the topology has no such one.
    pub fn dc(&self, dc: DcId) -> &DataCenter {
        &self.data_centers[dc.index()]
    }

    /// The directed link between two different data centers.
    ///
    /// # Panics
    /// Where `from` is `to` or either is not in the topology.
    pub fn link(&self, from: DcId, to: DcId) -> &WanLink {
        let found = self.links.binary_search_by_key(&(from, to), |link| (link.from, link.to));
        &self.links[found.expect("a topology has a link for each ordered pair")]
    }

    /// The bandwidth that each server of `from` has towards its mirror in `to`: an equal share of the link's.
    ///
    /// # Panics
    /// As [`Self::link`].
    pub fn server_bandwidth(&self, from: DcId, to: DcId) -> Bandwidth {
        self.link(from, to).bandwidth.scaled(1.0 / self.dc(from).servers as f64)
    }

    /// Workers in the whole run.
    pub fn workers(&self) -> usize {
        self.data_centers.iter().map(|dc| dc.workers).sum()
    }

    /// Workers of each data center, in order.
    pub fn workers_per_dc(&self) -> Vec<usize> {
        self.data_centers.iter().map(|dc| dc.workers).collect()
    }

    /// Servers in the whole run.
    pub fn servers(&self) -> usize {
        self.data_centers.iter().map(|dc| dc.servers).sum()
    }

    /// The slowest, the mean and the fastest bandwidth of all links; `None` where there are no links.
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

    /// The longest round trip between two data centers; zero where there is one.
    pub fn rtt_max(&self) -> DurationSetting {
        self.links.iter().map(|link| link.rtt).max().unwrap_or_default()
    }

    /// The number over the whole run of the first worker of a data center.
    pub fn first_worker(&self, dc: DcId) -> usize {
        self.data_centers[..dc.index()].iter().map(|dc| dc.workers).sum()
    }

    /// The same machines in one data center, joined by the fastest of the LANs: what a run over these links
    /// is compared with ("times LAN").
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
