//! The parameters of a schedule, drawn from a seed or fixed by a file.

pub(crate) mod draws;
pub(crate) mod fault;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use draws::{unit, within};
use fault::{FAULTS_LAST, Nodes};

pub use fault::{Fault, FaultKind, Moment};

use gaia_config::{
    ComputeConfig, ComputeModel, ComputeRate, ConfigError, DrainConfig, DriverKind, EvaluateConfig,
    KeyFile, Plan, RunFile, Slowdown,
};
use gaia_core::coordinator::StopRules;
use gaia_core::recovery::Logging;
use gaia_core::server::DrainMethod;
use gaia_core::sync::{
    AspConfig, BlockShares, Brake, BspConfig, Combine, Decay, ExchangeKind, Floor, Goal,
    GuardConfig, LocalBspConfig, LocalStepsConfig, LocalSync, OnPartition, Outer, OutlierAction,
    OutlierConfig, Overlap, OverlayKind, Policy, RemoteSync, SspConfig, TapConfig, ValueFormat,
};
use gaia_core::topology::{DataCenter, Topology, WanLink};
use gaia_core::types::{
    Bandwidth, ByteSize, DcId, DurationSetting, Random, Seed, Staleness, UsdPerGb,
};

/// The parameters that determine a schedule. All others are drawn from seeds of their own, so that a file can fix one
/// parameter without a change of the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of data centers.
    pub data_centers: usize,
    /// The number of servers in each data center.
    pub servers: usize,
    /// The number of workers in each data center.
    pub workers: usize,
    /// The number of rows of the model.
    pub rows: usize,
    /// The clock after which the run stops.
    pub clocks: u64,
    /// The name of the remote model. Its settings are drawn.
    pub remote: String,
    /// Whether nodes with a log let results leave before bulky entries are on disk.
    pub deferred_log: bool,
    /// The probabilities of packet faults.
    pub packets: Packets,
    /// The structural faults.
    #[serde(rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

/// The probabilities of packet faults for each message, 0 to 0.5, during the safety phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Packets {
    /// The message does not arrive.
    pub loss: f64,
    /// The message arrives twice.
    pub repetition: f64,
    /// The message arrives after later ones.
    pub reordering: f64,
    /// The message arrives with a flipped bit.
    pub damage: f64,
    /// The message arrives late, with those behind it.
    pub delay: f64,
    /// The message was on a failed connection, and arrives on the next one.
    pub stale: f64,
}

/// The keys of a scenario file. Missing ones are drawn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Keys {
    seed: Option<u64>,
    data_centers: Option<usize>,
    servers: Option<usize>,
    workers: Option<usize>,
    rows: Option<usize>,
    clocks: Option<u64>,
    remote: Option<String>,
    deferred_log: Option<bool>,
    packets: Option<Packets>,
    fault: Option<Vec<Fault>>,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn draw(seed: u64) -> Self {
        Self::with(seed, Keys::default())
    }

    /// The scenario of a file. Missing keys are drawn from `seed`, or from the file's seed if it is `None`.
    ///
    /// # Errors
    /// The first error in the file.
    pub fn read(path: &Path, seed: Option<u64>) -> Result<Self, ConfigError> {
        Self::from_file(&KeyFile::read(path)?, seed)
    }

    /// As [`Self::read`], from a text. `name` is the file name in error messages.
    ///
    /// # Errors
    /// The first error in the text.
    pub fn from_text(name: &str, text: &str, seed: Option<u64>) -> Result<Self, ConfigError> {
        Self::from_file(&KeyFile::from_text(name, text)?, seed)
    }

    /// The scenario as the text of a file that repeats it.
    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("a scenario has no key that TOML cannot hold")
    }

    fn from_file(file: &KeyFile, seed: Option<u64>) -> Result<Self, ConfigError> {
        let keys: Keys = file.keys()?;
        let counts = [
            ("data_centers", keys.data_centers, 2, DATA_CENTERS_MAX),
            ("servers", keys.servers, 1, NODES_MAX),
            ("workers", keys.workers, 1, NODES_MAX),
            ("rows", keys.rows, 1, ROWS_MAX),
            ("clocks", keys.clocks.map(|clocks| clocks as usize), 1, CLOCKS_MAX),
        ];

        for (key, value, least, most) in counts {
            if let Some(found) = value.filter(|value| !(least..=most).contains(value)) {
                let expected = format!("a whole number from {least} to {most}");
                return Err(file.wrong(key, found, expected));
            }
        }

        if let Some(found) = keys.remote.as_ref().filter(|name| !is_remote(name)) {
            return Err(file.wrong("remote", found, RemoteSync::NAMES.join(", ")));
        }
        if let Some(packets) = keys.packets {
            for (key, chance) in packets.named() {
                if !(0.0..=CHANCE_MAX).contains(&chance) {
                    let expected = format!("a chance from 0 to {CHANCE_MAX}");
                    return Err(file.wrong(&format!("packets.{key}"), chance, expected));
                }
            }
        }

        let scenario = Self::with(seed.or(keys.seed).unwrap_or_default(), keys);
        for (place, fault) in scenario.faults.iter().enumerate() {
            if let Some((key, found, expected)) = fault.mistake(scenario.nodes()) {
                return Err(file.wrong(&format!("fault.{place}.{key}"), found, expected));
            }
        }

        if scenario.late().len() == scenario.data_centers {
            let expected = "a data center that takes part from the start";
            return Err(file.wrong("fault", "late joins of all data centers", expected));
        }

        Ok(scenario)
    }

    fn with(seed: u64, keys: Keys) -> Self {
        let root = Seed(seed);
        let from = |name: &str, least: usize, most: usize| {
            within(&mut root.child(name).random(), least as u64, most as u64) as usize
        };
        let names = ["bsp", "ssp", "tap", "asp", "asp", "asp", "local-steps"];
        let data_centers = keys.data_centers.unwrap_or_else(|| from("data centers", 2, 4));
        let servers = keys.servers.unwrap_or_else(|| from("servers", 1, 2));
        let workers = keys.workers.unwrap_or_else(|| from("workers", 1, 2));
        let nodes = nodes(data_centers, servers, workers);

        // A run must outlast its faults for them to matter.
        let is_drawn = keys.fault.is_none();
        let faults = keys.fault.unwrap_or_else(|| Fault::draw_all(root.child("faults"), nodes));
        let is_long = is_drawn && faults.iter().any(Fault::is_long);
        let stretch = if is_long { CLOCKS_STRETCH } else { 1 };

        Self {
            seed,
            data_centers,
            servers,
            workers,
            rows: keys.rows.unwrap_or_else(|| from("rows", 4, 40)),
            clocks: keys.clocks.unwrap_or_else(|| stretch * from("clocks", 4, 14) as u64),
            remote: keys
                .remote
                .unwrap_or_else(|| names[from("remote", 0, names.len() - 1)].to_owned()),
            deferred_log: keys.deferred_log.unwrap_or_else(|| from("deferred log", 0, 2) == 0),
            packets: keys.packets.unwrap_or_else(|| Packets::draw(root.child("packets"))),
            faults,
        }
    }

    /// Whether nodes keep logs: if the faults require it, and in half of the other schedules.
    pub(crate) fn keeps_logs(&self) -> bool {
        let mut chance = Seed(self.seed).child("logs").random();
        within(&mut chance, 0, 1) == 0 || self.faults.iter().any(Fault::needs_logs)
    }

    /// What servers keep of their inputs on disk.
    pub(crate) fn logging(&self) -> Logging {
        let mut chance = Seed(self.seed).child("logging").random();
        let bulky = [0, 100, 300][within(&mut chance, 0, 2) as usize];
        let bytes_max = [0, 2_000, u64::MAX][within(&mut chance, 0, 2) as usize];
        match self.keeps_logs() {
            false => Logging::Off,
            true if self.deferred_log => Logging::Deferred { bulky, bytes_max },
            true => Logging::Each,
        }
    }

    fn nodes(&self) -> Nodes {
        nodes(self.data_centers, self.servers, self.workers)
    }

    /// The duration of the safety phase.
    pub(crate) fn faults_end_at(&self) -> Duration {
        let ends = self.faults.iter().map(|fault| fault.at.0 + fault.lasts.0);
        ends.max().unwrap_or_default().max(FAULTS_LAST)
    }

    /// The width of rows, and whether workers read all of them.
    pub(crate) fn model(&self) -> (usize, bool) {
        let mut chance = Seed(self.seed).child("model shape").random();
        (within(&mut chance, 1, 3) as usize, within(&mut chance, 0, 1) == 0)
    }

    /// The sizes of blocks, and the way of BSP's exchange. Links differ, so that blocks by bandwidth do.
    fn exchange(&self) -> (BlockShares, ExchangeKind) {
        let mut chance = Seed(self.seed).child("exchange").random();
        let blocks = [BlockShares::Bandwidth, BlockShares::Equal];
        let kinds = [ExchangeKind::Homes, ExchangeKind::Ring, ExchangeKind::Tree];
        (blocks[within(&mut chance, 0, 1) as usize], kinds[within(&mut chance, 0, 2) as usize])
    }

    /// A remote model, whose rounds have a quorum in three of four schedules, sparse totals and a block format in half, and
    /// of means a drift correction in half.
    fn with_quorum(&self, mut remote: RemoteSync) -> RemoteSync {
        let mut chance = Seed(self.seed).child("quorum").random();
        let share = [1.0, 0.75, 0.6, 0.3][within(&mut chance, 0, 3) as usize];
        let grace = [0, 0, 20, 300][within(&mut chance, 0, 3) as usize];
        let mut totals = Seed(self.seed).child("totals").random();
        let mut formats = Seed(self.seed).child("round formats").random();
        let mut drifts = Seed(self.seed).child("drift correction").random();
        if let RemoteSync::LocalSteps(config) = &mut remote {
            config.values = match within(&mut formats, 0, 5) {
                0 => ValueFormat::Int8,
                1 => ValueFormat::Int4,
                2 => ValueFormat::Int2,
                _ => config.values,
            };
            config.total_density = [1.0, 0.2][within(&mut totals, 0, 1) as usize];
            if config.combine == Combine::Mean {
                config.drift_correction = [0.0, 0.5][within(&mut drifts, 0, 1) as usize];
            }
            config.quorum = share;
            config.grace = DurationSetting(Duration::from_millis(grace));
        }
        remote
    }

    /// A remote model, with a guard against skew in one of three schedules of those that can have one.
    fn with_guard(&self, mut remote: RemoteSync) -> RemoteSync {
        let mut chance = Seed(self.seed).child("guard").random();
        let occurs = within(&mut chance, 0, 2) == 0;
        let (every, examples) = (within(&mut chance, 1, 6), 1);
        let bound = [0.01, 0.1, 1.0][within(&mut chance, 0, 2) as usize];
        let guard = occurs.then_some(GuardConfig { every, bound, examples });
        match &mut remote {
            RemoteSync::Asp(config) if config.mirror_clock != Brake::Off => config.guard = guard,
            RemoteSync::LocalSteps(config) if config.fragments == 1 && !config.has_quorum() => {
                config.guard = guard;
            }
            _ => {}
        }
        remote
    }

    /// BSP among workers, with a quorum of them in one schedule of two.
    fn local_bsp(&self) -> LocalSync {
        let mut chance = Seed(self.seed).child("local-quorum").random();
        let quorum = [1.0, 1.0, 0.75, 0.3][within(&mut chance, 0, 3) as usize];
        let grace = [0, 0, 20, 300][within(&mut chance, 0, 3) as usize];
        let grace = DurationSetting(Duration::from_millis(grace));
        LocalSync::Bsp(LocalBspConfig { quorum, grace })
    }

    /// Limits on updates, in one schedule of four. Half of the updates are above the smallest. The limit by the median
    /// is above them all, but its record must survive crashes. Sums of scaled changes are not exact, so where these are
    /// rounded on the way, updates above the limit are refused.
    fn outliers(&self) -> Option<OutlierConfig> {
        let mut chance = Seed(self.seed).child("outliers").random();
        let occurs = within(&mut chance, 0, 3) == 0;
        let norm_max = Some(within(&mut chance, 3, 12) as f64);
        let may_clip = within(&mut chance, 0, 2) > 0 && matches!(&*self.remote, "tap" | "asp");
        let action = if may_clip { OutlierAction::Clip } else { OutlierAction::Refuse };
        occurs.then_some(OutlierConfig { norm_max, median_times: Some(1e3), action })
    }

    /// The plan of the run, with all other parameters drawn.
    pub(crate) fn plan(&self) -> Plan {
        let seed = Seed(self.seed);
        let mut chance = seed.child("plan").random();
        let staleness = within(&mut chance, 0, 2);
        let seconds = 0.02 * 10_f64.powf(unit(&mut chance));
        let method =
            if within(&mut chance, 0, 1) == 0 { DrainMethod::Mean } else { DrainMethod::Residuals };
        let mut plan = Plan {
            seed,
            topology: self.topology(seed.child("topology")),
            local: match staleness {
                0 => self.local_bsp(),
                staleness => LocalSync::Ssp { staleness: Staleness(staleness) },
            },
            remote: self.with_guard(self.with_quorum(remote(
                &self.remote,
                self.exchange(),
                &mut seed.child("settings").random(),
            ))),
            outliers: self.outliers(),
            compute: ComputeConfig {
                model: ComputeModel::Cost,
                rate: ComputeRate::ExamplesPerSecond(1.0 / seconds),
                clock_overhead: DurationSetting(Duration::ZERO),
                jitter: 0.3,
                slowdown: Slowdown::default(),
            },
            evaluate: EvaluateConfig::default(),
            drain: DrainConfig { method },
            stop: StopRules { clocks: Some(self.clocks), ..StopRules::default() },
            ..base().clone()
        };

        // Copies travel over real machines, to look whether they part.
        if within(&mut seed.child("driver").random(), 0, 1) == 0 {
            plan.driver = DriverKind::Real;
        }

        if plan.needs_all().is_none() {
            let name = |dc: DcId| plan.topology.dc(dc).name.clone();
            plan.failures.late = self.late().into_iter().map(name).collect();
        }

        plan
    }

    /// The data centers that join before they leave.
    fn late(&self) -> BTreeSet<DcId> {
        let first = |dc: u16| {
            let of_dc = self.faults.iter().filter(|fault| {
                fault.dc == dc && matches!(fault.kind, FaultKind::LateJoin | FaultKind::Leave)
            });
            of_dc.min_by_key(|fault| fault.at).map(|fault| fault.kind)
        };
        let dcs = 0..self.data_centers as u16;
        dcs.filter(|dc| first(*dc) == Some(FaultKind::LateJoin)).map(DcId).collect()
    }

    fn topology(&self, seed: Seed) -> Topology {
        let mut chance = seed.random();
        let ids = || (0..self.data_centers as u16).map(DcId);
        let pairs = ids().flat_map(|from| ids().map(move |to| (from, to)));

        // One of three WANs is too slow for the updates of a clock.
        let least = if within(&mut chance, 0, 2) == 0 { 0.02 } else { 0.1 };
        let links = pairs.filter(|(from, to)| from != to).map(|(from, to)| WanLink {
            from,
            to,
            bandwidth: Bandwidth::from_mbit(least * 50_f64.powf(unit(&mut chance))),
            rtt: DurationSetting(Duration::from_millis(within(&mut chance, 2, 150))),
            price: UsdPerGb(0.02),
            loss: 0.0,
            queue: ByteSize(1 << 16),
        });

        Topology {
            name: "drawn".into(),
            links: links.collect(),
            data_centers: ids()
                .map(|dc| DataCenter {
                    name: dc.to_string(),
                    servers: self.servers,
                    workers: self.workers,
                    lan_bandwidth: Bandwidth::from_mbit(1_000.0),
                    lan_rtt: DurationSetting(Duration::from_micros(200)),
                    colocated: false,
                    stands_for: Vec::new(),
                })
                .collect(),
            groups: Vec::new(),
            bandwidth_scale: 1.0,
        }
    }
}

impl Packets {
    fn draw(seed: Seed) -> Self {
        let mut chance = seed.random();
        let mut rate = || {
            let (struck, rate) = (within(&mut chance, 0, 1) == 0, unit(&mut chance));
            if struck { 0.1 * 0.01_f64.powf(rate) } else { 0.0 }
        };
        let (loss, repetition, reordering) = (rate(), rate(), rate());
        Self { loss, repetition, reordering, damage: rate(), delay: rate(), stale: 5.0 * rate() }
    }

    /// The probabilities with their keys.
    pub(crate) fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("loss", self.loss),
            ("repetition", self.repetition),
            ("reordering", self.reordering),
            ("damage", self.damage),
            ("delay", self.delay),
            ("stale", self.stale),
        ]
    }
}

fn nodes(data_centers: usize, servers: usize, workers: usize) -> Nodes {
    let [data_centers, servers, workers] = [data_centers, servers, workers].map(|of| of as u64);
    Nodes { data_centers, servers, workers }
}

/// The plan on which all plans are based.
fn base() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let plan = RunFile::from_text("scenario", BASE, &[]).and_then(|file| file.plan());
        plan.expect("the base of all scenarios is a run file")
    })
}

/// A remote model with drawn settings.
fn remote(
    name: &str,
    (blocks, exchange): (BlockShares, ExchangeKind),
    chance: &mut Random,
) -> RemoteSync {
    let mut one_of = |count: u64| within(chance, 0, count - 1);
    let plain = if one_of(2) == 0 { ValueFormat::F32 } else { ValueFormat::Bf16 };
    match name {
        "bsp" => RemoteSync::Bsp(BspConfig { values: plain, blocks, exchange, ring: None }),
        "ssp" => {
            let staleness = Staleness(1 + one_of(3));
            RemoteSync::Ssp(SspConfig { staleness, values: plain, blocks })
        }
        "tap" => RemoteSync::Tap(TapConfig { values: plain, blocks }),
        "local-steps" => {
            let steps = 1 + one_of(6);
            RemoteSync::LocalSteps(LocalStepsConfig {
                steps,
                fragments: 1 + one_of(steps.min(3)),
                overlap: match one_of(steps + 1) {
                    clocks if clocks == steps => Overlap::Auto,
                    clocks => Overlap::Clocks(clocks),
                },
                combine: if one_of(3) == 0 { Combine::Mean } else { Combine::Sum },
                outer: if one_of(3) == 0 { Outer::Nesterov } else { Outer::Plain },
                outer_learning_rate: 1.0,
                values: plain,
                density: [1.0, 0.3][one_of(2) as usize],
                blocks,
                ..LocalStepsConfig::default()
            })
        }
        _ => RemoteSync::Asp(AspConfig {
            threshold: [0.02, 0.1, 0.5][one_of(3) as usize],
            floor: if one_of(2) == 0 { Floor::Zero } else { Floor::TableRms },
            decay: if one_of(2) == 0 { Decay::None } else { Decay::Clock },
            policy: if one_of(2) == 0 { Policy::Paper } else { Policy::Link },
            goal: if one_of(2) == 0 { Goal::Speed } else { Goal::Cost },
            link_share: [0.2, 1.0][one_of(2) as usize],
            overlay: [OverlayKind::Mesh, OverlayKind::Groups, OverlayKind::Tree]
                [one_of(3) as usize],
            values: ValueFormat::ALL[one_of(ValueFormat::ALL.len() as u64) as usize],
            blocks,
            selective_barrier: if one_of(2) == 0 { Brake::On } else { Brake::Off },
            barrier_deadline: DurationSetting(Duration::from_millis(500 + 2_000 * one_of(3))),
            mirror_clock: if one_of(3) == 0 { Brake::Off } else { Brake::On },
            data_center_staleness: Some(Staleness(1 + one_of(4))),
            mirror_clock_deadline: DurationSetting(Duration::from_secs(1 + 5 * one_of(3))),
            on_partition: if one_of(4) == 0 { OnPartition::Pause } else { OnPartition::Continue },
            ..AspConfig::default()
        }),
    }
}

fn is_remote(name: &str) -> bool {
    RemoteSync::NAMES.contains(&name)
}

/// The run file on which all plans are based. The drawn parameters replace its values.
const BASE: &str = r#"
    name = "scenario"
    driver = "simulated"
    [app]
    kind = "matrix-factorization"
    data.synthetic = { users = 10, items = 10, ratings = 20, rank = 1, noise = 0.1 }
    [topology]
    file = "three-regions"
    [sync.remote]
    model = "bsp"
    [stop]
    clocks = 1
"#;

/// The factor of a run's clocks if one of its faults lasts long.
const CLOCKS_STRETCH: u64 = 5;

const DATA_CENTERS_MAX: usize = 8;
const NODES_MAX: usize = 4;
const ROWS_MAX: usize = 10_000;
const CLOCKS_MAX: usize = 10_000;
const CHANCE_MAX: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_and_all_formats_of_rounds_are_drawn() {
        let plans: Vec<Plan> = (0..200).map(|seed| Scenario::draw(seed).plan()).collect();
        let guarded = plans.iter().filter(|plan| plan.remote.guard().is_some());
        let guarded: Vec<&str> = guarded.map(|plan| plan.remote.name()).collect();
        assert!(guarded.contains(&"asp") && guarded.contains(&"local-steps"), "{guarded:?}");

        for format in ValueFormat::ALL {
            let is_drawn = plans.iter().any(|plan| {
                matches!(&plan.remote, RemoteSync::LocalSteps(rounds) if rounds.values == format)
            });
            assert!(is_drawn, "{format:?}");
        }
    }
}
