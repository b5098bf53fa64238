//! A run as everybody after this room sees it: complete, resolved and checked.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::sections::{ComputeConfig, FailuresConfig};
use gaia_core::coordinator::StopRules;
use gaia_core::server::DrainMethod;
use gaia_core::sync::{LocalSync, OverlayKind, RemoteSync};
use gaia_core::topology::{Deployment, Overlay, Topology};
use gaia_core::types::{DcId, Seed};
use gaia_ml::apps::AppConfig;

/// Everything that determines a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub name: String,
    pub seed: Seed,
    pub driver: DriverKind,
    pub app: AppConfig,
    pub topology: Topology,
    pub local: LocalSync,
    pub remote: RemoteSync,
    pub compute: ComputeConfig,
    pub evaluate: EvaluateConfig,
    pub drain: DrainConfig,
    pub stop: StopRules,
    pub cost: CostConfig,
    pub checkpoint: CheckpointConfig,
    pub log: LogConfig,
    pub failures: FailuresConfig,
    /// Where nodes listen, for the real driver.
    pub deployment: Deployment,
}

/// What runs the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// Virtual time in one thread; repeats to the byte.
    Simulated,
    /// QUIC and TLS over links shaped inside this process.
    Emulated,
    /// A process for each node, over UDP and TCP.
    Real,
}

/// When the model is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluateConfig {
    /// Clocks between evaluations, at least 1.
    pub every: u64,
}

/// How all copies become equal at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DrainConfig {
    pub method: DrainMethod,
}

/// What a run is charged beside the WAN prices of its topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CostConfig {
    /// US dollars for each hour of each server and each worker.
    pub usd_per_machine_hour: f64,
}

/// When the state of a run is written down, and how much of that is kept. It changes nothing of what comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Clocks between checkpoints, at least 1; `None` for none but where the run is interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// The newest so many are kept, at least 1.
    pub keep: usize,
}

/// How nodes write down what has come to them, for the real driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    pub sync: LogSync,
}

/// When a node waits for its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogSync {
    /// Before anything leaves: what it has said survives a power cut.
    #[default]
    Always,
    /// Never: it survives the end of the process, not that of the machine.
    Never,
}

impl Plan {
    /// A hash of all that decides what comes out of a run.
    pub fn fingerprint(&self) -> u64 {
        let (log, failures) = (LogConfig::default(), FailuresConfig::default());
        let alike = Self { checkpoint: CheckpointConfig::default(), log, failures, ..self.clone() };
        Seed(0).child(&alike.to_toml()).0
    }

    /// What all nodes of a run must have resolved alike, as text that is the same wherever it is: what is trained, how it is
    /// shared, and over which network.
    ///
    /// Left out is what a node may have of its own: where its data lie and where it listens, what it is charged, what it
    /// writes down, and what only the coordinator decides by.
    pub fn agreement(&self) -> String {
        let late: BTreeSet<String> = self.failures.late.iter().cloned().collect();
        let late = late.into_iter().collect();
        let own = Self {
            driver: DriverKind::Real,
            app: self.app.without_paths(),
            compute: ComputeConfig::default_for(DriverKind::Real),
            evaluate: EvaluateConfig::default(),
            stop: StopRules::default(),
            cost: CostConfig::default(),
            checkpoint: CheckpointConfig::default(),
            log: LogConfig::default(),
            failures: FailuresConfig { late, ..FailuresConfig::default() },
            deployment: Deployment::default(),
            ..self.clone()
        };
        own.to_toml()
    }

    /// The same run with all machines in one data center: what it is compared with ("times LAN").
    ///
    /// Where data centers were slowed down, the slowest sets the pace of the whole.
    #[must_use]
    pub fn on_lan(&self) -> Self {
        let slowest = self.compute.slowdown.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let compute = ComputeConfig { slowdown: vec![slowest], ..self.compute.clone() };
        let deployment = Deployment::default();
        Self { topology: self.topology.collapsed(), compute, deployment, ..self.clone() }
    }

    /// From which mirror a server of `dc` that has lost its copy gets another soonest, if it is of so many bytes: of those
    /// that updates come from, and that are `there`. Nothing where the model has no such way, which are BSP, SSP and
    /// local steps, or where `dc` is a hub: what it had yet to pass on, nobody else has.
    pub fn copy_source(&self, dc: DcId, bytes: u64, there: impl Fn(DcId) -> bool) -> Option<DcId> {
        let overlay = self.overlay();
        let shares_updates = matches!(self.remote, RemoteSync::Tap(_) | RemoteSync::Asp(_));
        if !shares_updates || overlay.is_hub(dc) {
            return None;
        }
        let mirrors = overlay.neighbours(dc).into_iter().flatten().filter(|from| there(*from));
        mirrors.min_by_key(|from| {
            let link = self.topology.link(*from, dc);
            link.rtt.0 / 2 + link.bandwidth.time_for(bytes)
        })
    }

    /// Data centers that may join once the run has begun.
    pub fn late(&self) -> BTreeSet<DcId> {
        let is_late = |dc: &DcId| self.failures.late.contains(&self.topology.dc(*dc).name);
        self.topology.dc_ids().filter(is_late).collect()
    }

    /// Who sends updates to whom: everyone to everyone, unless ASP is told otherwise.
    pub fn overlay(&self) -> Overlay {
        let topology = &self.topology;
        match &self.remote {
            RemoteSync::Asp(asp) => match asp.overlay {
                OverlayKind::Mesh => Overlay::mesh(topology),
                OverlayKind::Groups => Overlay::groups(topology),
                OverlayKind::Tree => Overlay::tree(topology),
            },
            _ => Overlay::mesh(topology),
        }
    }
}

impl DriverKind {
    /// Every driver's name, as configuration files and reports write it.
    pub const NAMES: [&str; 3] = ["simulated", "emulated", "real"];

    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Emulated => "emulated",
            Self::Real => "real",
        }
    }
}

impl Default for EvaluateConfig {
    fn default() -> Self {
        Self { every: 1 }
    }
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every: None, keep: 3 }
    }
}

impl Default for DrainConfig {
    fn default() -> Self {
        Self { method: DrainMethod::Mean }
    }
}
