//! The configuration of a parameter server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::blocks::{Blocks, DrainMethod};
use crate::significance::Significance;
use crate::sync::{AspConfig, Correction, Decay, LocalSync, OutlierConfig, Policy, RemoteSync};
use crate::types::{Bandwidth, Clock, DcId, ServerId, ShardLayout};

/// The configuration of a parameter server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The identifier of the server.
    pub id: ServerId,
    /// The number of workers in its data center, at least 1.
    pub workers: usize,
    /// The number of workers in each data center, in the topology's order.
    pub all_workers: Vec<usize>,
    /// The number of servers in its data center.
    pub shards: usize,
    /// The synchronisation of its workers.
    pub local: LocalSync,
    /// The synchronisation with other data centers.
    pub remote: RemoteSync,
    /// The limits on its workers' updates. `None` if there are none.
    pub outliers: Option<OutlierConfig>,
    /// The layout of its shard.
    pub layout: ShardLayout,
    /// The links to its mirrors, by their data centers.
    pub links: BTreeMap<DcId, LinkFacts>,
    /// The mirrors that TAP and ASP send updates to, for each clique of the overlay that contains this data center. A
    /// hub has several cliques.
    pub neighbours: Vec<Vec<DcId>>,
    /// For each mirror, the neighbour that is the first hop of the path to it.
    pub first_hops: BTreeMap<DcId, DcId>,
    /// The longest path of an update over the overlay.
    pub way: LongestWay,
    /// The application's properties that the filter depends on.
    pub schedule: Arc<Schedule>,
    /// The significance function that the program passed in. `None` for the function that `remote` names.
    pub significance: Option<Arc<dyn Significance>>,
    /// The way of the changes of BSP and SSP.
    pub route: ExchangeRoute,
    /// The blocks of exchanges, rounds and the drain, with a share for each data center of the topology.
    pub blocks: Blocks,
    /// Whether copies travel to other data centers at a few clocks, where there is no guard, so that the run knows whether they
    /// part. Only under ASP.
    pub looks_at_copies: bool,
    /// How copies become equal at the end of the run.
    pub drain: DrainMethod,
    /// Whether deltas are shares of workers' own steps
    /// ([`Application::deltas_are_shares`](crate::application::Application::deltas_are_shares)).
    pub deltas_are_shares: bool,
    /// Data centers that have not joined. Empty unless the model is TAP or ASP.
    pub inactive: BTreeSet<DcId>,
    /// How long the run waits for a lost node. Reads wait for so long, and at least for the deadline of mirror clocks, for a
    /// mirror that sends frames and reports no clock.
    pub give_up_after: Duration,
    /// A hash of the resolved plan, which all data centers must share.
    pub plan_hash: u64,
}

/// The way that changes and their totals take between data centers, which all of them agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeRoute {
    /// To the home of each block, which sends the total to all.
    Homes,
    /// Around a ring of all data centers, in this order.
    Ring(Vec<DcId>),
    /// To the root of a tree and back. By data center, its parent; the root has none.
    Tree(Vec<Option<DcId>>),
}

/// The properties of a link for one of the servers that share it.
#[derive(Clone, Copy, Debug)]
pub struct LinkFacts {
    /// This server's share of the link's bandwidth.
    pub bandwidth: Bandwidth,
    /// The round-trip time of the link.
    pub rtt: Duration,
}

/// The longest path of an update between two data centers.
#[derive(Clone, Copy, Debug)]
pub struct LongestWay {
    /// The sum of the round-trip times of its links.
    pub rtt: Duration,
    /// The number of its links, at least 1.
    pub hops: u64,
}

/// The application's properties that the filter depends on: the decay of the hard threshold and the momentum.
pub struct Schedule {
    /// The learning rate at a clock, divided by that at clock 0.
    pub learning_rate_factor: Box<dyn Fn(Clock) -> f64 + Send + Sync>,
    /// Clocks in one pass over a worker's data, at least 1.
    pub clocks_per_pass: u64,
    /// The share of the last step that is added to the next one, 0 to below 1.
    pub momentum: f64,
}

impl ServerConfig {
    /// The momentum for which residuals are corrected. 0 if they are not.
    pub(super) fn momentum_corrected(&self, asp: &AspConfig) -> f64 {
        match (asp.policy, asp.momentum) {
            (Policy::Link, Correction::On | Correction::Masked) => self.schedule.momentum,
            _ => 0.0,
        }
    }
}

impl Schedule {
    /// The hard threshold at `clock`, divided by that at clock 0. A learning rate that workers report replaces the
    /// application's.
    pub(super) fn threshold_factor(
        &self,
        decay: Decay,
        clock: Clock,
        reported: Option<f64>,
    ) -> f64 {
        let learning_rate_factor = reported.unwrap_or_else(|| (self.learning_rate_factor)(clock));
        decay.factor(clock, learning_rate_factor, self.clocks_per_pass)
    }
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedule").field("clocks_per_pass", &self.clocks_per_pass).finish()
    }
}
