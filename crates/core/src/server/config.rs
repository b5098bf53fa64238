//! What a parameter server is told when it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::blocks::DrainMethod;
use crate::significance::Significance;
use crate::sync::{AspConfig, Correction, Decay, LocalSync, Policy, RemoteSync};
use crate::types::{Bandwidth, Clock, DcId, ServerId, ShardLayout};

/// What a parameter server is told when it is made.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub id: ServerId,
    /// Workers of its data center.
    pub workers: usize,
    /// Workers of each data center.
    pub all_workers: Vec<usize>,
    /// Servers of its data center.
    pub shards: usize,
    pub local: LocalSync,
    pub remote: RemoteSync,
    pub layout: ShardLayout,
    /// The links to its mirrors.
    pub links: BTreeMap<DcId, LinkFacts>,
    /// The mirrors that TAP and ASP send updates to, clique by clique of the overlay; hubs are in several.
    pub neighbours: Vec<Vec<DcId>>,
    /// For each mirror the neighbour that updates for it pass first.
    pub first_hops: BTreeMap<DcId, DcId>,
    /// The longest way that an update takes over the overlay.
    pub way: LongestWay,
    pub schedule: Arc<Schedule>,
    /// What ASP measures residuals with, where it is not the function that `remote` names.
    pub significance: Option<Arc<dyn Significance>>,
    pub drain: DrainMethod,
    /// Data centers that take no part yet: none but under TAP and ASP.
    pub inactive: BTreeSet<DcId>,
    /// A hash of everything that all data centers must have resolved alike.
    pub plan_hash: u64,
}

/// What the topology says of a link, as one of several servers may use it.
#[derive(Clone, Copy, Debug)]
pub struct LinkFacts {
    /// This server's share of the link.
    pub bandwidth: Bandwidth,
    pub rtt: Duration,
}

/// The longest way that an update takes between two data centers.
#[derive(Clone, Copy, Debug)]
pub struct LongestWay {
    /// The RTTs of all links on it, summed.
    pub rtt: Duration,
    /// Links on it, at least 1.
    pub hops: u64,
}

/// How the application learns: what the hard threshold falls with, and what residuals are corrected for.
pub struct Schedule {
    /// η_t ÷ η₀ at a clock.
    pub learning_rate_factor: Box<dyn Fn(Clock) -> f64 + Send + Sync>,
    pub clocks_per_pass: u64,
    /// The share of the last step that goes into the next, 0 to below 1.
    pub momentum: f64,
}

impl ServerConfig {
    /// The momentum that residuals are corrected for; 0 where they are not.
    pub(super) fn momentum_corrected(&self, asp: &AspConfig) -> f64 {
        match (asp.policy, asp.momentum) {
            (Policy::Link, Correction::On | Correction::Masked) => self.schedule.momentum,
            _ => 0.0,
        }
    }
}

impl Schedule {
    /// What the hard threshold at clock 0 is multiplied by.
    pub(super) fn threshold_factor(&self, decay: Decay, clock: Clock) -> f64 {
        decay.factor(clock, (self.learning_rate_factor)(clock), self.clocks_per_pass)
    }
}

impl std::fmt::Debug for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedule").field("clocks_per_pass", &self.clocks_per_pass).finish()
    }
}
