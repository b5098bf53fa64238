//! Durability: a restarted node equals, to the bit, a node that has replayed exactly the records on its disk. It does
//! not contradict what it sent before the crash: its state includes all that was sent, answered, acknowledged or
//! reported, and a repeated message equals the first.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Broken, Checker, Seen, View};
use crate::cluster::envelopes::{HELLO, KIND, NUMBER, RECEIVED, TO, lane_of, u64_at};
use crate::cluster::nodes::ReplayPair;
use gaia_core::node::{RowsRead, WorkerMessage};
use gaia_core::recovery::RequestSeq;
use gaia_core::session::Message;
use gaia_core::types::{Clock, DcId, Lane, NodeId, ServerId, ShardId, State, WorkerId};

/// The messages that nodes have sent.
#[derive(Debug, Default)]
pub(super) struct Durability {
    /// By link, lane and number.
    frames: BTreeMap<(ServerId, DcId, Lane), BTreeMap<u64, Bytes>>,
    /// The largest acknowledgement that was sent to each mirror.
    acknowledged: BTreeMap<(ServerId, DcId), [u64; 2]>,
    answers: BTreeMap<(ServerId, WorkerId), RowsRead>,
    due: BTreeMap<(ServerId, WorkerId), RequestSeq>,
    reported: BTreeMap<ServerId, Clock>,
    /// The incarnation of each server that has lost its state. Acknowledgements of earlier incarnations do not count.
    began: BTreeMap<ServerId, u64>,
    /// The last update and the last read of each worker.
    requests: BTreeMap<(WorkerId, ShardId, bool), WorkerMessage>,
}

impl Checker for Durability {
    fn name(&self) -> &'static str {
        "durability"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        if !view.logs {
            return Ok(());
        }
        match seen {
            Seen::Left { from, to, message } => self.on_left(from, to, message),
            Seen::ReplySent { server, worker, rows } => {
                check_synced(view, server, "answers a worker")?;
                self.on_reply_sent(server, worker, rows)
            }
            // A crash takes the workers of such a server back.
            Seen::Due { .. } if view.is_deferred => Ok(()),
            Seen::Due { server, worker, due } => {
                let known = self.due.entry((server, worker)).or_default();
                *known = due.max(*known);
                Ok(())
            }
            Seen::Reported { server, clock } => {
                check_synced(view, server, "reports a clock")?;
                let known = self.reported.entry(server).or_default();
                *known = clock.max(*known);
                Ok(())
            }
            Seen::Asked { server, worker, clock, .. } => {
                self.on_asked(server, worker, clock);
                Ok(())
            }
            // The due request is void, and the worker may send different messages for the same clocks.
            Seen::WorkerReset { server, worker } => {
                self.due.remove(&(server, worker));
                self.requests.retain(|(of, shard, _), _| (*of, *shard) != (worker, server.shard));
                Ok(())
            }
            // The worker may send different messages for the same clocks.
            Seen::LostState { worker } => {
                self.requests.retain(|(of, ..), _| *of != worker);
                Ok(())
            }
            Seen::WorkerSent { worker, shard, message } => {
                self.on_worker_sent(worker, shard, message)
            }
            Seen::ReplayPair { node, replay_pair } => check_replay(node, replay_pair),
            Seen::Recovered { server } => {
                if view.is_deferred {
                    // An answer may have had updates of other workers that are lost, and are repeated.
                    self.answers.retain(|(at, _), _| *at != server);
                }
                self.check_recovered(view, server)
            }
            Seen::Reset { at, from } => {
                self.frames.retain(|(sender, to, _), _| (*sender, *to) != (at, from));
                self.acknowledged.remove(&(at, from));
                Ok(())
            }
            Seen::Lost { server, .. } => {
                let began = view.nodes.servers[&server].machine.incarnation().number();
                self.forget(server, began);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// A server releases an output only after everything that led to it is on disk. With a deferred log an answer does not wait,
/// and entries after those of a report may wait. What was reported is compared after a crash.
fn check_synced(view: &View<'_>, server: ServerId, does: &str) -> Result<(), Broken> {
    let is_synced = view.nodes.servers[&server].machine.is_settled();
    if view.is_deferred || is_synced {
        Ok(())
    } else {
        Err(format!("{server} {does} before its log is synced"))
    }
}

impl Durability {
    /// Discards the messages from and to a server that has lost its state.
    fn forget(&mut self, server: ServerId, began: u64) {
        let is_of = |from: ServerId, to: DcId| {
            from.shard == server.shard && (from == server || to == server.dc)
        };
        self.began.insert(server, began);
        self.frames.retain(|(from, to, _), _| !is_of(*from, *to));
        self.acknowledged.retain(|(from, to), _| !is_of(*from, *to));
        self.answers.retain(|(at, _), _| *at != server);
        self.due.retain(|(at, _), _| *at != server);
        self.reported.remove(&server);
    }

    fn on_left(&mut self, from: ServerId, to: DcId, message: &Message) -> Result<(), Broken> {
        let receiver = ServerId { dc: to, shard: from.shard };
        let began = self.began.get(&receiver);
        if message.header[KIND] == HELLO
            && began.is_some_and(|began| *began != u64_at(&message.header, TO))
        {
            return Ok(());
        }
        let reported = self.acknowledged.entry((from, to)).or_default();

        for lane in Lane::ALL {
            let count = u64_at(&message.header, RECEIVED + 8 * lane.index());
            reported[lane.index()] = count.max(reported[lane.index()]);
        }

        let Some(lane) = lane_of(&message.header) else { return Ok(()) };
        let number = u64_at(&message.header, NUMBER);
        let sent = self.frames.entry((from, to, lane)).or_default();
        let first = sent.entry(number).or_insert_with(|| message.frame.clone());

        if *first == message.frame {
            return Ok(());
        }
        let lane = lane.name();
        Err(format!("{from} sends {to} {lane} frame {number} with other contents than before"))
    }

    /// Discards the reply to the read before. A read of an earlier clock is of a worker that has restarted without a
    /// state.
    fn on_asked(&mut self, server: ServerId, worker: WorkerId, clock: Clock) {
        self.answers.remove(&(server, worker));
        if let Some(due) = self.due.get_mut(&(server, worker)) {
            *due = RequestSeq { clock, updates: false }.min(*due);
        }
    }

    fn on_reply_sent(
        &mut self,
        server: ServerId,
        worker: WorkerId,
        rows: &RowsRead,
    ) -> Result<(), Broken> {
        let before = self.answers.insert((server, worker), rows.clone());
        match before {
            Some(before) if before.clock == rows.clock && before.values != rows.values => {
                let clock = rows.clock;
                Err(format!("{server} sends {worker} another reply at clock {clock} than before"))
            }
            _ => Ok(()),
        }
    }

    fn on_worker_sent(
        &mut self,
        worker: WorkerId,
        shard: ShardId,
        message: &WorkerMessage,
    ) -> Result<(), Broken> {
        let Some(turn) = RequestSeq::of(message) else { return Ok(()) };
        let before = self.requests.insert((worker, shard, turn.updates), message.clone());
        let same = match (&before, message) {
            (Some(before), _) if RequestSeq::of(before) != Some(turn) => true,
            (
                Some(WorkerMessage::Update { deltas: before, .. }),
                WorkerMessage::Update { deltas, .. },
            ) => before == deltas,
            (Some(WorkerMessage::Read { rows: before, .. }), WorkerMessage::Read { rows, .. }) => {
                before == rows
            }
            _ => true,
        };

        if same {
            Ok(())
        } else {
            Err(format!("{worker} sends request {turn} with other contents than before"))
        }
    }

    fn check_recovered(&self, view: &View<'_>, server: ServerId) -> Result<(), Broken> {
        let machine = &view.nodes.servers[&server].machine;
        for ((_, peer), reported) in
            self.acknowledged.range((server, DcId(0))..=(server, DcId(u16::MAX)))
        {
            for lane in Lane::ALL {
                let (reported, found) =
                    (reported[lane.index()], machine.session(*peer).received(lane));
                if found < reported {
                    let lane = lane.name();
                    return Err(format!(
                        "{server} restarts with {found} {lane} frames of {peer}, but has acknowledged {reported}"
                    ));
                }
            }
        }

        for ((_, peer, lane), sent) in self
            .frames
            .range((server, DcId(0), Lane::Control)..=(server, DcId(u16::MAX), Lane::Data))
        {
            let (found, lane_name) = (machine.session(*peer).pushed(*lane), lane.name());
            if let Some((last, _)) = sent.last_key_value().filter(|(last, _)| **last > found) {
                return Err(format!(
                    "{server} restarts with {found} {lane_name} frames for {peer}, but has sent frame {last}"
                ));
            }
        }

        let of_server = |(of, _): &&(ServerId, WorkerId)| *of == server;
        for key in self.due.keys().filter(of_server) {
            let (reported, found) = (self.due[key], machine.due(key.1));
            if found < reported {
                let worker = key.1;
                return Err(format!(
                    "{server} expects request {found} of {worker}, but has reported {reported} as due"
                ));
            }
        }

        let found = machine.server().clock();
        match self.reported.get(&server).filter(|reported| **reported > found) {
            Some(reported) => Err(format!(
                "{server} restarts at clock {found}, but has reported clock {reported}"
            )),
            None => Ok(()),
        }
    }
}

fn check_replay(node: NodeId, replay_pair: &ReplayPair) -> Result<(), Broken> {
    let shadow = replay_pair.shadow.as_ref();
    let shadow =
        shadow.map_err(|error| format!("the disk of {node} cannot be replayed: {error}"))?;
    match difference(&replay_pair.state, shadow) {
        Some(name) => Err(format!("`{name}` of {node} differs from the replay of its disk")),
        None => Ok(()),
    }
}

/// The first entry in which two states differ.
fn difference(one: &State, other: &State) -> Option<String> {
    let tensors = one.tensors.iter().find(|(name, tensor)| {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        other.tensors.get(*name).is_none_or(|found| bits(&found.values) != bits(&tensor.values))
    });
    let records =
        one.records.iter().find(|(name, record)| other.records.get(*name) != Some(*record));
    let more = one.tensors.len() != other.tensors.len() || one.records.len() != other.records.len();
    let named = tensors.map(|(name, _)| name).or_else(|| records.map(|(name, _)| name));
    named.cloned().or_else(|| more.then(|| "more".into()))
}
