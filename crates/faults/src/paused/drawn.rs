//! The parameters of one run, all drawn from its seed.

use std::time::Duration;

use crate::scenario::draws::{unit, within};
use crate::scenario::fault::Moment;
use crate::{FaultKind, Scenario};
use gaia_config::{DriverKind, LogConfig, LogSync, LostWorkers, OnGiveUp, Plan};
use gaia_core::topology::Deployment;
use gaia_core::types::{ByteSize, DcId, DurationSetting, NodeId, Random, Seed, ServerId, WorkerId};
use gaia_driver::cluster::{server_ids, worker_ids};
use gaia_driver::emulated::Disorder;

#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) plan: Plan,
    /// The number of the model's rows, their width, and whether workers read all of them.
    pub(super) model: (usize, usize, bool),
    /// The nodes of each process. The last one has the coordinator alone.
    pub(super) processes: Vec<Vec<NodeId>>,
    pub(super) disorder: Disorder,
    pub(super) faults: Vec<ClusterFault>,
    /// The data center that joins late, and when.
    pub(super) joins: Option<(DcId, Duration)>,
}

/// A fault of the cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterFault {
    pub(super) at: Duration,
    /// How long it lasts. A kill lasts until the process is restarted.
    pub(super) lasts: Duration,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// All packets from one data center to another are lost, and those back unless it is one-way.
    Cut { from: DcId, to: DcId, one_way: bool },
    /// All streams between two data centers fail.
    Reset { one: DcId, other: DcId },
    /// The bandwidth of a link is divided by `times`.
    Slow { from: DcId, to: DcId, times: f64 },
    /// A process cannot reach the coordinator, but all others.
    Silence { process: usize },
    /// A process is killed: at once, or at a step of one of its next writes.
    Kill { process: usize, write: Option<(u64, Moment)>, moves: bool },
    /// A process is killed, and restarts with an empty disk, on a machine whose calendar is `behind`.
    LoseDisk { process: usize, behind: Duration },
    /// A second process of the same nodes starts on another machine, without state, while the first one runs.
    Duplicate { process: usize },
    /// All processes of a data center are killed, and none restarts.
    Leave { dc: DcId },
}

impl Drawn {
    pub(super) fn new(seed: u64) -> Self {
        let scenario = Scenario::draw(seed);
        let root = Seed(seed).child("paused");
        let mut chance = root.random();
        let mut plan = scenario.plan();
        let late = plan.late();
        // The sum of all updates is known where they are applied as they are.
        plan.outliers = None;
        plan.driver = DriverKind::Real;

        for link in &mut plan.topology.links {
            // QUIC handshakes are larger than the frames for which the bandwidths were drawn.
            link.bandwidth = link.bandwidth.scaled(BANDWIDTH_TIMES);
            link.loss = one_of(&mut chance, [0.0, 0.0, 0.005, 0.03]);
        }

        let dedicated = plan.topology.links.iter().map(|link| (link.from, link.to));
        let dedicated = dedicated.filter(|_| within(&mut chance, 0, 3) == 0).collect();
        let lan_tls = within(&mut chance, 0, 3) == 0;
        let detours = within(&mut root.child("detours").random(), 0, 1) == 0;
        plan.deployment = Deployment { lan_tls, detours, dedicated, ..Deployment::default() };
        let sync = if within(&mut chance, 0, 1) == 0 { LogSync::Always } else { LogSync::Never };
        let mut logs = root.child("bulky").random();
        let bulky = ByteSize(one_of(&mut logs, [0, 100, 1_000_000]));
        plan.log = LogConfig { sync, bulky };
        let together = within(&mut chance, 0, 2) == 0;
        let processes = processes(&plan, together);

        let (width, reads_all) = scenario.model();
        let mut drawn = Self {
            model: (scenario.rows, width, reads_all),
            processes,
            disorder: Disorder {
                repeated: one_of(&mut chance, [0.0, 0.01, 0.1]),
                late: one_of(&mut chance, [0.0, 0.01, 0.1]),
                late_by: Duration::from_millis(within(&mut chance, 1, 40)),
            },
            faults: Vec::new(),
            joins: scenario.faults.iter().find_map(|fault| {
                let joins = fault.kind == FaultKind::LateJoin && late.contains(&DcId(fault.dc));
                joins.then_some((DcId(fault.dc), fault.at.0))
            }),
            plan,
        };

        let mut chance = root.child("troubles").random();
        let faults = (0..within(&mut chance, 0, 6)).map(|_| drawn.draw_fault(&mut chance));
        drawn.faults = faults.collect();
        let leave = scenario.faults.iter().find(|fault| fault.kind == FaultKind::Leave);

        if let Some(leave) = leave.filter(|_| drawn.plan.needs_all().is_none()) {
            let failures = &mut drawn.plan.failures;
            (failures.on_give_up, failures.give_up_after) = (OnGiveUp::Leave, GIVE_UP_AFTER);
            let what = What::Leave { dc: DcId(leave.dc) };
            drawn.faults.push(ClusterFault { at: leave.at.0, lasts: Duration::ZERO, what });
        }

        // In other runs the files would take longer than the run.
        let every = within(&mut root.child("checkpoints").random(), 0, 8);
        drawn.plan.checkpoint.every = Some(every).filter(|every| (1..4).contains(every));
        drawn.lose_workers(&mut root.child("lost workers").random());
        drawn.lose_disk(&mut root.child("lost disks").random());
        drawn.faults.sort_by_key(|fault| fault.at);
        drawn
    }

    /// In some runs enables that workers take over for others, and kills one more worker of each data center: for some
    /// seconds or, if it has a process of its own, permanently.
    fn lose_workers(&mut self, chance: &mut Random) {
        let topology = &self.plan.topology;
        if within(chance, 0, 1) == 0 || topology.dc(DcId(0)).workers < 2 {
            return;
        }
        let after = Duration::from_millis(within(chance, 50, 2_000));
        let failures = &mut self.plan.failures;
        (failures.lost_workers, failures.take_over_after) =
            (LostWorkers::TakeOver, Some(DurationSetting(after)));

        for dc in topology.dc_ids() {
            let lost = NodeId::Worker(WorkerId { dc, index: within(chance, 0, 1) as u16 });
            let process = self.processes.iter().position(|nodes| nodes.contains(&lost));
            let process = process.expect("every worker has a process");
            let alone = self.processes[process].len() == 1;
            let kill = What::Kill { process, write: None, moves: false };
            let away = after.mul_f64(0.5 + 4.0 * unit(chance));
            let (what, lasts) = match within(chance, 0, 3) {
                0 => continue,
                1 if alone => (kill, FOR_GOOD),
                1 | 2 => (kill, away),
                _ => (What::Silence { process }, away),
            };
            let at = FAULTS_LAST.mul_f64(0.7 * unit(chance));
            self.faults.push(ClusterFault { at, lasts, what });
        }
    }

    /// In half of the runs whose model supports rebuilds, one server loses its disk, or is started a second time without
    /// it. If two servers of a shard lost their disks at the same time, updates would be lost.
    fn lose_disk(&mut self, chance: &mut Random) {
        if within(chance, 0, 1) == 0 || self.plan.needs_all().is_some() {
            return;
        }
        let servers: Vec<ServerId> = server_ids(&self.plan.topology).collect();
        let lost = NodeId::Server(servers[within(chance, 0, servers.len() as u64 - 1) as usize]);
        let process = self.processes.iter().position(|nodes| nodes.contains(&lost));
        let process = process.expect("every server has a process");
        let at = FAULTS_LAST.mul_f64(0.5 * unit(chance));

        let lasts = Duration::from_millis(within(chance, 50, 1_000));
        // In half of the runs its workers are ahead of the copy that it takes.
        if within(chance, 0, 1) == 0 {
            let topology = &self.plan.topology;
            for dc in topology.dc_ids().filter(|dc| Some(*dc) != lost.dc()) {
                self.plan.compute.slowdown.set(topology, dc, 3.0);
            }
        }

        // A checkpoint may be due when the copy is received.
        self.plan.checkpoint.every = Some(within(chance, 0, 3)).filter(|every| *every > 0);
        let behind = Duration::from_secs(within(chance, 0, 2) * within(chance, 0, BEHIND_S_MAX));
        let what = match within(chance, 0, 2) {
            0 => What::Duplicate { process },
            _ => What::LoseDisk { process, behind },
        };
        self.faults.push(ClusterFault { at, lasts, what });
    }

    fn draw_fault(&self, chance: &mut Random) -> ClusterFault {
        let count = self.plan.topology.data_centers.len() as u64;
        let from = within(chance, 0, count - 1);
        let to = (from + within(chance, 1, count - 1)) % count;
        let (from, to) = (DcId(from as u16), DcId(to as u16));
        let what = match within(chance, 0, 7) {
            0 | 1 => What::Cut { from, to, one_way: within(chance, 0, 2) == 0 },
            2 => What::Reset { one: from, other: to },
            3 => What::Slow { from, to, times: 2.0 + 6.0 * unit(chance) },
            _ => {
                let process = within(chance, 0, self.processes.len() as u64 - 1) as usize;
                let moments = [Moment::Before, Moment::Torn, Moment::After];
                let write = (within(chance, 1, 40), one_of(chance, moments));
                let write = (within(chance, 0, 1) == 0).then_some(write);
                What::Kill { process, write, moves: within(chance, 0, 1) == 0 }
            }
        };

        // Connections survive faults of less than five seconds, and are replaced after longer ones.
        let lasts = Duration::from_secs_f64(0.05 * 200_f64.powf(unit(chance)));
        ClusterFault { at: FAULTS_LAST.mul_f64(unit(chance)), lasts, what }
    }
}

/// Servers and workers by process: one in each, or pairs.
fn processes(plan: &Plan, together: bool) -> Vec<Vec<NodeId>> {
    let topology = &plan.topology;
    let mut processes: Vec<Vec<NodeId>> =
        server_ids(topology).map(|id| vec![NodeId::Server(id)]).collect();
    for worker in worker_ids(topology) {
        let beside = |nodes: &&mut Vec<NodeId>| matches!(nodes[0], NodeId::Server(id) if id.dc == worker.dc && id.shard.0 == worker.index);
        match processes.iter_mut().find(beside).filter(|_| together) {
            Some(nodes) => nodes.push(NodeId::Worker(worker)),
            None => processes.push(vec![NodeId::Worker(worker)]),
        }
    }
    processes.push(vec![NodeId::Coordinator]);
    processes
}

fn one_of<T: Copy, const N: usize>(chance: &mut Random, choices: [T; N]) -> T {
    choices[within(chance, 0, N as u64 - 1) as usize]
}

const BANDWIDTH_TIMES: f64 = 8.0;

const BEHIND_S_MAX: u64 = 600;

/// Longer than a crash lasts. After several consecutive crashes a data center may be given up although it would
/// restart.
const GIVE_UP_AFTER: DurationSetting = DurationSetting(Duration::from_secs(12));
/// The duration of a kill after which the process does not restart.
pub(super) const FOR_GOOD: Duration = Duration::MAX;

/// The time within which faults begin.
const FAULTS_LAST: Duration = Duration::from_secs(4);
