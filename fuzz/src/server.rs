//! A parameter server in the middle of a run, and what its mirrors send it.
//!
//! The first byte chooses the synchronisation. Then come events, each a byte and what belongs to it: frames, with
//! their checksums made right so that they reach the protocol, between honest steps of the server's own worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gaia_core::node::{Lane, Probed, ServerInput, WorkerMessage};
use gaia_core::server::{
    Blocks, DrainMethod, ExchangeRoute, LinkFacts, LongestWay, Schedule, Server, ServerConfig,
    ServerOutput,
};
use gaia_core::store::{ShardDeltas, ShardRows};
use gaia_core::sync::{
    AspConfig, BlockShares, BspConfig, GuardConfig, LocalStepsConfig, LocalSync, RemoteSync,
    SspConfig, TapConfig, ValueFormat,
};
use gaia_core::types::{
    Bandwidth, Clock, DcId, Deltas, Instant, Model, ModelLayout, RowSet, ServerId, ShardId,
    ShardLayout, Staleness, TableDeltas, TableLayout, TableRows, WorkerId,
};

use super::sealed::{BULK, CONTROL, sealed};
use super::{Seed, Target, bulk, control};

pub const TARGET: Target = Target { name: "server", check, seeds };

fn check(data: &[u8]) {
    let Some((&which, mut events)) = data.split_first() else { return };
    let models = models();
    let mut node = Node::new(0, &models[usize::from(which) % models.len()]);
    while let Some((&event, rest)) = events.split_first() {
        events = rest;
        match event % 8 {
            WORK => node.work(),
            SEND => node.send(),
            WAKE => node.wake(),
            DRAIN => node.drain(),
            PART => node.part(DcId(u16::from(event >> 5))),
            _ => {
                let Some((length, rest)) = events.split_first_chunk() else { return };
                let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
                let (frame, rest) = rest.split_at(length);
                events = rest;
                // Not all senders are mirrors, and one is this data center itself.
                let from = DcId(u16::from(event >> 5));
                let lane = if event & 16 == 0 { Lane::Data } else { Lane::Control };
                if event % 8 == CONTINUE && lane == Lane::Data {
                    let frame = node.continued(from, frame);
                    node.receive(from, lane, &frame);
                } else {
                    node.receive(from, lane, frame);
                }
            }
        }
    }
}

/// The server of one of three data centers, and its only worker.
#[derive(Debug)]
pub struct Node {
    pub server: Server,
    layout: ShardLayout,
    now: Instant,
    clock: Clock,
    /// The worker waits for its rows.
    asked: bool,
    /// It has them, and with them how many copies of others to measure.
    read: Option<Vec<Probed>>,
    draining: bool,
    /// Data frames that were taken, by their sender.
    taken: [u64; 8],
}

impl Node {
    /// With a model of 1000 parameters, all 0.
    pub fn new(dc: u16, remote: &RemoteSync) -> Self {
        let table = TableLayout { name: "table".into(), rows: 100, width: 10 };
        let layout = ShardLayout::new(Arc::new(ModelLayout::new(vec![table])), ShardId(0), 1);
        let initial = Model::zeros(layout.model().clone());
        let rtt = Duration::from_millis(100);
        let others = (0..3).filter(move |other| *other != dc).map(DcId);
        let facts = LinkFacts { bandwidth: Bandwidth::from_mbit(100.0), rtt };
        let config = ServerConfig {
            id: ServerId { dc: DcId(dc), shard: ShardId(0) },
            workers: 1,
            all_workers: vec![1; 3],
            shards: 1,
            local: LocalSync::BSP,
            remote: remote.clone(),
            outliers: None,
            layout: layout.clone(),
            links: others.clone().map(|to| (to, facts)).collect(),
            first_hops: others.clone().map(|to| (to, to)).collect(),
            neighbours: vec![others.collect()],
            way: LongestWay { rtt, hops: 1 },
            schedule: Arc::new(Schedule {
                learning_rate_factor: Box::new(|_| 1.0),
                clocks_per_pass: 1,
                momentum: 0.5,
            }),
            significance: None,
            route: ExchangeRoute::Homes,
            blocks: Blocks::equal(3),
            drain: DrainMethod::Mean,
            inactive: BTreeSet::new(),
            deltas_are_shares: false,
            give_up_after: Duration::from_secs(1800),
            looks_at_copies: false,
            plan_hash: 7,
        };
        let server = Server::new(config, &initial);
        let (now, clock) = (Instant::ZERO, Clock::ZERO);
        Self {
            server,
            layout,
            now,
            clock,
            asked: false,
            read: None,
            draining: false,
            taken: [0; 8],
        }
    }

    /// A bulk frame that says to be the next of its sender, whatever else it says: what comes of that is deeper in the
    /// protocol than what a wrong number leads to.
    fn continued(&self, from: DcId, frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        if let Some(fields) = frame.get_mut(16..32) {
            fields[..2].copy_from_slice(&from.0.to_le_bytes());
            fields[2..4].copy_from_slice(&self.server.id().shard.0.to_le_bytes());
            fields[8..].copy_from_slice(&(self.taken[from.index()] + 1).to_le_bytes());
        }
        frame
    }

    /// A frame that is refused has changed no value.
    fn receive(&mut self, from: DcId, lane: Lane, frame: &[u8]) {
        let magic = if lane == Lane::Data { BULK } else { CONTROL };
        let frame = sealed(frame, magic).unwrap_or_else(|| frame.to_vec()).into();
        let bits =
            |server: &Server| server.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let before = bits(&self.server);
        match self.server.handle_input(self.now, ServerInput::Frame { from, lane, frame }) {
            Ok(()) => self.taken[from.index()] += u64::from(lane == Lane::Data),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert_eq!(bits(&self.server), before, "{error}, and yet it was applied");
            }
        }
        self.collect();
    }

    /// The worker asks for everything, or finishes a clock on what it was given: ten parameters from 30 on each grow
    /// by a quarter.
    pub fn work(&mut self) {
        let worker = WorkerId { dc: self.server.id().dc, index: 0 };
        let clock = self.clock;
        let message = if let Some(probed) = self.read.take() {
            let deltas = Deltas { tables: vec![TableDeltas::listed(vec![3], vec![0.25; 10])] };
            let deltas = ShardDeltas::split(deltas, std::slice::from_ref(&self.layout)).remove(0);
            self.asked = false;
            self.clock = clock.next();
            WorkerMessage::Update {
                clock,
                at: clock,
                deltas,
                probed,
                learning_rate_factor: None,
                keeps: false,
            }
        } else if !self.asked && !self.draining {
            self.asked = true;
            let all = RowSet { tables: vec![TableRows::All] };
            WorkerMessage::Read { clock, rows: ShardRows::of(&all, &self.layout) }
        } else {
            return;
        };
        self.server.handle_worker(self.now, worker, message);
        self.collect();
    }

    /// The links take a frame each, and have carried it.
    fn send(&mut self) {
        for to in [1, 2].map(DcId) {
            for lane in [Lane::Control, Lane::Data] {
                let Some(frame) = self.server.poll_transmit(self.now, to, lane, 4096) else {
                    continue;
                };
                self.now += Duration::from_millis(7);
                let (bytes, busy) = (frame.len() as u64, Duration::from_millis(7));
                let drained = ServerInput::Drained { to, bytes, busy };
                self.server.handle_input(self.now, drained).expect("a link of this server's own");
                self.collect();
            }
        }
    }

    /// The connection to a mirror is lost, or to somebody who is none.
    fn part(&mut self, from: DcId) {
        let _stranger = self.server.handle_input(self.now, ServerInput::Disconnected { from });
        self.collect();
    }

    fn wake(&mut self) {
        if let Some((at, _)) = self.server.poll_timeout() {
            self.now = self.now.max(at);
            self.server.handle_timeout(self.now);
            self.collect();
        }
    }

    fn drain(&mut self) {
        if !self.draining && !self.asked {
            self.draining = true;
            self.server.handle_drain(self.now, vec![self.clock], BTreeSet::new());
            self.collect();
        }
    }

    fn collect(&mut self) {
        while let Some(output) = self.server.poll_output() {
            if let ServerOutput::ToWorker { message, .. } = output {
                assert_eq!((message.clock, message.values.len()), (self.clock, 1000));
                let probed = message.probes.iter().map(|probe| Probed {
                    of: probe.of,
                    clock: probe.clock,
                    away: f64::from(probe.away[0]),
                    home: 0.0,
                    untrained: 1.0,
                });
                self.read = Some(probed.collect());
            }
        }
    }
}

/// Every way to synchronise that has a protocol of its own.
fn models() -> [RemoteSync; 7] {
    let guard = || Some(GuardConfig { every: 1, ..GuardConfig::default() });
    let steps = LocalStepsConfig {
        steps: 2,
        density: 0.1,
        drift_correction: 0.5,
        ..LocalStepsConfig::default()
    };
    [
        RemoteSync::Bsp(BspConfig::default()),
        RemoteSync::Ssp(SspConfig {
            staleness: Staleness(1),
            values: ValueFormat::Bf16,
            blocks: BlockShares::default(),
        }),
        RemoteSync::Tap(TapConfig::default()),
        RemoteSync::Asp(AspConfig::default()),
        RemoteSync::Asp(AspConfig { guard: guard(), ..AspConfig::default() }),
        RemoteSync::LocalSteps(steps.clone()),
        RemoteSync::LocalSteps(LocalStepsConfig { guard: guard(), ..steps }),
    ]
}

fn seeds() -> Vec<Seed> {
    let frames: Vec<Vec<u8>> =
        bulk::seeds().into_iter().map(|(_, seed)| seed[1..].to_vec()).collect();
    let messages: Vec<Vec<u8>> = control::seeds().into_iter().map(|(_, seed)| seed).collect();
    let seed = |which: u8| {
        let mut events = vec![which, WORK, WORK, WORK];
        let mut frame = |event: u8, frame: &[u8]| {
            events.push(event);
            events.extend((frame.len() as u16).to_le_bytes());
            events.extend_from_slice(frame);
        };
        frames.iter().for_each(|bytes| frame(1 << 5 | RECEIVE, bytes));
        messages.iter().for_each(|bytes| frame(1 << 5 | 16 | RECEIVE, bytes));
        frames.iter().for_each(|bytes| frame(1 << 5 | CONTINUE, bytes));
        frames.iter().for_each(|bytes| frame(2 << 5 | CONTINUE, bytes));
        events.extend([1 << 5 | PART, SEND, WORK, WAKE, WORK, SEND, WORK, DRAIN, SEND]);
        events
    };
    ["bsp", "ssp", "tap", "asp", "asp-guard", "local-steps", "local-steps-guard"]
        .into_iter()
        .zip(0..)
        .map(|(name, which)| (name, seed(which)))
        .collect()
}

/// Events, by the lowest three bits of their byte.
const RECEIVE: u8 = 0;
const WORK: u8 = 1;
const SEND: u8 = 2;
const WAKE: u8 = 3;
const DRAIN: u8 = 4;
const CONTINUE: u8 = 5;
const PART: u8 = 6;
