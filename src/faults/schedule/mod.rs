//! One schedule: the cluster, its network, its faults and the checkers, from the first event to the last.

mod wan;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::application::Counting;
use super::bugs::{Bug, Saboteur};
use super::checkers::{self, Checker, Seen, View, quiescence};
use super::ends::{Ends, Pair, pair_of, patience};
use super::network::Network;
use super::{Counts, FaultKind, Scenario};
use crate::config::Plan;
use crate::coordinator::CoordinatorOutput;
use crate::driver::cluster::Cluster;
use crate::driver::cost::CostModel;
use crate::driver::simulated::events::Events;
use crate::driver::simulated::lan::Lan;
use crate::ml::Application;
use crate::node::{RowsRead, ServerInput, WorkerMessage};
use crate::server::ServerOutput;
use crate::topology::Overlay;
use crate::types::{DcId, Instant, Lane, NodeId, ServerId, WorkerId};
use crate::worker::WorkerOutput;

/// What became of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub counts: Counts,
    /// The promise that was broken first, if any was.
    pub broken: Option<Violation>,
    /// Virtual time until all was quiet, or until then.
    pub lasted: Instant,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The checker, or what stands for one: `peer` where a node refused what an honest one had sent, `liveness` where a
    /// run did not come to its end, `panic`.
    pub checker: &'static str,
    pub what: String,
    /// Virtual time, in seconds.
    pub at_s: f64,
}

/// Runs a schedule, with a planted bug or without.
pub fn run(scenario: &Scenario, bug: Option<Bug>) -> Run {
    let mut schedule = Schedule::new(scenario, bug);
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

/// What is to happen at some time.
enum Event {
    ToServer {
        server: ServerId,
        from: WorkerId,
        message: WorkerMessage,
    },
    ToWorker {
        worker: WorkerId,
        from: ServerId,
        message: RowsRead,
    },
    Computed {
        worker: WorkerId,
    },
    Arrives {
        at: ServerId,
        from: DcId,
        epoch: u64,
        message: Bytes,
    },
    LinkReady {
        from: DcId,
        to: DcId,
    },
    ServerTimeout {
        server: ServerId,
    },
    /// Nothing has gone that way for a while.
    Acknowledge {
        server: ServerId,
        peer: DcId,
    },
    Connect {
        pair: Pair,
    },
    Watch {
        pair: Pair,
    },
    /// A structural fault begins, or ends.
    Fault {
        number: usize,
        begins: bool,
    },
    /// Faults are over.
    Calm,
    /// All must be quiet by now.
    Deadline,
}

type Done = Result<(), Box<Violation>>;

struct Schedule {
    now: Instant,
    scenario: Scenario,
    plan: Plan,
    overlay: Overlay,
    events: Events<Event>,
    cluster: Cluster,
    lan: Lan,
    cost: CostModel,
    network: Network,
    ends: Ends,
    saboteur: Saboteur,
    checkers: Vec<Box<dyn Checker>>,
    counts: Counts,
    /// The next timeout scheduled for each server.
    timeouts: Vec<Option<Instant>>,
    /// Whether an acknowledgement is scheduled.
    acknowledging: BTreeMap<(ServerId, DcId), bool>,
    /// Ends whose next frame is the first after a reconnect.
    reconnected: BTreeMap<(ServerId, DcId), bool>,
    under_way: usize,
    calm: bool,
    finished: bool,
}

impl Schedule {
    fn new(scenario: &Scenario, bug: Option<Bug>) -> Self {
        let plan = scenario.plan();
        let saboteur = Saboteur::new(bug);
        let (width, reads_all) = scenario.model();
        let application: Arc<dyn Application> =
            Arc::new(Counting::new(scenario.rows, width, reads_all));
        let remote = saboteur.remote(&plan.remote);
        let cluster = Cluster::new(&Plan { remote, ..plan.clone() }, &application);
        let topology = &plan.topology;
        Self {
            now: Instant::ZERO,
            events: Events::new(),
            lan: Lan::new(topology),
            cost: CostModel::new(&plan.compute, cluster.workers.len(), plan.seed),
            network: Network::new(topology, cluster.shards, scenario.packets, plan.seed),
            ends: Ends::new(topology),
            saboteur,
            checkers: checkers::all(),
            counts: Counts::default(),
            timeouts: vec![None; cluster.servers.len()],
            acknowledging: BTreeMap::new(),
            reconnected: BTreeMap::new(),
            under_way: 0,
            calm: false,
            finished: false,
            overlay: plan.overlay(),
            scenario: scenario.clone(),
            cluster,
            plan,
        }
    }

    fn run(&mut self) -> Done {
        for (number, fault) in self.scenario.faults.iter().enumerate() {
            let at = Instant::ZERO + fault.at.0;
            self.events.push(at, Event::Fault { number, begins: true });
            self.events.push(at + fault.lasts.0, Event::Fault { number, begins: false });
        }
        let calm_at = Instant::ZERO + self.scenario.calm_at();
        self.events.push(calm_at, Event::Calm);
        self.events.push(calm_at + LIVENESS_LASTS, Event::Deadline);
        for pair in self.ends.pairs() {
            self.events.push(Instant::ZERO, Event::Connect { pair });
            let patience = patience(&self.plan.topology, pair);
            self.events.push(Instant::ZERO + patience, Event::Watch { pair });
        }
        self.cluster.coordinator.handle_start();
        self.settle_coordinator()?;
        while let Some((at, event)) = self.events.pop() {
            self.now = at;
            self.handle(event)?;
            if self.finished && self.under_way == 0 && self.ends.are_quiet() {
                let left = quiescence::nothing_left(self.now, &mut self.cluster);
                left.map_err(|what| self.broken(quiescence::NAME, what))?;
                return self.see(Seen::End);
            }
        }
        Err(self.broken("liveness", "nothing is left to happen".into()))
    }

    fn handle(&mut self, event: Event) -> Done {
        match event {
            Event::ToServer { server, from, message } => {
                self.handle_worker(server, from, message)?;
            }
            Event::ToWorker { worker, from, message } => {
                let index = self.cluster.worker_index(worker);
                self.cluster.workers[index].handle_rows(from.shard, message);
                self.settle_worker(worker)?;
            }
            Event::Computed { worker } => {
                let index = self.cluster.worker_index(worker);
                self.cluster.workers[index].handle_computed();
                self.settle_worker(worker)?;
            }
            Event::Arrives { at, from, epoch, message } => {
                self.under_way -= 1;
                if self.ends.connection(pair_of(at, from)).epoch == epoch {
                    self.arrive(at, from, message)?;
                }
            }
            Event::LinkReady { from, to } => {
                let (shard, bytes, busy) = self.network.wan.on_ready(from, to);
                let server = ServerId { dc: from, shard };
                self.tell_server(server, ServerInput::Drained { to, bytes, busy })?;
                self.transmit(from, to)?;
            }
            Event::ServerTimeout { server } => {
                let index = self.cluster.server_index(server);
                self.timeouts[index] = None;
                let due = self.cluster.servers[index].poll_timeout();
                if due.is_some_and(|(at, _)| at <= self.now) {
                    self.cluster.servers[index].handle_timeout(self.now);
                }
                self.settle_server(server)?;
            }
            Event::Acknowledge { server, peer } => {
                self.acknowledging.remove(&(server, peer));
                if self.ends.is_open(server, peer)
                    && let Some(message) = self.ends.session(server, peer).poll_acknowledgement()
                {
                    self.send(server, peer, Lane::Control, message)?;
                }
            }
            Event::Connect { pair } => self.connect(pair)?,
            Event::Watch { pair } => {
                if self.ends.is_stalled(pair) {
                    self.reset(pair);
                }
                let patience = patience(&self.plan.topology, pair);
                self.events.push(self.now + patience, Event::Watch { pair });
            }
            Event::Fault { number, begins } if !self.calm => self.fault(number, begins),
            Event::Calm if !self.calm => self.become_calm(),
            Event::Fault { .. } | Event::Calm => {}
            Event::Deadline => return Err(self.late()),
        }
        Ok(())
    }

    fn handle_worker(&mut self, server: ServerId, from: WorkerId, message: WorkerMessage) -> Done {
        let index = self.cluster.server_index(server);
        match message {
            WorkerMessage::Read { clock, rows } => {
                self.see(Seen::Asked { server, worker: from, rows: &rows })?;
                let message = WorkerMessage::Read { clock, rows };
                self.cluster.servers[index].handle_worker(self.now, from, message);
            }
            WorkerMessage::Update { clock, deltas, probed } => {
                let message = WorkerMessage::Update { clock, deltas: deltas.clone(), probed };
                self.cluster.servers[index].handle_worker(self.now, from, message);
                self.see(Seen::Updated { server, deltas: &deltas })?;
            }
        }
        self.settle_server(server)
    }

    fn tell_server(&mut self, server: ServerId, input: ServerInput) -> Done {
        let index = self.cluster.server_index(server);
        let taken = self.cluster.servers[index].handle_input(self.now, input);
        taken.map_err(|error| self.broken("peer", format!("{server}: {error}")))?;
        self.settle_server(server)
    }

    /// Carries out whatever a server wants done.
    fn settle_server(&mut self, server: ServerId) -> Done {
        let index = self.cluster.server_index(server);
        while let Some(output) = self.cluster.servers[index].poll_output() {
            match output {
                ServerOutput::ToWorker { worker, message } => {
                    self.see(Seen::Answered { server, worker, message: &message })?;
                    let (from, to) = (NodeId::Server(server), NodeId::Worker(worker));
                    let at = self.lan.send(self.now, from, to, message.lan_bytes());
                    self.events.push(at, Event::ToWorker { worker, from: server, message });
                }
                ServerOutput::ClockFinished { clock } => {
                    self.cluster.coordinator.handle_clock_finished(server, clock);
                }
                ServerOutput::CopyReady { clock } => {
                    self.cluster.coordinator.handle_copy_ready(server, clock);
                    self.settle_coordinator()?;
                }
                ServerOutput::Drained => {
                    self.cluster.coordinator.handle_drained(server);
                    self.settle_coordinator()?;
                }
            }
        }
        for to in self.plan.topology.dc_ids().filter(|to| *to != server.dc) {
            self.transmit(server.dc, to)?;
        }
        let Some((at, _)) = self.cluster.servers[index].poll_timeout() else { return Ok(()) };
        let at = at.max(self.now);
        if self.timeouts[index].is_none_or(|scheduled| at < scheduled) {
            self.timeouts[index] = Some(at);
            self.events.push(at, Event::ServerTimeout { server });
        }
        Ok(())
    }

    fn settle_worker(&mut self, worker: WorkerId) -> Done {
        let index = self.cluster.worker_index(worker);
        while let Some(output) = self.cluster.workers[index].poll_output() {
            match output {
                WorkerOutput::ToServer { shard, message } => {
                    let server = ServerId { dc: worker.dc, shard };
                    let layout = self.cluster.servers[self.cluster.server_index(server)].layout();
                    let bytes = message.lan_bytes(layout);
                    let (from, to) = (NodeId::Worker(worker), NodeId::Server(server));
                    let at = self.lan.send(self.now, from, to, bytes);
                    self.events.push(at, Event::ToServer { server, from: worker, message });
                }
                WorkerOutput::Compute => {
                    let work = self.cluster.workers[index].compute();
                    let time =
                        self.cost.time(worker, index, work).mul_f64(self.slowdown(worker.dc));
                    self.events.push(self.now + time, Event::Computed { worker });
                }
                WorkerOutput::Stopped { clock } => {
                    self.cluster.coordinator.handle_worker_stopped(worker, clock);
                    self.settle_coordinator()?;
                }
            }
        }
        Ok(())
    }

    fn settle_coordinator(&mut self) -> Done {
        while let Some(output) = self.cluster.coordinator.poll_output() {
            match output {
                CoordinatorOutput::Start => {
                    for index in 0..self.cluster.workers.len() {
                        self.cluster.workers[index].handle_start();
                        self.settle_worker(self.cluster.workers[index].id())?;
                    }
                }
                CoordinatorOutput::Evaluate { clock } => {
                    self.cluster.coordinator.handle_evaluation(self.now, clock, 0.0);
                }
                CoordinatorOutput::Stop { last, .. } => {
                    for index in 0..self.cluster.workers.len() {
                        self.cluster.workers[index].handle_stop(last);
                        self.settle_worker(self.cluster.workers[index].id())?;
                    }
                }
                CoordinatorOutput::Drain { dc, clocks } => {
                    for index in 0..self.cluster.servers.len() {
                        let server = self.cluster.servers[index].id();
                        if server.dc == dc {
                            self.cluster.servers[index].handle_drain(self.now, clocks.clone());
                            self.settle_server(server)?;
                        }
                    }
                }
                CoordinatorOutput::Finished => {
                    self.finished = true;
                    self.become_calm();
                }
            }
        }
        Ok(())
    }

    /// How many times slower a data center computes.
    fn slowdown(&self, dc: DcId) -> f64 {
        let at_work = self.scenario.faults.iter().filter(|fault| {
            let begins = Instant::ZERO + fault.at.0;
            fault.kind == FaultKind::Straggler
                && fault.dc == dc.0
                && !self.calm
                && (begins..begins + fault.lasts.0).contains(&self.now)
        });
        at_work.map(|fault| fault.factor).product()
    }

    fn see(&mut self, seen: Seen<'_>) -> Done {
        let (cluster, plan, overlay) = (&self.cluster, &self.plan, &self.overlay);
        let view = View { now: self.now, cluster, plan, overlay };
        for checker in &mut self.checkers {
            if let Err(what) = checker.check(&view, seen) {
                let at_s = self.now.as_secs_f64();
                return Err(Box::new(Violation { checker: checker.name(), what, at_s }));
            }
        }
        Ok(())
    }

    /// Why the time that a run has is over and the run is not.
    fn late(&self) -> Box<Violation> {
        if self.finished {
            let held =
                quiescence::held(&self.ends).unwrap_or_else(|| "a connection is down".into());
            return self
                .broken(quiescence::NAME, format!("{LIVENESS_LASTS:?} of calm, and {held}"));
        }
        let reads = self.cluster.servers.iter().filter_map(|server| {
            server.waiting().map(|reason| format!("{} waits for {reason}", server.id()))
        });
        let waiting: Vec<String> = reads.chain(quiescence::held(&self.ends)).collect();
        let waiting = waiting.join("; ");
        self.broken("liveness", format!("{LIVENESS_LASTS:?} of calm, and not finished: {waiting}"))
    }

    fn broken(&self, checker: &'static str, what: String) -> Box<Violation> {
        Box::new(self.violation(checker, what))
    }

    fn violation(&self, checker: &'static str, what: String) -> Violation {
        Violation { checker, what, at_s: self.now.as_secs_f64() }
    }
}

/// How long a run may take after the last fault until all is quiet: many times what the slowest drawn cluster takes.
const LIVENESS_LASTS: Duration = Duration::from_secs(120);
