//! Structural faults: their kinds, their random choice, and the check of faults in a file.

mod blank;
mod dead_links;
mod diverged;
mod members;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::scenario::draws::{unit, within};
use gaia_core::types::{DurationSetting, Random, Seed};

/// One structural fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// When it begins, after the start of the run.
    pub at: DurationSetting,
    /// How long it lasts. A crash lasts until the node is restarted. 0 by default, and always for resets and clock
    /// steps.
    #[serde(default)]
    pub lasts: DurationSetting,
    /// The affected data center, or the one at the sending end of the link. The first for a crash of the coordinator.
    pub dc: u16,
    /// The data center at the other end of the link, for faults of links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u16>,
    /// The affected server, by its shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<u16>,
    /// The affected worker. A crash that names no server and no worker affects all nodes of the data center.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u16>,
    /// The step of the node's next write at which a crash occurs. The coordinator writes its file, which is replaced as
    /// a whole. `None` for a crash at the time `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Moment>,
    /// Whether a crashed worker loses its disk, or all of it except the last checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blank: bool,
    /// The factor of a slowdown, from 1 to 100, for stragglers and slow links.
    #[serde(default = "no_slower", skip_serializing_if = "is_no_slower")]
    pub factor: f64,
    /// The step of a clock in seconds, from -60 to 60. Backward if negative.
    #[serde(default, skip_serializing_if = "is_no_step")]
    pub step_s: f64,
}

/// The kind of a structural fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// All messages between two data centers are lost.
    Partition,
    /// All messages from one data center to another are lost. Those of the other direction arrive.
    OneWayPartition,
    /// Messages that are sent from one data center to another arrive only at the end of the fault, all of them and in order,
    /// and the connections stay open. The receiving servers are notified of the silence.
    SilentLink,
    /// The connections between two data centers fail, and the messages on them are lost.
    Reset,
    /// The workers of a data center compute more slowly.
    Straggler,
    /// The bandwidth of a link is reduced, in one direction.
    SlowLink,
    /// A server, a worker or a whole data center crashes, and restarts with its disk.
    Crash,
    /// A server loses its disk and restarts without a state: it takes the copy of a mirror. It restarts with its disk
    /// if that is impossible, because another server is lost, the run drains, or its model does not support it.
    LostDisk,
    /// All nodes of a data center start late, without a state: the data center joins. It starts with the run if its
    /// model does not support joining.
    LateJoin,
    /// All nodes of a data center crash permanently. Once the coordinator gives the data center up, the run continues
    /// without it. If that is impossible, the nodes restart then.
    Leave,
    /// A node's disk is full: the node stops at its next write, and restarts once the disk has room.
    DiskFull,
    /// The clock of a server is set forward or back.
    ClockStep,
    /// The coordinator crashes, and restarts with its disk.
    CoordinatorCrash,
    /// From its next update on, all changes of a worker at one clock are not finite, or too large to be added up. The
    /// servers reject the update, and the run ends.
    DivergedUpdate,
}

/// The step of a write at which a node crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// Before a byte is written.
    Before,
    /// After a part is written.
    Torn,
    /// After all is synced, and before a message depends on it.
    After,
}

/// The size of the cluster for which faults are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes {
    pub(crate) data_centers: u64,
    pub(crate) servers: u64,
    pub(crate) workers: u64,
}

impl Fault {
    /// Draws up to eight faults, some of which are related, and a few with seeds of their own.
    pub(crate) fn draw_all(seed: Seed, nodes: Nodes) -> Vec<Self> {
        let mut chance = seed.random();
        let count = within(&mut chance, 0, 4);
        let mut faults = Vec::new();
        for _ in 0..count {
            let fault = Self::draw(&mut chance, nodes);
            let (kind, mut also) = (fault.kind, fault.clone());
            faults.push(fault);
            if kind != FaultKind::Crash {
                continue;
            }
            let soon = millis(within(&mut chance, 0, 300));
            match within(&mut chance, 0, 5) {
                // The same fault again, before or after the node restarts.
                0 => {
                    also.at = DurationSetting(also.at.0 + also.lasts.0.min(LASTS_MAX / 4) + soon.0);
                }
                // The other end of a link, too.
                1 if also.server.is_some() => {
                    also.dc = (also.dc + 1) % nodes.data_centers as u16;
                    also.at = DurationSetting(also.at.0 + soon.0);
                }
                // All nodes of the data center.
                2 => {
                    (also.server, also.worker, also.write) = (None, None, None);
                    also.at = DurationSetting(also.at.0 + soon.0);
                }
                _ => continue,
            }
            faults.push(also);
        }

        // Drawn from seeds of their own, so that they do not change the rest of a schedule.
        faults.extend(Self::draw_lost_disk(&mut seed.child("lost disk").random(), nodes));
        faults.extend(members::draw(seed.child("members"), nodes));
        members::draw_lost_joiner(seed.child("lost joiner"), nodes, &mut faults);
        faults.extend(dead_links::draw(seed.child("dead links"), nodes));
        faults.extend(dead_links::draw_silent(seed.child("silent links"), nodes));
        faults.extend(Self::draw_coordinator_crash(&mut seed.child("coordinator").random()));
        faults.extend(diverged::draw(seed.child("diverged"), nodes));
        faults.sort_by_key(|fault| fault.at);
        blank::draw(seed.child("blank"), &mut faults);

        faults
    }

    /// Draws a lost disk, in one schedule of four.
    fn draw_lost_disk(chance: &mut Random, nodes: Nodes) -> Option<Self> {
        let occurs = within(chance, 0, 3) == 0;
        occurs.then(|| {
            let at = millis(within(chance, 0, FAULTS_LAST.as_millis() as u64));
            let lasts = millis(within(chance, 1, LASTS_MAX.as_millis() as u64));
            let dc = within(chance, 0, nodes.data_centers - 1) as u16;
            let server = Some(within(chance, 0, nodes.servers - 1) as u16);
            Self { server, ..Self::of(FaultKind::LostDisk, at, lasts, dc) }
        })
    }

    /// Draws a crash of the coordinator, in one schedule of three, and at a write in half of these.
    fn draw_coordinator_crash(chance: &mut Random) -> Option<Self> {
        let occurs = within(chance, 0, 2) == 0;
        let moments = [Moment::Before, Moment::After];
        occurs.then(|| {
            let at = millis(within(chance, 0, FAULTS_LAST.as_millis() as u64));
            let lasts = millis(within(chance, 1, LASTS_MAX.as_millis() as u64));
            let write = moments.get(within(chance, 0, 3) as usize).copied();
            Self { write, ..Self::of(FaultKind::CoordinatorCrash, at, lasts, 0) }
        })
    }

    /// A fault with default settings.
    fn of(kind: FaultKind, at: DurationSetting, lasts: DurationSetting, dc: u16) -> Self {
        Self {
            kind,
            at,
            lasts,
            dc,
            peer: None,
            server: None,
            worker: None,
            write: None,
            blank: false,
            factor: no_slower(),
            step_s: 0.0,
        }
    }

    fn draw(chance: &mut Random, nodes: Nodes) -> Self {
        let kinds = [
            FaultKind::Partition,
            FaultKind::OneWayPartition,
            FaultKind::Reset,
            FaultKind::Straggler,
            FaultKind::SlowLink,
            FaultKind::Crash,
            FaultKind::Crash,
            FaultKind::Crash,
            FaultKind::DiskFull,
            FaultKind::ClockStep,
        ];

        let kind = kinds[within(chance, 0, kinds.len() as u64 - 1) as usize];
        let at = millis(within(chance, 0, FAULTS_LAST.as_millis() as u64));
        let lasts = millis(within(chance, 1, LASTS_MAX.as_millis() as u64));
        let dc = within(chance, 0, nodes.data_centers - 1);
        let peer = (dc + within(chance, 1, nodes.data_centers - 1)) % nodes.data_centers;
        let factor = within(chance, 2, 10) as f64;
        let affects_server = kind == FaultKind::ClockStep || within(chance, 0, 2) > 0;
        let server = within(chance, 0, nodes.servers - 1) as u16;

        let worker = within(chance, 0, nodes.workers - 1) as u16;
        let moments = [Moment::Before, Moment::Torn, Moment::After];
        let write = moments.get(within(chance, 0, 5) as usize).copied();
        let step_s = (unit(chance) * 6_000.0).round() / 1_000.0 - 3.0;
        Self {
            kind,
            at,
            lasts: if kind.is_instantaneous() { DurationSetting::default() } else { lasts },
            dc: dc as u16,
            peer: kind.has_peer().then_some(peer as u16),
            server: (kind.has_node() && affects_server).then_some(server),
            worker: (kind.has_node() && !affects_server).then_some(worker),
            write: write.filter(|_| kind == FaultKind::Crash),
            blank: false,
            factor: if kind.slows() { factor } else { 1.0 },
            step_s: if kind == FaultKind::ClockStep { step_s } else { 0.0 },
        }
    }

    /// Whether it lasts longer than most drawn faults.
    pub(super) fn is_long(&self) -> bool {
        self.lasts.0 > LASTS_MAX
    }

    /// Whether nodes need logs to survive it.
    pub(crate) fn needs_logs(&self) -> bool {
        match self.kind {
            FaultKind::Crash => !self.blank,
            FaultKind::LostDisk | FaultKind::DiskFull | FaultKind::Leave => true,
            _ => false,
        }
    }

    /// The first invalid key, its value, and the expected value.
    pub(crate) fn mistake(&self, nodes: Nodes) -> Option<(&'static str, String, String)> {
        let below = |count: u64, what: &str| format!("{what} from 0 to {}", count - 1);
        let dcs = below(nodes.data_centers, "a data center");
        if u64::from(self.dc) >= nodes.data_centers {
            return Some(("dc", self.dc.to_string(), dcs));
        }

        if self.kind == FaultKind::CoordinatorCrash && self.dc != 0 {
            return Some(("dc", self.dc.to_string(), "0, for the coordinator".into()));
        }
        match self.peer {
            Some(peer) if !self.kind.has_peer() => {
                let no_peer = format!("no peer for a {}", self.kind.name());
                return Some(("peer", peer.to_string(), no_peer));
            }
            None if self.kind.has_peer() => return Some(("peer", "nothing".into(), dcs)),
            Some(peer) if peer == self.dc || u64::from(peer) >= nodes.data_centers => {
                return Some(("peer", peer.to_string(), format!("{dcs}, other than `dc`")));
            }
            _ => {}
        }

        if let Some(mistake) = self.mistake_of_nodes(nodes).or_else(|| blank::mistake(self)) {
            return Some(mistake);
        }
        for (key, time) in [("at", self.at), ("lasts", self.lasts)] {
            if time.0 > FAULT_TIME_MAX {
                let most = DurationSetting(FAULT_TIME_MAX);
                return Some((key, time.to_string(), format!("at most {most}")));
            }
        }

        if self.kind.is_instantaneous() && self.lasts != DurationSetting::default() {
            let no_duration = format!("no duration for a {}", self.kind.name());
            return Some(("lasts", self.lasts.to_string(), no_duration));
        }

        let right = if self.kind.slows() { 1.0..=FACTOR_MAX } else { 1.0..=1.0 };
        if !right.contains(&self.factor) {
            let expected = format!("a factor from {} to {}", right.start(), right.end());
            return Some(("factor", self.factor.to_string(), expected));
        }

        let most = if self.kind == FaultKind::ClockStep { STEP_S_MAX } else { 0.0 };
        (self.step_s.is_nan() || self.step_s.abs() > most)
            .then(|| ("step_s", self.step_s.to_string(), format!("seconds from -{most} to {most}")))
    }

    fn mistake_of_nodes(&self, nodes: Nodes) -> Option<(&'static str, String, String)> {
        let named =
            [("server", self.server, nodes.servers), ("worker", self.worker, nodes.workers)];
        for (key, node, count) in named {
            let Some(node) = node else { continue };
            let takes = self.kind.has_node()
                && !(key == "worker"
                    && (matches!(self.kind, FaultKind::ClockStep | FaultKind::LostDisk)
                        || self.server.is_some()))
                && !(key == "server" && self.kind == FaultKind::DivergedUpdate);
            if !takes {
                let expected = format!("no {key} for this {}", self.kind.name());
                return Some((key, node.to_string(), expected));
            }
            if u64::from(node) >= count {
                return Some((key, node.to_string(), format!("a {key} from 0 to {}", count - 1)));
            }
        }

        let names_none = self.server.is_none() && self.worker.is_none();
        let needs_node =
            matches!(self.kind, FaultKind::LostDisk | FaultKind::DiskFull | FaultKind::ClockStep);
        if names_none && needs_node {
            return Some(("server", "nothing".into(), "the affected node".into()));
        }
        if names_none && self.kind == FaultKind::DivergedUpdate {
            return Some(("worker", "nothing".into(), "the worker of the update".into()));
        }
        let writes = match self.kind {
            FaultKind::Crash => !names_none,
            kind => kind == FaultKind::CoordinatorCrash,
        };

        self.write.filter(|_| !writes).map(|moment| {
            let expected = "no write, except for the crash of a single node".into();
            ("write", format!("{moment:?}").to_lowercase(), expected)
        })
    }
}

impl FaultKind {
    /// The name in scenario files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::OneWayPartition => "one-way-partition",
            Self::SilentLink => "silent-link",
            Self::Reset => "reset",
            Self::Straggler => "straggler",
            Self::SlowLink => "slow-link",
            Self::Crash => "crash",
            Self::LostDisk => "lost-disk",
            Self::LateJoin => "late-join",
            Self::Leave => "leave",
            Self::DiskFull => "disk-full",
            Self::ClockStep => "clock-step",
            Self::CoordinatorCrash => "coordinator-crash",
            Self::DivergedUpdate => "diverged-update",
        }
    }

    /// Whether it has a factor.
    fn slows(self) -> bool {
        matches!(self, Self::Straggler | Self::SlowLink)
    }

    /// Whether it affects a link.
    fn has_peer(self) -> bool {
        matches!(
            self,
            Self::Partition
                | Self::OneWayPartition
                | Self::SilentLink
                | Self::Reset
                | Self::SlowLink
        )
    }

    /// Whether it may name a node.
    fn has_node(self) -> bool {
        matches!(
            self,
            Self::Crash | Self::LostDisk | Self::DiskFull | Self::ClockStep | Self::DivergedUpdate
        )
    }

    fn is_instantaneous(self) -> bool {
        matches!(self, Self::Reset | Self::ClockStep | Self::LateJoin | Self::DivergedUpdate)
    }
}

fn millis(millis: u64) -> DurationSetting {
    DurationSetting(Duration::from_millis(millis))
}

fn no_slower() -> f64 {
    1.0
}

fn is_no_slower(factor: &f64) -> bool {
    *factor == 1.0
}

fn is_no_step(step_s: &f64) -> bool {
    *step_s == 0.0
}

/// The time within which drawn faults begin, and the shortest time during which packet faults occur.
pub(crate) const FAULTS_LAST: Duration = Duration::from_millis(1_200);
const LASTS_MAX: Duration = Duration::from_millis(1_000);

/// The largest beginning and duration of a fault in a file: half an hour.
const FAULT_TIME_MAX: Duration = Duration::from_secs(1_800);
const FACTOR_MAX: f64 = 100.0;
const STEP_S_MAX: f64 = 60.0;
