//! Injects one planted bug. Without a bug all functions have no effect.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::disk::{DiskBug, Found};
use super::envelopes::{
    FROM, HELLO, KIND, NUMBER, RECEIVED, TO, is_whole, lane_of, put_u64, remade, reseal, u64_at,
    with_valid_crc,
};
use super::exchange_bugs::ExchangeBugs;
use crate::bugs::Bug;
use gaia_core::codec::{Buffers, Changes, ValueFormat, encode_indexes};
use gaia_core::node::WorkerMessage;
use gaia_core::session::{HEADER_BYTES, Message};
use gaia_core::sync::{Brake, OnPartition, RemoteSync};
use gaia_core::types::{Clock, Content, DcId, Lane, NodeId, ServerId, WorkerId};
use gaia_core::wire::{
    BulkKind, ControlMessage, decode_bulk, decode_control, encode_bulk, encode_control, peek_bulk,
};

pub(crate) struct FaultInjector {
    bug: Option<Bug>,
    /// The highest frame number that each end has received, by lane.
    arrived: BTreeMap<(ServerId, DcId), [u64; 2]>,
    /// The incarnation in the last hello that each end has received.
    hellos: BTreeMap<(ServerId, DcId), u64>,
    /// The last message that each end has sent, except hellos.
    last: BTreeMap<(ServerId, DcId), Message>,
    /// The original frames of those that were changed on arrival, by lane and number.
    originals: BTreeMap<(ServerId, DcId, Lane, u64), Bytes>,
    /// The first frame of each number that has arrived before its turn, with the incarnation of its receiver.
    early: BTreeMap<(ServerId, DcId, Lane, u64), (u64, Bytes)>,
    /// Servers that have reported a pause.
    paused: BTreeSet<ServerId>,
    /// Mirrors that have asked for a copy, each as a server has heard.
    copied: BTreeSet<(ServerId, DcId)>,
    /// Workers that have reconnected to a server.
    rejoined: BTreeSet<(ServerId, WorkerId)>,
    records: u64,
    pub(crate) exchange: ExchangeBugs,
    /// The clocks of the rounds of which a home has sent its total.
    totals: BTreeSet<(ServerId, Clock)>,
}

impl FaultInjector {
    /// For a run of a remote model.
    pub(crate) fn new(bug: Option<Bug>, remote: &RemoteSync) -> Self {
        Self {
            bug,
            arrived: BTreeMap::new(),
            hellos: BTreeMap::new(),
            last: BTreeMap::new(),
            originals: BTreeMap::new(),
            early: BTreeMap::new(),
            paused: BTreeSet::new(),
            copied: BTreeSet::new(),
            rejoined: BTreeSet::new(),
            records: 0,
            exchange: ExchangeBugs::new(bug, remote),
            totals: BTreeSet::new(),
        }
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// The remote model that servers run.
    pub(crate) fn remote(&self, remote: &RemoteSync) -> RemoteSync {
        let mut remote = remote.clone();
        if let RemoteSync::Asp(asp) = &mut remote {
            match self.bug {
                Some(Bug::IgnoresMirrorClock) => asp.mirror_clock = Brake::Off,
                Some(Bug::IgnoresPause) => asp.on_partition = OnPartition::Continue,
                _ => {}
            }
        }
        remote
    }

    /// The bug of the code that writes disks.
    pub(crate) fn disk_bug(&self) -> Option<DiskBug> {
        match self.bug? {
            Bug::LeavesTornTail => Some(DiskBug::LeavesTornTail),
            Bug::LeavesSegmentUnsynced => Some(DiskBug::LeavesSegmentUnsynced),
            Bug::DropsLogTooFar => Some(DiskBug::DropsLogTooFar),
            _ => None,
        }
    }

    /// The window that servers use.
    pub(crate) fn window(&self, bytes: usize) -> usize {
        if self.has(Bug::IgnoresWindow) { 1 << 30 } else { bytes }
    }

    /// Changes a frame that the core of a server has cut.
    pub(crate) fn on_made(&self, from: ServerId, lane: Lane, frame: Bytes) -> Bytes {
        match (self.bug, lane) {
            (Some(Bug::ForgetsResidual), Lane::Data) => with_change(&frame, |_, value| {
                *value = 0.0;
            }),
            (Some(Bug::ReportsClockEarly), Lane::Control) => with_clock_early(&frame),
            (Some(Bug::ReportsClockEarlyAfterPause), Lane::Control)
                if self.paused.contains(&from) =>
            {
                with_clock_early(&frame)
            }
            (Some(Bug::MirrorClockRunsBackwards), Lane::Control) => {
                with_control(&frame, |message| {
                    if let ControlMessage::MirrorClock { clock, .. } = message
                        && clock.0.is_multiple_of(2)
                    {
                        *clock = Clock(clock.0.saturating_sub(2));
                    }
                })
            }
            (Some(Bug::ForgetsFork), Lane::Data) => with_control(&frame, |message| {
                if let ControlMessage::Fork { incarnation, .. } = message {
                    *incarnation = 0;
                }
            }),
            (Some(Bug::ForgetsBacklog), Lane::Data) => with_change(&frame, |kind, value| {
                if kind == BulkKind::Backlog {
                    *value = 0.0;
                }
            }),
            (Some(Bug::DrainEndsEarly), Lane::Control) => with_control(&frame, |message| {
                if let ControlMessage::EndOfUpdates { sequence } = message {
                    *sequence = sequence.saturating_sub(1);
                }
            }),
            (Some(Bug::CatchesUpEarly), Lane::Control) => with_control(&frame, |message| {
                if let ControlMessage::CaughtUp { sequence, .. } = message {
                    *sequence = 0;
                }
            }),
            (_, Lane::Data) => self.exchange.on_made(from, frame),
            _ => frame,
        }
    }

    /// The message that is sent in place of another. `again` is whether it is the first after a reconnect.
    pub(crate) fn on_message(
        &mut self,
        from: ServerId,
        to: DcId,
        mut message: Message,
        again: bool,
    ) -> Option<Message> {
        let bug = self.bug?;
        let is_hello = message.header[KIND] == HELLO;
        if let Some(lane) = lane_of(&message.header) {
            if let Some(clock) = clock_of(&message.frame, BulkKind::Total) {
                self.totals.insert((from, clock));
            }
            if lane == Lane::Control
                && let Ok(ControlMessage::LinkReport(report)) = decode_control(&message.frame)
                && report.pauses
            {
                self.paused.insert(from);
            }
            let frame = self.on_made(from, lane, message.frame.clone());
            message = remade(message, frame);
        }

        let arrived = self.arrived.get(&(from, to)).copied().unwrap_or_default();
        let message = match bug {
            Bug::ResendsFromWrongNumber if again => None,
            Bug::WatermarkOffByOne if is_hello => {
                Some(with_acknowledgements(message, |lane, received| {
                    if lane == Lane::Data && received > 0 { received + 1 } else { received }
                }))
            }
            Bug::AcknowledgesBeforeDelivery if !is_hello => {
                Some(with_acknowledgements(message, |lane, received| {
                    received.max(arrived[lane.index()])
                }))
            }
            Bug::NeverAcknowledges => Some(with_acknowledgements(message, |_, _| 0)),
            Bug::KeepsIncarnation => {
                put_u64(&mut message.header, FROM, 1);
                reseal(&mut message.header);
                Some(message)
            }
            _ => Some(message),
        };

        match (&message, is_hello) {
            (Some(message), false) => drop(self.last.insert((from, to), message.clone())),
            _ => drop(self.last.remove(&(from, to))),
        }

        message
    }

    /// As [`Self::on_message`] if there is a bug, otherwise the message itself.
    pub(crate) fn message(
        &mut self,
        from: ServerId,
        to: DcId,
        message: Message,
        again: bool,
    ) -> Option<Message> {
        if self.bug.is_none() { Some(message) } else { self.on_message(from, to, message, again) }
    }

    /// An acknowledgement of received frames that are not synced, if the bug sends one.
    pub(crate) fn on_write(
        &self,
        server: ServerId,
        peer: DcId,
        received: [u64; 2],
    ) -> Option<Message> {
        let last = self.last.get(&(server, peer)).filter(|_| self.has(Bug::AcknowledgesBeforeSync));
        last.map(|last| {
            with_acknowledgements(last.clone(), |lane, count| count.max(received[lane.index()]))
        })
    }

    /// Changes a received message, so that the session or the server accepts what it must reject. `own` is the
    /// incarnation of the receiver, `received` the number of frames that it has received.
    pub(crate) fn on_arrival(
        &mut self,
        (at, from): (ServerId, DcId),
        message: Bytes,
        own: u64,
        received: [u64; 2],
    ) -> Bytes {
        let Some(bug) = self.bug else { return message };
        if bug == Bug::AcceptsDamage && message.len() > HEADER_BYTES {
            return with_valid_crc(&message).into();
        }

        if !is_whole(&message) {
            return message;
        }
        if message[KIND] == HELLO {
            self.hellos.insert((at, from), u64_at(&message, FROM));
            return message;
        }

        let mut bytes = message.to_vec();
        match bug {
            Bug::KeepsIncarnation => put_u64(&mut bytes, TO, own),
            Bug::AcceptsStaleIncarnation => {
                let accepted = self.hellos.get(&(at, from)).copied().unwrap_or(1);
                put_u64(&mut bytes, FROM, accepted);
                put_u64(&mut bytes, TO, own);
            }
            _ => {}
        }

        let Some(lane) = lane_of(&message) else {
            reseal(&mut bytes);
            return if bytes == message { message } else { bytes.into() };
        };
        let number = u64_at(&message, NUMBER);
        let highest = &mut self.arrived.entry((at, from)).or_default()[lane.index()];
        *highest = number.max(*highest);

        match bug {
            Bug::AcceptsRepeats if number <= received[lane.index()] => {
                put_u64(&mut bytes, NUMBER, received[lane.index()] + 1);
            }
            Bug::SwapsControl if lane == Lane::Control => {
                put_u64(
                    &mut bytes,
                    NUMBER,
                    if number.is_multiple_of(2) { number - 1 } else { number + 1 },
                );
            }
            Bug::KeepsEarlyFrames => {
                let is_early = number > received[lane.index()] + 1;
                self.keep_early((at, from, lane, number), own, &message, is_early, &mut bytes);
            }
            _ => {
                let frame = message.slice(HEADER_BYTES..);
                self.replace_frame((at, from, lane, number), frame, &mut bytes);
            }
        }

        reseal(&mut bytes);
        bytes.into()
    }

    /// Replaces the frame of a received message by the one that the core handles in its place, and keeps the original.
    fn replace_frame(
        &mut self,
        (at, from, lane, number): (ServerId, DcId, Lane, u64),
        frame: Bytes,
        message: &mut Vec<u8>,
    ) {
        if lane == Lane::Control
            && matches!(decode_control(&frame), Ok(ControlMessage::Rebuild { .. }))
        {
            self.copied.insert((at, from));
        }
        let mut changed = self.on_taken((at, from), lane, frame.clone());
        if lane == Lane::Data {
            self.exchange.on_arrival(at, &frame);
            changed = self.exchange.on_taken(changed);
        }
        if changed == frame {
            return;
        }

        self.originals.insert((at, from, lane, number), frame);
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&message[..HEADER_BYTES]);
        *message = remade(Message { header, frame: Bytes::new() }, changed).to_bytes().into();
    }

    /// Keeps the frame of a whole message that has arrived early, and replaces the frame of a later message of its number.
    fn keep_early(
        &mut self,
        key: (ServerId, DcId, Lane, u64),
        own: u64,
        whole: &Bytes,
        is_early: bool,
        message: &mut Vec<u8>,
    ) {
        if with_valid_crc(whole) != *whole {
            return;
        }

        // A receiver that has crashed has kept nothing.
        let kept = self.early.get(&key).filter(|(receiver, _)| *receiver == own);
        if let Some((_, frame)) = kept {
            let mut header = [0; HEADER_BYTES];
            header.copy_from_slice(&message[..HEADER_BYTES]);
            let frame = frame.clone();
            let sent = Message { header, frame: whole.slice(HEADER_BYTES..) };
            *message = remade(sent, frame).to_bytes().into();
        } else if is_early {
            self.early.insert(key, (own, whole.slice(HEADER_BYTES..)));
        }
    }

    /// The received frame, if the server has handled a changed one.
    pub(crate) fn original(
        &self,
        (at, from): (ServerId, DcId),
        lane: Lane,
        number: u64,
        frame: Bytes,
    ) -> Bytes {
        self.originals.get(&(at, from, lane, number)).cloned().unwrap_or(frame)
    }

    /// The records that are written in place of others.
    pub(crate) fn on_entries(&mut self, mut entries: Vec<Bytes>) -> Vec<Bytes> {
        if self.has(Bug::SkipsLog) {
            entries.retain(|_| {
                self.records += 1;
                !self.records.is_multiple_of(5)
            });
        }
        entries
    }

    /// Changes the contents of a node's disk at its start.
    pub(crate) fn on_recovery(&self, node: NodeId, found: &mut Found) {
        let first = found.records.first().map(|(number, _)| *number);
        match (self.bug, &mut found.checkpoint) {
            (Some(Bug::ReplaysOneTooMany), Some((next, _))) if first < Some(*next) => *next -= 1,
            (Some(Bug::ReplaysOneTooFew), Some((next, _))) => *next += 1,
            (Some(Bug::ForgetsResidualsAtRecovery), Some((_, state))) => {
                let tensors = state.tensors.values_mut();
                let carried = tensors.filter(|tensor| tensor.content == Content::Changes);
                carried.for_each(|tensor| tensor.values.fill(0.0));
            }
            (Some(Bug::CutsTailTooFar), _) if matches!(node, NodeId::Server(_)) => {
                found.records.pop();
            }
            (_, Some((_, state))) if matches!(node, NodeId::Server(_)) => {
                self.exchange.on_recovery(state);
            }
            _ => {}
        }
    }

    /// Records that a worker has reconnected to a server.
    pub(crate) fn on_join(&mut self, server: ServerId, worker: WorkerId) {
        if self.has(Bug::AddsUpdateTwice) {
            self.rejoined.insert((server, worker));
        }
    }

    /// The message that a server handles in place of a worker's message. Its data center is at `clock`.
    pub(crate) fn on_worker_message(
        &mut self,
        server: ServerId,
        worker: WorkerId,
        message: WorkerMessage,
        clock: Clock,
    ) -> WorkerMessage {
        let WorkerMessage::Update { clock: read, at, deltas, probed, learning_rate_factor, keeps } =
            message
        else {
            return message;
        };
        let times = match self.bug {
            Some(Bug::AddsUpdateTwice) if self.rejoined.remove(&(server, worker)) => 2.0,
            Some(Bug::CountsLateUpdateTwice) if at < clock => 2.0,
            Some(Bug::ForgetsLateUpdate) if at < clock => 0.0,
            _ => 1.0,
        };
        let deltas = match times {
            1.0 => deltas,
            times => deltas.scaled(deltas.tables().map(|_| times)),
        };
        WorkerMessage::Update { clock: read, at, deltas, probed, learning_rate_factor, keeps }
    }

    /// The frame that the core handles in place of another.
    fn on_taken(&self, (at, from): (ServerId, DcId), lane: Lane, frame: Bytes) -> Bytes {
        match (self.bug, lane) {
            (Some(Bug::IgnoresAnnouncements), Lane::Control) => with_control(&frame, |message| {
                if let ControlMessage::Announce { indexes, .. } = message {
                    let mut none = Vec::new();
                    encode_indexes(&[], &mut none);
                    *indexes = none.into();
                }
            }),
            (Some(Bug::CountsClockOneFrameEarly), Lane::Control) => {
                with_clock_one_frame_early(&frame)
            }
            (Some(Bug::CountsClockOneFrameEarlyAfterCopy), Lane::Control)
                if self.copied.contains(&(at, from)) =>
            {
                with_clock_one_frame_early(&frame)
            }
            (Some(Bug::DrainDiffers), Lane::Data) => with_change(&frame, |kind, value| {
                if kind == BulkKind::DrainResult {
                    *value += f32::from(at.dc.0) + 1.0;
                }
            }),
            (Some(Bug::CountsLatePartTwice), Lane::Data) if self.is_late(at, &frame) => {
                with_change(&frame, |_, value| *value *= 2.0)
            }
            (Some(Bug::ForgetsLatePart), Lane::Data) if self.is_late(at, &frame) => {
                with_change(&frame, |_, value| *value = 0.0)
            }
            (Some(Bug::AddsElsewhere), Lane::Data) => with_change(&frame, |kind, value| {
                if matches!(kind, BulkKind::Update | BulkKind::Total) {
                    *value += 1.0;
                }
            }),
            _ => frame,
        }
    }

    /// Whether a frame is of a part of a round of which the home `at` has sent its total.
    fn is_late(&self, at: ServerId, frame: &[u8]) -> bool {
        let clock = clock_of(frame, BulkKind::Partial);
        clock.is_some_and(|clock| self.totals.contains(&(at, clock)))
    }
}

/// The clock of a bulk frame of this kind. `None` for other frames.
fn clock_of(frame: &[u8], kind: BulkKind) -> Option<Clock> {
    let (header, _) = peek_bulk(frame).ok()?;
    (header.kind == kind).then_some(header.clock)
}

/// A bulk frame with its first value changed.
fn with_change(frame: &Bytes, change: impl Fn(BulkKind, &mut f32)) -> Bytes {
    let mut buffers = Buffers::default();
    let Ok((header, changes)) = decode_bulk(frame, 1 << 20, &mut buffers) else {
        return frame.clone();
    };
    let mut values = changes.values().to_vec();
    let Some(first) = values.first_mut() else { return frame.clone() };
    let before = *first;
    change(header.kind, first);

    if *first == before {
        return frame.clone();
    }
    let changed = match changes {
        Changes::Dense { start, .. } => Changes::Dense { start, values: &values },
        Changes::Sparse { indexes, .. } => Changes::Sparse { indexes, values: &values },
    };
    let mut out = Vec::new();
    encode_bulk(&header, changed, ValueFormat::F32, &mut out);

    out.into()
}

fn with_control(frame: &Bytes, change: impl Fn(&mut ControlMessage)) -> Bytes {
    let Ok(mut message) = decode_control(frame) else { return frame.clone() };
    change(&mut message);
    let mut out = Vec::new();
    encode_control(&message, &mut out);
    out.into()
}

/// A control frame in which a mirror clock is reported some clocks early.
fn with_clock_early(frame: &Bytes) -> Bytes {
    with_control(frame, |message| {
        if let ControlMessage::MirrorClock { clock, .. } = message {
            *clock = Clock(clock.0 + 3);
        }
    })
}

/// A control frame in which a mirror clock counts one frame before the last one that it covers.
fn with_clock_one_frame_early(frame: &Bytes) -> Bytes {
    with_control(frame, |message| {
        if let ControlMessage::MirrorClock { sequence, .. } = message {
            *sequence = sequence.saturating_sub(1);
        }
    })
}

/// A message with changed acknowledgements.
fn with_acknowledgements(mut message: Message, received: impl Fn(Lane, u64) -> u64) -> Message {
    for lane in Lane::ALL {
        let at = RECEIVED + 8 * lane.index();
        let count = received(lane, u64_at(&message.header, at));
        put_u64(&mut message.header, at, count);
    }
    reseal(&mut message.header);
    message
}
