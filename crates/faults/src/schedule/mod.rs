//! The event loop of one schedule: the cluster, its network, disks, faults and checkers.

mod coordinator;
mod diverged;
mod faults;
mod members;
mod servers;
mod wan;
mod workers;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use self::coordinator::{CoordinatorProcess, cluster_coordinator};
use self::diverged::Diverging;
use crate::bugs::Bug;
use crate::checkers::{self, Checker, Seen, View, quiescence};
use crate::cluster::application::Counting;
use crate::cluster::ends::{Ends, Pair, ends_of, patience};
use crate::cluster::fault_injector::FaultInjector;
use crate::cluster::network::Network;
use crate::cluster::nodes::{Nodes, Task};
use crate::cluster::undone::Undone;
use crate::scenario::draws::within;
use crate::{Counts, FaultKind, Scenario};
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::coordinator::{ClusterCoordinator, NodeOrder, Recipients};
use gaia_core::topology::Overlay;
use gaia_core::types::{DcId, Instant, NodeId, Random, ServerId};
use gaia_driver::cluster::Blueprint;
use gaia_driver::cost::CostModel;
use gaia_driver::simulated::events::Events;
use gaia_driver::simulated::lan::Lan;

/// The result of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The number of faults.
    pub counts: Counts,
    /// The first invariant that was broken, if any.
    pub broken: Option<Violation>,
    /// The virtual time until no message remained, or until an invariant was broken.
    pub lasted: Instant,
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The name of the checker. Or `peer` if a node rejected a message of a correct node, `liveness` if the run did not
    /// end, `panic` if a node panicked.
    pub checker: &'static str,
    /// A description of the violation.
    pub what: String,
    /// The virtual time of the violation, in seconds.
    pub at_s: f64,
}

/// Runs a schedule, with a planted bug or without one. Equal arguments give equal results.
pub fn run(scenario: &Scenario, bug: Option<Bug>) -> Run {
    let plan = scenario.plan();
    let fault_injector = FaultInjector::new(bug, &plan.remote);
    let (width, reads_all) = scenario.model();
    let application: Arc<dyn Application> =
        Arc::new(Counting::new(scenario.rows, width, reads_all));
    let run_by_servers = Plan { remote: fault_injector.remote(&plan.remote), ..plan.clone() };
    let blueprint = Blueprint::new(&run_by_servers, &application);
    let odd = fault_injector.exchange.odd_remote().map(|remote| Plan { remote, ..plan.clone() });
    let odd = odd.as_ref().map(|plan| Blueprint::new(plan, &application));
    let mut schedule = Schedule::new(scenario, &plan, &blueprint, odd.as_ref(), fault_injector);

    let ran = catch_unwind(AssertUnwindSafe(|| schedule.run()));
    let broken = match ran {
        Ok(done) => done.err().map(|broken| *broken),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Some(schedule.violation("panic", text.unwrap_or("without a message").to_owned()))
        }
    };

    let mut counts = schedule.counts;
    counts.messages = schedule.network.messages;
    counts.packet = schedule.network.counts;
    Run { counts, broken, lasted: schedule.now }
}

/// A scheduled event.
enum Event {
    /// A task of a node, unless it has crashed before.
    Node {
        node: NodeId,
        incarnation: u64,
        task: Task,
    },
    /// The write of a node is synced, unless it has crashed before.
    Synced {
        node: NodeId,
        incarnation: u64,
    },
    Restart {
        node: NodeId,
    },
    /// The coordinator restarts.
    RestartCoordinator,
    Checkpoint {
        node: NodeId,
    },
    Arrives {
        at: ServerId,
        from: DcId,
        epoch: u64,
        message: Bytes,
    },
    /// A message of a failed connection arrives on the next one.
    Strays {
        at: ServerId,
        from: DcId,
        message: Bytes,
    },
    LinkReady {
        from: DcId,
        to: DcId,
    },
    /// The control lane of a link has room for more messages of a server.
    ControlReady {
        server: ServerId,
        to: DcId,
    },
    Connect {
        pair: Pair,
    },
    Watch {
        pair: Pair,
    },
    /// A structural fault begins or ends.
    Fault {
        number: usize,
        begins: bool,
    },
    /// A data center joins, as soon as it can.
    Join {
        dc: DcId,
    },
    /// The coordinator gives a data center up, as soon as the coordinator runs.
    GiveUp {
        dc: DcId,
    },
    /// The safety phase ends.
    FaultsEnd,
    /// The time by which the run must be over and no message remain.
    Deadline,
}

type Done = Result<(), Box<Violation>>;

struct Schedule<'p> {
    now: Instant,
    scenario: &'p Scenario,
    plan: &'p Plan,
    blueprint: &'p Blueprint<'p>,
    overlay: Overlay,
    events: Events<Event>,
    nodes: Nodes<'p>,
    coordinator: ClusterCoordinator,
    coordinator_process: CoordinatorProcess,
    /// Orders that were not given to nodes yet.
    orders: Vec<(Recipients, NodeOrder)>,
    /// Whether a change of the coordinator's state that causes no order is not on its disk yet.
    unwritten: bool,
    lan: Lan,
    cost: CostModel,
    network: Network,
    ends: Ends,
    fault_injector: FaultInjector,
    checkers: Vec<Box<dyn Checker>>,
    counts: Counts,
    chance: Random,
    /// The longest time that a node takes to sync a write.
    sync_lasts: Duration,
    logs: bool,
    /// Ends for which an acknowledgement is scheduled.
    acknowledging: BTreeSet<(ServerId, DcId)>,
    /// Servers with control messages for a link that has no room for them.
    awaiting_control: BTreeSet<(ServerId, DcId)>,
    /// Ends whose next frame is the first after a reconnect.
    reconnected: BTreeSet<(ServerId, DcId)>,
    under_way: usize,
    diverging: Diverging,
    /// Data centers that have crashed permanently and are not given up.
    leaving: BTreeSet<DcId>,
    /// Whether the safety phase is over.
    faults_ended: bool,
    finished: bool,
}

impl<'p> Schedule<'p> {
    fn new(
        scenario: &'p Scenario,
        plan: &'p Plan,
        blueprint: &'p Blueprint<'p>,
        odd: Option<&'p Blueprint<'p>>,
        fault_injector: FaultInjector,
    ) -> Self {
        let topology = &plan.topology;
        let shards = scenario.servers;
        let mut chance = plan.seed.child("disk times").random();
        let micros = [100, 1_000, 20_000][within(&mut chance, 0, 2) as usize];
        let logs = scenario.keeps_logs();

        Self {
            now: Instant::ZERO,
            events: Events::new(),
            nodes: Nodes::new(plan, blueprint, odd, scenario.logging(), &fault_injector),
            coordinator: cluster_coordinator(blueprint),
            coordinator_process: CoordinatorProcess::new(),
            orders: Vec::new(),
            unwritten: false,
            lan: Lan::new(topology),
            cost: CostModel::new(&plan.compute, topology.workers_per_dc().iter().sum(), plan.seed),
            network: Network::new(topology, shards, scenario.packets, plan.seed),
            ends: Ends::new(topology),
            fault_injector,
            checkers: checkers::all(),
            counts: Counts::default(),
            chance,
            sync_lasts: Duration::from_micros(micros),
            logs,
            acknowledging: BTreeSet::new(),
            awaiting_control: BTreeSet::new(),
            reconnected: BTreeSet::new(),
            under_way: 0,
            diverging: Diverging::default(),
            leaving: BTreeSet::new(),
            faults_ended: false,
            finished: false,
            overlay: plan.overlay(),
            scenario,
            plan,
            blueprint,
        }
    }

    fn run(&mut self) -> Done {
        for (number, fault) in self.scenario.faults.iter().enumerate() {
            let at = Instant::ZERO + fault.at.0;
            self.events.push(at, Event::Fault { number, begins: true });
            self.events.push(at + fault.lasts.0, Event::Fault { number, begins: false });
        }

        let faults_end_at = Instant::ZERO + self.scenario.faults_end_at();
        self.events.push(faults_end_at, Event::FaultsEnd);
        self.events.push(faults_end_at + self.liveness_lasts(), Event::Deadline);
        for pair in self.ends.pairs() {
            self.events.push(Instant::ZERO, Event::Connect { pair });
            let patience = patience(&self.plan.topology, pair);
            self.events.push(Instant::ZERO + patience, Event::Watch { pair });
        }

        for node in self.nodes.ids() {
            if let NodeId::Server(id) = node
                && self.coordinator.takes_part(node)
            {
                self.register(id)?;
            }
            if self.logs {
                self.schedule_checkpoint(node);
            }
            self.work(node)?;
        }

        self.coordinator.run.handle_start();
        self.settle_coordinator()?;
        while let Some((at, event)) = self.events.pop() {
            self.now = at;
            self.handle(event)?;
            self.settle_coordinator()?;
            if self.finished && self.is_quiet() {
                let inactive = self.coordinator.run.inactive();
                let left = quiescence::nothing_left(self.now, &mut self.nodes, inactive);
                left.map_err(|what| self.broken(quiescence::NAME, what))?;
                self.see(Seen::End)?;
                return self.compare_all();
            }
        }

        Err(self.broken("liveness", "no event is left, and the run has not ended".into()))
    }

    fn handle(&mut self, event: Event) -> Done {
        match event {
            Event::Node { node, incarnation, task } => {
                if self.nodes.host(node).incarnation == incarnation {
                    self.hand(node, task)?;
                }
            }
            Event::Synced { node, incarnation } => self.on_synced(node, incarnation)?,
            Event::Restart { node } => self.restart(node)?,
            Event::RestartCoordinator => self.restart_coordinator()?,
            Event::Checkpoint { node } => {
                self.schedule_checkpoint(node);
                self.hand(node, Task::Checkpoint)?;
            }
            Event::Arrives { at, from, epoch, message } => {
                self.under_way -= 1;
                if epoch == self.ends.epoch(at, from) {
                    self.ends.on_received(at, from);
                    self.hand(NodeId::Server(at), Task::Arrives { from, epoch, message })?;
                } else if self.network.is_stale() && !self.has_been_lost(at, from) {
                    self.events.push(self.now, Event::Strays { at, from, message });
                }
            }
            Event::Strays { at, from, message }
                if !self.faults_ended && !self.has_been_lost(at, from) =>
            {
                if self.ends.is_up(at, from) {
                    let epoch = self.ends.epoch(at, from);
                    self.hand(NodeId::Server(at), Task::Arrives { from, epoch, message })?;
                } else {
                    let later = self.now + STRAYING;
                    self.events.push(later, Event::Strays { at, from, message });
                }
            }
            Event::LinkReady { from, to } => self.on_link_ready(from, to)?,
            Event::ControlReady { server, to } => self.on_control_ready(server, to)?,
            Event::Connect { pair } => self.connect(pair)?,
            Event::Watch { pair } => {
                let sessions = ends_of(pair)
                    .map(|(server, peer)| self.nodes.servers[&server].machine.session(peer));
                // A transport gives a silent peer more time than its session.
                let (a, b, _) = pair;
                let is_silent = self.network.silent_until(a, b) > self.now;
                // It asks an idle peer whether it is there.
                let patience = patience(&self.plan.topology, pair);
                let dead_since = self.network.dead_since(a, b);
                let is_dead = dead_since.is_some_and(|since| self.now >= since + patience);
                let is_stalled = self.ends.is_stalled(pair, sessions);
                if (is_stalled || is_dead) && !is_silent {
                    self.reset(pair);
                }
                self.events.push(self.now + patience, Event::Watch { pair });
            }
            Event::Fault { number, begins } if !self.faults_ended => self.fault(number, begins)?,
            Event::Join { dc } => self.join_late(dc)?,
            Event::GiveUp { dc } => self.give_up(dc)?,
            Event::FaultsEnd if !self.faults_ended => self.end_faults()?,
            Event::Fault { .. } | Event::FaultsEnd | Event::Strays { .. } => {}
            Event::Deadline => return Err(self.late()),
        }
        Ok(())
    }

    /// Passes a task to a node, if it runs.
    fn hand(&mut self, node: NodeId, task: Task) -> Done {
        let host = self.nodes.host(node);
        if !host.up {
            return Ok(());
        }
        host.inbox.push_back(task);
        self.work(node)
    }

    /// Lets a node handle its inputs, unless a write is in progress. Then it writes, or releases its outputs.
    fn work(&mut self, node: NodeId) -> Done {
        if self.nodes.host(node).writing || !self.nodes.host(node).up {
            return Ok(());
        }
        let mut must_write = false;
        while let Some(task) = self.nodes.host(node).inbox.front() {
            if task.needs_settled() {
                let waits = match node {
                    NodeId::Server(id) if task.is_join() => self.nodes.delays_answers(id),
                    NodeId::Server(_) => !self.nodes.is_settled(node),
                    _ => self.nodes.must_write(node),
                };
                if waits {
                    must_write = true;
                    break;
                }
                self.let_out(node)?;
            }
            let Some(task) = self.nodes.host(node).inbox.pop_front() else { break };
            match (node, task) {
                (node, Task::Checkpoint) => self.write_checkpoint(node)?,
                (node, Task::Write) => self.nodes.host(node).write_due = false,
                (NodeId::Server(id), task) => self.handle_server_task(id, task)?,
                (NodeId::Worker(id), task) => self.handle_worker_task(id, task)?,
                (NodeId::Coordinator, _) => {}
            }
        }

        if let NodeId::Server(id) = node {
            self.cut(id)?;
        }
        must_write |= self.nodes.must_write(node);
        if self.nodes.is_deferred() || !must_write {
            self.let_out(node)?;
        }
        match &self.nodes.host(node).replacing {
            None if must_write => self.write(node),
            _ => {
                self.write_later(node);
                Ok(())
            }
        }
    }

    /// Schedules a write of the entries of a server that nothing for another data center waits for.
    fn write_later(&mut self, node: NodeId) {
        let is_server = matches!(node, NodeId::Server(_));
        if !is_server || self.nodes.is_settled(node) || self.nodes.host(node).write_due {
            return;
        }
        self.nodes.host(node).write_due = true;
        let millis = within(&mut self.chance, 1, WRITE_DELAY_MILLIS_MAX);
        self.schedule_task(self.now + Duration::from_millis(millis), node, Task::Write);
    }

    fn let_out(&mut self, node: NodeId) -> Done {
        match node {
            NodeId::Server(id) => self.let_out_server(id),
            NodeId::Worker(id) => self.let_out_worker(id),
            NodeId::Coordinator => Ok(()),
        }
    }

    /// Sends a message to a node of the same data center.
    fn send_nearby(&mut self, from: NodeId, to: NodeId, bytes: u64, task: Task) {
        let at = self.lan.send(self.now, from, to, bytes);
        self.schedule_task(at, to, task);
    }

    /// Schedules a task of a node, which the node does unless it crashes before.
    fn schedule_task(&mut self, at: Instant, node: NodeId, task: Task) {
        let incarnation = self.nodes.host(node).incarnation;
        self.events.push(at, Event::Node { node, incarnation, task });
    }

    /// Whether no message is in flight, all nodes run, and no session holds a frame.
    fn is_quiet(&self) -> bool {
        let inactive = self.coordinator.run.inactive();
        let mut hosts = self.nodes.hosts().filter(|(node, _)| self.coordinator.takes_part(*node));
        let mut servers = self.nodes.servers.iter();
        self.under_way == 0
            && servers.all(|(id, node)| {
                node.machine.is_settled() || !self.coordinator.takes_part(NodeId::Server(*id))
            })
            && hosts.all(|(_, host)| host.up && !host.writing && host.inbox.is_empty())
            && self.ends.are_up(inactive)
            && quiescence::held(&self.nodes, &self.plan.topology, inactive).is_none()
    }

    /// Whether one of two mirrors has lost its state, and with it the messages on earlier connections.
    fn has_been_lost(&self, at: ServerId, from: DcId) -> bool {
        let ends = [at, ServerId { dc: from, shard: at.shard }];
        let inactive = self.coordinator.run.inactive();
        ends.iter().any(|end| self.nodes.servers[end].host.is_blank || inactive.contains(&end.dc))
    }

    /// The factor by which a data center computes more slowly.
    fn slowdown(&self, dc: DcId) -> f64 {
        let in_force = self.scenario.faults.iter().filter(|fault| {
            let begins = Instant::ZERO + fault.at.0;
            fault.kind == FaultKind::Straggler
                && fault.dc == dc.0
                && !self.faults_ended
                && (begins..begins + fault.lasts.0).contains(&self.now)
        });
        in_force.map(|fault| fault.factor).product()
    }

    /// Passes an event to all checkers.
    fn see(&mut self, seen: Seen<'_>) -> Done {
        let view = View {
            now: self.now,
            nodes: &self.nodes,
            network: &self.network,
            plan: self.plan,
            overlay: &self.overlay,
            inactive: self.coordinator.run.inactive(),
            logs: self.logs,
            is_deferred: self.nodes.is_deferred(),
        };
        for checker in &mut self.checkers {
            if let Err(what) = checker.check(&view, seen) {
                let at_s = self.now.as_secs_f64();
                return Err(Box::new(Violation { checker: checker.name(), what, at_s }));
            }
        }
        Ok(())
    }

    /// Notifies checkers of an event that a crash has undone.
    fn undo(&mut self, undone: &Undone) {
        for checker in &mut self.checkers {
            checker.undo(undone);
        }
    }

    /// How long a run may take to end once faults have ended.
    ///
    /// On a slow link the announcements of data centers without a bound on staleness use most of the bandwidth. A data
    /// center behind such a link takes seconds for each clock. So runs with slower links have more time, and more again
    /// if they have many clocks.
    fn liveness_lasts(&self) -> Duration {
        let links = self.plan.topology.links.iter();
        let slowest =
            links.map(|link| link.bandwidth.bytes_per_second()).fold(f64::INFINITY, f64::min);
        if slowest >= LIVENESS_BYTES_PER_S {
            return LIVENESS_LASTS;
        }
        let clocks = self.plan.stop.clocks.unwrap_or_default() as f64;
        let slower = (LIVENESS_BYTES_PER_S / slowest) * (clocks / LIVENESS_CLOCKS).max(1.0);
        LIVENESS_LASTS.mul_f64(slower)
    }

    /// The violation of a run that has not ended in time.
    fn late(&self) -> Box<Violation> {
        let lasted = self.liveness_lasts();
        let held =
            quiescence::held(&self.nodes, &self.plan.topology, self.coordinator.run.inactive());
        if self.finished {
            let held = held.unwrap_or_else(|| "a connection is down".into());
            return self
                .broken(quiescence::NAME, format!("{lasted:?} after the last fault, {held}"));
        }
        let reads = self.nodes.servers().filter_map(|server| {
            server.waiting().map(|reason| format!("{} waits: {reason}", server.id()))
        });
        let waiting: Vec<String> = reads.chain(held).collect();
        let waiting = waiting.join("; ");
        self.broken(
            "liveness",
            format!("{lasted:?} after the last fault, the run has not ended: {waiting}"),
        )
    }

    fn broken(&self, checker: &'static str, what: String) -> Box<Violation> {
        Box::new(self.violation(checker, what))
    }

    fn violation(&self, checker: &'static str, what: String) -> Violation {
        Violation { checker, what, at_s: self.now.as_secs_f64() }
    }
}

/// The longest time from the last fault to the end of the run, for clusters whose links have at least
/// [`LIVENESS_BYTES_PER_S`]: many times that of the slowest of them.
const LIVENESS_LASTS: Duration = Duration::from_secs(120);

const LIVENESS_BYTES_PER_S: f64 = 12_500.0;

/// The number of clocks above which a run over slower links has time in proportion to them.
const LIVENESS_CLOCKS: f64 = 14.0;

/// The interval at which a stale message tries to arrive on a connection.
const STRAYING: Duration = Duration::from_millis(20);

/// The longest time that entries wait for which nothing for another data center waits.
const WRITE_DELAY_MILLIS_MAX: u64 = 60;
