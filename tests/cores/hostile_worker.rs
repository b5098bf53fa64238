//! A worker with a certificate that means harm: it takes part as the others do, and sends its server what no worker may
//! send, and what it may without end. What is refused is named, and the others train on as without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gaia_core::codec::ValueFormat;
use gaia_core::node::{
    LanError, Lane, RowsRead, WorkerMessage, decode_worker_message, encode_worker_message,
};
use gaia_core::recovery::{
    Logging, Output, RecoverableServer, RecoveringServer, RequestOrder, RequestSeq,
};
use gaia_core::server::Divergence;
use gaia_core::session::Incarnation;
use gaia_core::store::{ShardDeltas, ShardRows};
use gaia_core::sync::{AspConfig, Brake, RemoteSync};
use gaia_core::types::{
    Clock, DcId, Deltas, Instant, RowSet, ShardLayout, Staleness, TableDeltas, WorkerId,
};

use crate::cluster::{ROOM, Setup};
use crate::{POLICIES, asp, bsp, local_steps, ssp, tap};

const HOSTILE: WorkerId = WorkerId { dc: DcId(0), index: 1 };
const WORKERS: u16 = 2;
const PARAMETERS: u32 = 8;
const TURNS: u64 = 120;
const TURN: Duration = Duration::from_millis(100);

/// How often it restarts in each turn.
const RESETS: usize = 25;

/// Two data centers whose servers have sessions, each with two workers.
struct Cluster {
    now: Instant,
    servers: Vec<RecoverableServer>,
    layout: ShardLayout,
    workers: BTreeMap<WorkerId, ManualWorker>,
    diverged: Vec<Divergence>,
}

/// A worker that a test steps.
#[derive(Default)]
struct ManualWorker {
    clock: Clock,
    asked: bool,
    answer: Option<Arc<RowsRead>>,
}

impl Cluster {
    fn new(remote: &RemoteSync) -> Self {
        let setup =
            Setup { data_centers: 2, workers: usize::from(WORKERS), ..Setup::new(remote.clone()) };
        let dcs = [DcId(0), DcId(1)];
        let workers_of = |dc| (0..WORKERS).map(move |index| WorkerId { dc, index });
        let server = |dc| {
            let windows = dcs.into_iter().filter(|peer| *peer != dc).map(|peer| (peer, 1 << 20));
            RecoveringServer::new(setup.server(dc), workers_of(dc), windows.collect())
                .begin(Logging::Off, Incarnation::FIRST)
        };
        let workers = dcs.into_iter().flat_map(workers_of);
        let mut cluster = Self {
            now: Instant::ZERO,
            servers: dcs.map(server).into(),
            layout: setup.layout(),
            workers: workers.map(|worker| (worker, ManualWorker::default())).collect(),
            diverged: Vec::new(),
        };
        let pairs = [(0, 1), (1, 0)].map(|(from, to)| (DcId(from), DcId(to)));
        let hellos = pairs.map(|(from, to)| cluster.servers[from.index()].connect(to));
        for ((from, to), hello) in pairs.into_iter().zip(hellos) {
            let server = &mut cluster.servers[to.index()];
            server.handle_message(cluster.now, from, &hello.to_bytes()).unwrap();
        }
        cluster
    }

    /// A message of a worker over the network.
    fn give(&mut self, from: WorkerId, message: &WorkerMessage) -> RequestOrder {
        let body = encode_worker_message(message, &self.layout).to_vec();
        self.give_bytes(from, body).unwrap()
    }

    fn give_bytes(&mut self, from: WorkerId, body: Vec<u8>) -> Result<RequestOrder, LanError> {
        let message = decode_worker_message(&body.into(), &self.layout)?;
        let order = self.servers[from.dc.index()].handle_worker(self.now, from, message);
        self.collect(from.dc);
        Ok(order)
    }

    /// Reads everything and finishes a clock, unless the read is held back.
    fn step(&mut self, worker: WorkerId, changes: &[(u32, f32)]) {
        let clock = self.workers[&worker].clock;
        if !self.workers[&worker].asked {
            assert_eq!(self.give(worker, &read(clock, &self.layout)), RequestOrder::Due);
            self.worker(worker).asked = true;
        }
        if self.worker(worker).answer.take().is_some() {
            let update = update((clock, clock), changes, &self.layout);
            assert_eq!(self.give(worker, &update), RequestOrder::Due);
            let worker = self.worker(worker);
            (worker.clock, worker.asked) = (clock.next(), false);
        }
    }

    fn worker(&mut self, worker: WorkerId) -> &mut ManualWorker {
        self.workers.get_mut(&worker).unwrap()
    }

    /// Exchanges everything there is between mirrors, and wakes the servers whose timeout is due.
    fn settle(&mut self) {
        let mut quiet = false;
        while !quiet {
            quiet = true;
            for (from, to) in [(0_u16, 1_u16), (1, 0)] {
                for lane in Lane::ALL {
                    let server = &mut self.servers[usize::from(from)];
                    while server.cut(self.now, DcId(to), lane, ROOM).is_some() {}
                    while let Some(message) =
                        self.servers[usize::from(from)].poll_message(DcId(to), lane)
                    {
                        quiet = false;
                        let (now, mirror) = (self.now, &mut self.servers[usize::from(to)]);
                        mirror.handle_message(now, DcId(from), &message.to_bytes()).unwrap();
                        while mirror.deliver(now, DcId(from)).unwrap().is_some() {}
                    }
                }
                self.collect(DcId(to));
            }
        }

        self.now += TURN;
        for dc in [DcId(0), DcId(1)] {
            let server = &mut self.servers[dc.index()];
            if server.poll_timeout().is_some_and(|at| at <= self.now) {
                server.handle_timeout(self.now);
                self.collect(dc);
            }
        }
    }

    fn collect(&mut self, dc: DcId) {
        while let Some(output) = self.servers[dc.index()].poll_output() {
            match output {
                Output::ToWorker { worker, message } => {
                    self.worker(worker).answer = Some(message);
                }
                Output::Diverged(divergence) => self.diverged.push(divergence),
                _ => {}
            }
        }
    }
}

pub fn read(clock: Clock, layout: &ShardLayout) -> WorkerMessage {
    let rows = ShardRows::of(&RowSet::all(layout.model()), layout);
    WorkerMessage::Read { clock, rows }
}

/// An update of the iteration that started at the first clock, with which the worker says to have finished the second.
pub fn update(
    (clock, at): (Clock, Clock),
    changes: &[(u32, f32)],
    layout: &ShardLayout,
) -> WorkerMessage {
    let (rows, values) = changes.iter().copied().unzip();
    let deltas = Deltas { tables: vec![TableDeltas::listed(rows, values)] };
    let deltas = ShardDeltas::split(deltas, std::slice::from_ref(layout)).remove(0);
    let (probed, learning_rate_factor) = (Vec::new(), None);
    WorkerMessage::Update { clock, at, deltas, probed, learning_rate_factor, keeps: false }
}

/// What is no message to this server, and how that is refused.
fn malformed(layout: &ShardLayout) -> Vec<(Vec<u8>, LanError)> {
    let foreign = |what| LanError::PeerSentForeign { what };
    let short = |what| LanError::PeerSentShortMessage { what };
    let clock = Clock(1);
    let good_read = encode_worker_message(&read(clock, layout), layout).to_vec();
    let good_update =
        encode_worker_message(&update((clock, clock), &[(0, 1.0), (3, 1.0)], layout), layout)
            .to_vec();
    // The kind and the clocks of each.
    let (of_read, of_update) = (&good_read[..12], &good_update[..20]);
    let listed = |head: &[u8], count: u32, rest: &[u32]| {
        let rest = [1, count].into_iter().chain(rest.iter().copied()).flat_map(u32::to_le_bytes);
        [head, &rest.collect::<Vec<u8>>()].concat()
    };
    let at_clocks = |clock: u64, at: u64| {
        let head = [clock.to_le_bytes(), at.to_le_bytes()].concat();
        [&of_update[..4], &head, &good_update[20..]].concat()
    };

    vec![
        // Lengths.
        (Vec::new(), short("its kind")),
        (good_update[..good_update.len() - 1].to_vec(), short("whether it has a learning rate")),
        ([&good_update[..], &[0; 3]].concat(), LanError::PeerSentLongMessage { bytes: 3 }),
        (listed(of_read, u32::MAX, &[0]), short("rows")),
        (listed(of_update, 2, &[0, 1, 0]), short("values")),
        // Kinds and forms.
        (vec![3, 0, 0, 0], LanError::PeerSentUnknown { what: "message", found: 3, most: 2 }),
        (
            [of_read, &[9, 0, 0, 0]].concat(),
            LanError::PeerSentUnknown { what: "form of rows", found: 9, most: 1 },
        ),
        // Rows that do not exist, rows that are repeated and rows that go back.
        (listed(of_read, 1, &[PARAMETERS]), foreign("rows to read")),
        (listed(of_read, 2, &[3, 3]), foreign("rows to read")),
        (listed(of_read, 2, &[3, 2]), foreign("rows to read")),
        (listed(of_update, 1, &[u32::MAX, 0, 0, 0]), foreign("deltas")),
        // Clocks.
        (at_clocks(1, 0), foreign("clocks")),
        (at_clocks(u64::MAX, u64::MAX), foreign("clocks")),
        (at_clocks(0, u64::MAX), foreign("clocks")),
        // Learning rates.
        (
            [&good_update[..good_update.len() - 1], &[1], &2.0_f64.to_le_bytes()].concat(),
            foreign("shares of a learning rate"),
        ),
    ]
}

/// Messages that a worker may send, but not now, and how each is refused.
fn untimely(worker: &ManualWorker, layout: &ShardLayout) -> Vec<(WorkerMessage, RequestOrder)> {
    let clock = worker.clock;
    let after = |clocks| Clock(clock.0 + clocks);
    let update = |clock, at| update((clock, at), &[(0, 64.0)], layout);
    let mut messages = vec![
        (read(after(1), layout), RequestOrder::Early),
        (read(after(1 << 30), layout), RequestOrder::Early),
        (update(after(1), after(1)), RequestOrder::Early),
    ];
    if let Some(before) = clock.0.checked_sub(1).map(Clock) {
        messages.push((read(before, layout), RequestOrder::Repeated));
        messages.push((update(before, before), RequestOrder::Repeated));
        messages.push((update(before, clock), RequestOrder::Repeated));
    }
    match (worker.asked, &worker.answer) {
        (false, _) => messages.push((update(clock, clock), RequestOrder::Early)),
        (true, None) => messages.push((update(clock, clock), RequestOrder::Unanswered)),
        (true, Some(_)) => {
            messages.push((update(clock, after(1)), RequestOrder::Skipping));
            messages.push((update(clock, after(1 << 30)), RequestOrder::Skipping));
        }
    }
    if worker.asked {
        messages.push((read(clock, layout), RequestOrder::Repeated));
    }
    messages
}

/// The hostile worker says what it may not. Counts the refusals of each kind.
fn forge(cluster: &mut Cluster, refused: &mut BTreeMap<String, u64>) {
    for (body, expected) in malformed(&cluster.layout) {
        assert_eq!(cluster.give_bytes(HOSTILE, body.clone()), Err(expected), "{body:?}");
    }
    for (message, expected) in untimely(&cluster.workers[&HOSTILE], &cluster.layout) {
        let due = cluster.servers[0].due(HOSTILE);
        assert_eq!(cluster.give(HOSTILE, &message), expected, "{message:?}, due is {due}");
        *refused.entry(format!("{expected:?}")).or_default() += 1;
    }
}

/// What became of a run: the clocks of the other workers, and the copies.
#[derive(Debug, PartialEq)]
struct Outcome {
    clocks: Vec<u64>,
    copies: Vec<Vec<f32>>,
}

/// Runs turns of the same length. In each of them every worker finishes a clock unless its read is held back. `harm` is
/// done before the hostile one does its work, and while its next read waits. `of_hostile` is what it changes.
fn run(
    cluster: &mut Cluster,
    of_hostile: &[(u32, f32)],
    mut harm: impl FnMut(&mut Cluster, bool),
) -> Outcome {
    for turn in 0..TURNS {
        harm(cluster, false);
        cluster.step(HOSTILE, of_hostile);
        let clock = cluster.workers[&HOSTILE].clock;
        if !cluster.workers[&HOSTILE].asked {
            let message = read(clock, &cluster.layout);
            assert_eq!(cluster.give(HOSTILE, &message), RequestOrder::Due);
            cluster.worker(HOSTILE).asked = true;
        }
        harm(cluster, true);

        let others: Vec<WorkerId> = cluster.workers.keys().copied().collect();
        for worker in others.into_iter().filter(|worker| *worker != HOSTILE) {
            let changes = [((turn % 7) as u32, 4.0), (7, 1.0 + f32::from(worker.index))];
            cluster.step(worker, &changes);
        }
        cluster.settle();
    }

    let others = cluster.workers.iter().filter(|(worker, _)| **worker != HOSTILE);
    Outcome {
        clocks: others.map(|(_, worker)| worker.clock.0).collect(),
        copies: cluster.servers.iter().map(|server| server.server().values().to_vec()).collect(),
    }
}

fn models() -> [RemoteSync; 5] {
    let braked = AspConfig {
        selective_barrier: Brake::On,
        mirror_clock: Brake::On,
        data_center_staleness: Some(Staleness(2)),
        ..asp(POLICIES[1], ValueFormat::F32)
    };
    [
        bsp(ValueFormat::F32),
        ssp(2),
        tap(ValueFormat::F32),
        RemoteSync::Asp(braked),
        RemoteSync::LocalSteps(local_steps(2, ValueFormat::F32)),
    ]
}

#[test]
fn others_train_on_while_a_worker_sends_what_it_may_not_and_restarts_without_end() {
    for remote in models() {
        let alone = run(&mut Cluster::new(&remote), &[(0, 2.0)], |_, _| {});

        let mut refused = BTreeMap::new();
        let harmed = run(&mut Cluster::new(&remote), &[(0, 2.0)], |cluster, waits| {
            forge(cluster, &mut refused);
            if !waits {
                for _ in 0..RESETS {
                    assert_eq!(cluster.give(HOSTILE, &WorkerMessage::Reset), RequestOrder::Due);
                }
                let worker = cluster.worker(HOSTILE);
                (worker.asked, worker.answer) = (false, None);
                let due = RequestSeq { clock: worker.clock, updates: false };
                assert_eq!(cluster.servers[0].due(HOSTILE), due);
            }
        });

        let kinds: BTreeSet<&str> = refused.keys().map(String::as_str).collect();
        assert_eq!(kinds, BTreeSet::from(["Early", "Repeated", "Skipping", "Unanswered"]));
        assert!(refused.values().all(|times| *times > TURNS / 3), "{remote:?}: {refused:?}");
        for (with, without) in harmed.clocks.iter().zip(&alone.clocks) {
            assert!(without * 3 > TURNS, "{remote:?} trains: {without}");
            assert!(with * 20 >= without * 19, "{remote:?}: {with} clocks, {without} without it");
        }
        assert_eq!(harmed.copies, alone.copies, "{remote:?}: what is refused leaves no trace");
    }
}

/// It says that it has stopped, and goes on: before its server is ordered to drain, and after.
#[test]
fn a_worker_that_goes_on_after_it_has_said_that_it_stopped_leaves_no_trace_in_the_drain() {
    for remote in models() {
        let cluster = &mut Cluster::new(&remote);
        run(cluster, &[(0, 2.0)], |_, _| {});
        cluster.settle();
        let clocks = |cluster: &Cluster, dc| {
            let own = cluster.workers.iter().filter(|(worker, _)| worker.dc == dc);
            own.map(|(_, worker)| worker.clock).collect::<Vec<Clock>>()
        };
        let furthest = cluster.workers.values().map(|worker| worker.clock).max().unwrap();
        while cluster.workers.values().any(|worker| worker.clock < furthest) {
            let behind = cluster.workers.iter().filter(|(_, worker)| worker.clock < furthest);
            for worker in behind.map(|(id, _)| *id).collect::<Vec<WorkerId>>() {
                cluster.step(worker, &[(1, 1.0)]);
            }
            cluster.settle();
        }
        let stopped = clocks(cluster, HOSTILE.dc);
        cluster.step(HOSTILE, &[(0, 64.0)]);
        for dc in [DcId(0), DcId(1)] {
            let clocks = if dc == HOSTILE.dc { stopped.clone() } else { clocks(cluster, dc) };
            cluster.servers[dc.index()].handle_drain(cluster.now, clocks, BTreeSet::new());
        }

        for _ in 0..9 {
            let clock = cluster.workers[&HOSTILE].clock;
            if !cluster.workers[&HOSTILE].asked {
                cluster.give(HOSTILE, &read(clock, &cluster.layout));
                cluster.worker(HOSTILE).asked = true;
            }
            let order =
                cluster.give(HOSTILE, &update((clock, clock), &[(0, 64.0)], &cluster.layout));
            assert_eq!(order, RequestOrder::Stopped, "{remote:?}");
            cluster.settle();
        }
        assert!(cluster.servers.iter().all(|one| one.server().is_drained()), "{remote:?} drains");
        let [here, there] = &cluster.servers[..] else { unreachable!("two data centers") };
        assert_eq!(here.server().copy(), there.server().copy(), "{remote:?}");
        assert_eq!(here.server().values(), there.server().values(), "{remote:?}");
    }
}

#[test]
fn changes_that_are_no_finite_numbers_are_named_and_leave_the_model_as_it_is() {
    for remote in models() {
        let idle = run(&mut Cluster::new(&remote), &[], |_, _| {});
        for value in [f32::NAN, f32::INFINITY, -1e38] {
            let mut cluster = Cluster::new(&remote);
            let harmed = run(&mut cluster, &[(0, 1.0), (5, value)], |_, _| {});

            assert_eq!(harmed, idle, "{remote:?}: no part of such an update is applied");
            let finished = cluster.workers[&HOSTILE].clock.0;
            assert_eq!(cluster.diverged.len() as u64, finished);
            for (clock, found) in (0..).zip(&cluster.diverged) {
                let place = (found.worker, found.clock, found.row);
                assert_eq!(place, (HOSTILE, Clock(clock), 5));
                assert_eq!(found.value.to_bits(), value.to_bits());
            }
        }
    }
}
