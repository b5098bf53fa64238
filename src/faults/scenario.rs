//! What one schedule is made of: drawn from a seed, fixed by a file, or some of each.

use std::path::Path;
use std::time::Duration;

use rand_core::Rng;
use serde::{Deserialize, Serialize};

use crate::config::{
    ComputeConfig, ComputeModel, ComputeRate, ConfigError, DrainConfig, EvaluateConfig, KeyFile,
    Plan, RunFile,
};
use crate::coordinator::StopRules;
use crate::server::DrainMethod;
use crate::sync::{
    AspConfig, Brake, BspConfig, Combine, Decay, Floor, Goal, LocalStepsConfig, LocalSync, Outer,
    OverlayKind, Policy, RemoteSync, SspConfig, TapConfig, ValueFormat,
};
use crate::topology::{DataCenter, Topology, WanLink};
use crate::types::{Bandwidth, Bytes, DcId, Random, Seed, Staleness, Time, UsdPerGb};

/// Everything that determines a schedule. What is not listed here is drawn from the seed by itself, so that a file may
/// fix one thing and leave the rest as it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    pub seed: u64,
    pub data_centers: usize,
    /// Servers of each data center.
    pub servers: usize,
    /// Workers of each data center.
    pub workers: usize,
    /// Rows of the model.
    pub rows: usize,
    /// Clocks after which the run stops.
    pub clocks: u64,
    /// The remote model; its settings are drawn.
    pub remote: String,
    pub packets: Packets,
    #[serde(rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

/// The chance of each message to be befallen, 0 to 0.5, while faults happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Packets {
    pub loss: f64,
    pub repetition: f64,
    pub reordering: f64,
    /// Of a single bit.
    pub damage: f64,
    pub delay: f64,
}

/// One structural fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    pub at: Time,
    /// How long it lasts. Left out, and always for a reset: a moment.
    #[serde(default)]
    pub lasts: Time,
    /// The data center that it befalls, or from which a link starts.
    pub dc: u16,
    /// The data center at the other end of the link; for all kinds but stragglers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u16>,
    /// How many times slower, from 1 to 100; for stragglers and slow links.
    #[serde(default = "no_slower")]
    pub factor: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Nothing passes between two data centers.
    Partition,
    /// Nothing passes from one data center to another; what goes back passes.
    OneWayPartition,
    /// The connections between two data centers break, and what is on them is lost.
    Reset,
    /// The workers of a data center compute more slowly.
    Straggler,
    /// A link carries less, one way.
    SlowLink,
}

/// The keys of a scenario file: what is left out is drawn.
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
    packets: Option<Packets>,
    fault: Option<Vec<Fault>>,
}

impl Scenario {
    /// What a seed draws.
    pub fn draw(seed: u64) -> Self {
        Self::with(seed, Keys::default())
    }

    /// What a file fixes, and a seed draws of the rest: the file's own, unless one is given.
    ///
    /// # Errors
    /// The first mistake found in the file.
    pub fn read(path: &Path, seed: Option<u64>) -> Result<Self, ConfigError> {
        Self::from_file(&KeyFile::read(path)?, seed)
    }

    /// As [`Self::read`], from memory; `name` is what messages call it.
    ///
    /// # Errors
    /// The first mistake found in the text.
    pub fn from_text(name: &str, text: &str, seed: Option<u64>) -> Result<Self, ConfigError> {
        Self::from_file(&KeyFile::from_text(name, text)?, seed)
    }

    /// The scenario as a file that repeats it.
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
            if let Some((key, found, expected)) = fault.mistake(scenario.data_centers) {
                return Err(file.wrong(&format!("fault.{place}.{key}"), found, expected));
            }
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
        Self {
            seed,
            data_centers,
            servers: keys.servers.unwrap_or_else(|| from("servers", 1, 2)),
            workers: keys.workers.unwrap_or_else(|| from("workers", 1, 2)),
            rows: keys.rows.unwrap_or_else(|| from("rows", 4, 40)),
            clocks: keys.clocks.unwrap_or_else(|| from("clocks", 5, 25) as u64),
            remote: keys
                .remote
                .unwrap_or_else(|| names[from("remote", 0, names.len() - 1)].to_owned()),
            packets: keys.packets.unwrap_or_else(|| Packets::draw(root.child("packets"))),
            faults: keys
                .fault
                .unwrap_or_else(|| Fault::draw_all(root.child("faults"), data_centers)),
        }
    }

    /// How long faults happen.
    pub(super) fn calm_at(&self) -> Duration {
        let ends = self.faults.iter().map(|fault| fault.at.0 + fault.lasts.0);
        ends.max().unwrap_or_default().max(FAULTS_LAST)
    }

    /// Rows' width, and whether workers read them all.
    pub(super) fn model(&self) -> (usize, bool) {
        let mut chance = Seed(self.seed).child("model shape").random();
        (within(&mut chance, 1, 3) as usize, within(&mut chance, 0, 1) == 0)
    }

    /// The plan of the run, with everything that the scenario leaves to be drawn.
    pub(super) fn plan(&self) -> Plan {
        let seed = Seed(self.seed);
        let mut chance = seed.child("plan").random();
        let base = RunFile::from_text("scenario", BASE, &[]).and_then(|file| file.plan());
        let staleness = within(&mut chance, 0, 2);
        let seconds = 0.02 * 10_f64.powf(unit(&mut chance));
        let method =
            if within(&mut chance, 0, 1) == 0 { DrainMethod::Mean } else { DrainMethod::Residuals };
        Plan {
            seed,
            topology: self.topology(seed.child("topology")),
            local: match staleness {
                0 => LocalSync::Bsp,
                staleness => LocalSync::Ssp { staleness: Staleness(staleness) },
            },
            remote: remote(&self.remote, &mut seed.child("settings").random()),
            compute: ComputeConfig {
                model: ComputeModel::Cost,
                rate: ComputeRate::ExamplesPerSecond(1.0 / seconds),
                clock_overhead: Time(Duration::ZERO),
                jitter: 0.3,
                slowdown: Vec::new(),
            },
            evaluate: EvaluateConfig::default(),
            drain: DrainConfig { method },
            stop: StopRules { clocks: Some(self.clocks), ..StopRules::default() },
            ..base.expect("the base of all scenarios is a run file")
        }
    }

    fn topology(&self, seed: Seed) -> Topology {
        let mut chance = seed.random();
        let ids = || (0..self.data_centers as u16).map(DcId);
        let pairs = ids().flat_map(|from| ids().map(move |to| (from, to)));
        // Of three WANs one is so slow that clocks do not fit into it.
        let least = if within(&mut chance, 0, 2) == 0 { 0.02 } else { 0.1 };
        let links = pairs.filter(|(from, to)| from != to).map(|(from, to)| WanLink {
            from,
            to,
            bandwidth: Bandwidth::from_mbit(least * 50_f64.powf(unit(&mut chance))),
            rtt: Time(Duration::from_millis(within(&mut chance, 2, 150))),
            price: UsdPerGb(0.02),
            loss: 0.0,
            queue: Bytes(1 << 16),
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
                    lan_rtt: Time(Duration::from_micros(200)),
                    colocated: false,
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
        Self { loss: rate(), repetition: rate(), reordering: rate(), damage: rate(), delay: rate() }
    }

    /// Each chance with its key.
    pub(super) fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("loss", self.loss),
            ("repetition", self.repetition),
            ("reordering", self.reordering),
            ("damage", self.damage),
            ("delay", self.delay),
        ]
    }
}

impl Fault {
    fn draw_all(seed: Seed, data_centers: usize) -> Vec<Self> {
        let mut chance = seed.random();
        let count = within(&mut chance, 0, 4);
        let mut faults: Vec<Self> =
            (0..count).map(|_| Self::draw(&mut chance, data_centers as u64)).collect();
        faults.sort_by_key(|fault| fault.at);
        faults
    }

    fn draw(chance: &mut Random, data_centers: u64) -> Self {
        let kinds = [
            FaultKind::Partition,
            FaultKind::OneWayPartition,
            FaultKind::Reset,
            FaultKind::Straggler,
            FaultKind::SlowLink,
        ];
        let kind = kinds[within(chance, 0, kinds.len() as u64 - 1) as usize];
        let millis = |millis| Time(Duration::from_millis(millis));
        let at = millis(within(chance, 0, FAULTS_LAST.as_millis() as u64));
        let lasts = millis(within(chance, 1, LASTS_MAX.as_millis() as u64));
        let dc = within(chance, 0, data_centers - 1);
        let peer = (dc + within(chance, 1, data_centers - 1)) % data_centers;
        let factor = within(chance, 2, 10) as f64;
        Self {
            kind,
            at,
            lasts: if kind == FaultKind::Reset { Time::default() } else { lasts },
            dc: dc as u16,
            peer: (kind != FaultKind::Straggler).then_some(peer as u16),
            factor: if kind.slows() { factor } else { 1.0 },
        }
    }

    /// The key that is wrong, what it holds and what was expected.
    fn mistake(&self, data_centers: usize) -> Option<(&'static str, String, String)> {
        let dcs = format!("a data center from 0 to {}", data_centers - 1);
        if usize::from(self.dc) >= data_centers {
            return Some(("dc", self.dc.to_string(), dcs));
        }
        match (self.kind, self.peer) {
            (FaultKind::Straggler, Some(peer)) => {
                return Some(("peer", peer.to_string(), "no peer: a straggler is alone".into()));
            }
            (FaultKind::Straggler, None) => {}
            (_, None) => return Some(("peer", "nothing".into(), dcs)),
            (_, Some(peer)) if peer == self.dc || usize::from(peer) >= data_centers => {
                return Some(("peer", peer.to_string(), format!("{dcs}, other than `dc`")));
            }
            _ => {}
        }
        for (key, time) in [("at", self.at), ("lasts", self.lasts)] {
            if time.0 > FAULT_TIME_MAX {
                let most = Time(FAULT_TIME_MAX);
                return Some((key, time.to_string(), format!("at most {most}")));
            }
        }
        if self.kind == FaultKind::Reset && self.lasts != Time::default() {
            return Some(("lasts", self.lasts.to_string(), "nothing: a reset is a moment".into()));
        }
        let right = if self.kind.slows() { 1.0..=FACTOR_MAX } else { 1.0..=1.0 };
        let expected = || format!("a factor from {} to {}", right.start(), right.end());
        (!right.contains(&self.factor)).then(|| ("factor", self.factor.to_string(), expected()))
    }
}

impl FaultKind {
    /// Whether a factor belongs to it.
    fn slows(self) -> bool {
        matches!(self, Self::Straggler | Self::SlowLink)
    }
}

/// A remote model with drawn settings.
fn remote(name: &str, chance: &mut Random) -> RemoteSync {
    let mut one_of = |count: u64| within(chance, 0, count - 1);
    let plain = if one_of(2) == 0 { ValueFormat::F32 } else { ValueFormat::Bf16 };
    match name {
        "bsp" => RemoteSync::Bsp(BspConfig { values: plain }),
        "ssp" => {
            let staleness = Staleness(1 + one_of(3));
            RemoteSync::Ssp(SspConfig { staleness, values: plain })
        }
        "tap" => RemoteSync::Tap(TapConfig { values: plain }),
        "local-steps" => {
            let steps = 1 + one_of(6);
            RemoteSync::LocalSteps(LocalStepsConfig {
                steps,
                fragments: 1 + one_of(steps.min(3)),
                overlap: Some(one_of(steps)),
                combine: if one_of(3) == 0 { Combine::Mean } else { Combine::Sum },
                outer: if one_of(3) == 0 { Outer::Nesterov } else { Outer::Plain },
                outer_learning_rate: 1.0,
                values: plain,
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
            values: ValueFormat::ALL[one_of(4) as usize],
            selective_barrier: if one_of(2) == 0 { Brake::On } else { Brake::Off },
            barrier_deadline: Time(Duration::from_millis(500 + 2_000 * one_of(3))),
            mirror_clock: if one_of(3) == 0 { Brake::Off } else { Brake::On },
            data_center_staleness: Some(Staleness(1 + one_of(4))),
            mirror_clock_deadline: Time(Duration::from_secs(1 + 5 * one_of(3))),
            ..AspConfig::default()
        }),
    }
}

fn is_remote(name: &str) -> bool {
    RemoteSync::NAMES.contains(&name)
}

fn no_slower() -> f64 {
    1.0
}

/// A whole number between two, both included.
pub(super) fn within(chance: &mut Random, least: u64, most: u64) -> u64 {
    least + chance.next_u64() % (most - least + 1)
}

/// A number from 0 to below 1.
pub(super) fn unit(chance: &mut Random) -> f64 {
    (chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// What all plans have in common; the rest is put in its place.
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

const DATA_CENTERS_MAX: usize = 8;
const NODES_MAX: usize = 4;
const ROWS_MAX: usize = 10_000;
const CLOCKS_MAX: usize = 10_000;
const CHANCE_MAX: f64 = 0.5;
const FACTOR_MAX: f64 = 100.0;

/// Faults that are drawn begin within this time, and packet faults happen for no less.
const FAULTS_LAST: Duration = Duration::from_millis(2_000);
const LASTS_MAX: Duration = Duration::from_millis(1_500);

/// The latest that a file may have a fault begin, and the longest that it may last: half an hour.
const FAULT_TIME_MAX: Duration = Duration::from_secs(1_800);
