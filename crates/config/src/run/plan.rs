//! A run as the other crates see it: complete, resolved and checked.

use std::collections::BTreeSet;

use super::run_file::RunFile;
use crate::document::ConfigError;
use crate::sections::{
    CheckpointConfig, ComputeConfig, CostConfig, Decision, DrainConfig, DriverKind, EvaluateConfig,
    EvaluatePlace, FailuresConfig, LogConfig, ModelConfig,
};
use gaia_core::coordinator::StopRules;
use gaia_core::server::{Blocks, ExchangeRoute};
use gaia_core::sync::{
    BlockShares, ExchangeKind, LocalSync, OutlierConfig, OverlayKind, RemoteSync,
};
use gaia_core::topology::{DataHome, Deployment, Overlay, Topology, fastest_ring, fastest_tree};
use gaia_core::types::Seed;
use gaia_ml::apps::{AppConfig, ExternalConfig};

/// Everything that determines a run. All settings have been checked, alone and together.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The name of the run, for its directory and its reports.
    pub name: String,
    /// The seed of every random number.
    pub seed: Seed,
    /// What carries the protocol out.
    pub driver: DriverKind,
    /// The application that the run file names; `None` where it has no `[app]`, and one is handed in from code.
    pub app: Option<AppConfig>,
    /// The data centers and the links between them.
    pub topology: Topology,
    /// The synchronisation within a data center.
    pub local: LocalSync,
    /// The synchronisation between data centers.
    pub remote: RemoteSync,
    /// Who has chosen it.
    pub decision: Decision,
    /// The limits on workers' updates. `None` if there are none.
    pub outliers: Option<OutlierConfig>,
    /// What an iteration costs in time.
    pub compute: ComputeConfig,
    /// When the model is evaluated.
    pub evaluate: EvaluateConfig,
    /// How copies become equal at the end.
    pub drain: DrainConfig,
    /// When training ends.
    pub stop: StopRules,
    /// What machines cost.
    pub cost: CostConfig,
    /// Where the model comes from.
    pub model: ModelConfig,
    /// When the state of the run is written.
    pub checkpoint: CheckpointConfig,
    /// How nodes log what they receive, for the real driver.
    pub log: LogConfig,
    /// What happens when nodes are lost, for the real driver.
    pub failures: FailuresConfig,
    /// Where nodes listen, for the real driver.
    pub deployment: Deployment,
}

impl Plan {
    /// Whether each data center has data of its own.
    pub fn has_own_data(&self) -> bool {
        self.app.as_ref().is_some_and(AppConfig::is_per_data_center)
    }

    /// On what data copies are evaluated.
    pub fn evaluate_place(&self) -> EvaluatePlace {
        self.evaluate.place(self.driver, self.external().is_some())
    }

    /// The same run with the remote model that it has chosen.
    #[must_use]
    pub fn decided(self, remote: RemoteSync, reason: String) -> Self {
        Self { remote, decision: Decision::Made(reason), ..self }
    }

    /// The same run with the remote model that another process of it has chosen: the `[sync.remote]` that
    /// [`Self::remote_toml`] has there, checked like that of a run file.
    ///
    /// # Errors
    /// Where it is none, or none that this run can have.
    pub fn decided_elsewhere(self, remote: &str, reason: String) -> Result<Self, ConfigError> {
        let own = RunFile::from_text(ELSEWHERE, &self.to_toml(), &[])?;
        let Self { remote, .. } = own.with_remote_table(remote)?.plan()?;
        Ok(self.decided(remote, reason))
    }

    /// A hash of all settings that change the results of a run. Checkpoints, logs and failures are left out.
    pub fn fingerprint(&self) -> u64 {
        let (log, failures) = (LogConfig::default(), FailuresConfig::default());
        let (checkpoint, decision) = (CheckpointConfig::default(), Decision::Given);
        let alike = Self { checkpoint, decision, log, failures, ..self.clone() };
        Seed(0).child(&alike.to_toml()).0
    }

    /// The name of the application in reports: the kind that the run file names, or `custom` for one that is handed in.
    pub fn app_name(&self) -> &'static str {
        self.app.as_ref().map_or(CUSTOM, AppConfig::kind)
    }

    /// The settings of an application that a program hands in, if the run file names one.
    pub fn external(&self) -> Option<&ExternalConfig> {
        match &self.app {
            Some(AppConfig::External(external)) => Some(external),
            _ => None,
        }
    }

    /// Whether the run looks whether copies part: under ASP without a guard, among several data centers. Not at those of scripts:
    /// an evaluation is the user's own code, which may act on what it finds.
    pub fn looks_at_copies(&self) -> bool {
        let is_unguarded = matches!(&self.remote, RemoteSync::Asp(asp) if asp.guard.is_none());
        is_unguarded && !self.topology.links.is_empty() && self.external().is_none()
    }

    /// Whether copies travel to other data centers for that: where no process has them all.
    pub fn sends_copies_to_look(&self) -> bool {
        self.looks_at_copies() && self.driver == DriverKind::Real
    }

    /// Whether the application that the run file names changes counts. One that is handed in says so itself.
    pub fn deltas_are_counts(&self) -> bool {
        self.app.as_ref().is_some_and(AppConfig::deltas_are_counts)
    }

    /// What all nodes of a run must have resolved alike, as text that is the same wherever it is: what is trained, how it is
    /// shared, and over which network.
    ///
    /// Left out is what a node may have of its own: where its data and its initial model lie and where it listens, what it
    /// is charged, what it writes down, and what only the coordinator decides by.
    pub fn agreement(&self) -> String {
        let late: BTreeSet<String> = self.failures.late.iter().cloned().collect();
        let decision = match self.decision {
            Decision::Open => Decision::Open,
            Decision::Given | Decision::Made(_) => Decision::Given,
        };
        let late = late.into_iter().collect();
        let own = Self {
            driver: DriverKind::Real,
            decision,
            app: self.app.as_ref().map(AppConfig::without_paths),
            compute: ComputeConfig::default_for(DriverKind::Real),
            evaluate: EvaluateConfig::default(),
            stop: StopRules::default(),
            cost: CostConfig::default(),
            model: ModelConfig { keep: self.model.keep, ..ModelConfig::default() },
            checkpoint: CheckpointConfig::default(),
            log: LogConfig::default(),
            failures: FailuresConfig { late, ..FailuresConfig::default() },
            deployment: Deployment::default(),
            ..self.clone()
        };
        own.to_toml()
    }

    /// The same run with all machines in one data center, which it is compared with ("times LAN").
    ///
    /// Each worker is as slow as before. If each data center has data of its own, its workers still train on it.
    #[must_use]
    pub fn on_lan(&self) -> Self {
        let mut topology = self.topology.collapsed();
        if self.has_own_data() {
            topology.data_centers[0].stands_for = self.topology.data_homes();
        }
        let slowdown = self.compute.slowdown.on_lan();
        let compute = ComputeConfig { slowdown, ..self.compute.clone() };
        let deployment = Deployment::default();
        Self { topology, compute, deployment, ..self.clone() }
    }

    /// Where the training data lies, in order of the workers: in each data center its own, or in one place without a name.
    pub fn data_homes(&self) -> Vec<DataHome> {
        if self.has_own_data() {
            return self.topology.data_homes();
        }
        vec![DataHome { name: String::new(), workers: self.topology.workers() }]
    }

    /// Which data center sends updates to which: each to all others, unless ASP has another overlay.
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

    /// The blocks of exchanges, rounds and the drain.
    pub fn blocks(&self) -> Blocks {
        match (self.remote.blocks(), &self.remote) {
            (BlockShares::Equal, _) => Blocks::equal(self.topology.data_centers.len()),
            (BlockShares::Bandwidth, RemoteSync::Bsp(_) | RemoteSync::Ssp(_)) => {
                Blocks::filling_links(&self.topology)
            }
            (BlockShares::Bandwidth, _) => Blocks::by_slowest_link(&self.topology),
        }
    }

    /// The way of the changes of BSP and SSP.
    pub fn exchange_route(&self) -> ExchangeRoute {
        let RemoteSync::Bsp(bsp) = &self.remote else { return ExchangeRoute::Homes };
        match (bsp.exchange, &bsp.ring) {
            (ExchangeKind::Homes, _) => ExchangeRoute::Homes,
            (ExchangeKind::Tree, _) => ExchangeRoute::Tree(fastest_tree(&self.topology)),
            // All machines in one data center are compared with those of a listed ring.
            (ExchangeKind::Ring, Some(names)) if self.topology.data_centers.len() > 1 => {
                let named = |name: &String| self.topology.dc_named(name);
                ExchangeRoute::Ring(names.iter().filter_map(named).collect())
            }
            (ExchangeKind::Ring, _) => ExchangeRoute::Ring(fastest_ring(&self.topology)),
        }
    }
}

/// What messages call the settings that another process has chosen.
const ELSEWHERE: &str = "the choice of the coordinator";

/// What reports call an application that no run file names.
const CUSTOM: &str = "custom";
