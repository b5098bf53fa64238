//! Bugs planted around the core, to see whether checkers would catch them.
//!
//! Each is a small change to what passes between a server, its session and the network, as a mistake in one of them
//! would make it. Without a bug nothing here does anything.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::codec::{Buffers, Changes, ValueFormat};
use crate::session::{HEADER_BYTES, Message};
use crate::sync::{Brake, RemoteSync};
use crate::types::{Clock, DcId, Lane, ServerId};
use crate::wire::{
    BulkKind, ControlMessage, decode_bulk, decode_control, encode_bulk, encode_control,
};

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// The session passes on what comes again.
    AcceptsRepeats,
    /// A hello counts one data frame too many as received.
    WatermarkOffByOne,
    /// A frame is acknowledged when it comes, though those before it have not.
    AcknowledgesBeforeDelivery,
    /// After a reconnect sending goes on one frame too late.
    ResendsFromWrongNumber,
    /// What has come is never acknowledged.
    NeverAcknowledges,
    /// A damaged message is taken for a whole one.
    AcceptsDamage,
    /// A connection that broke stays broken.
    NeverReconnects,
    /// Frames are cut whatever is under way.
    IgnoresWindow,
    /// Data is given to a link that has no room.
    IgnoresLinkRate,
    /// Control frames leave in pairs, the later first.
    SwapsControl,
    /// Cutting a frame counts one change as sent that is not in it.
    ForgetsResidual,
    /// A mirror clock is reported some clocks early.
    ReportsClockEarly,
    /// Reads do not wait for slow mirrors.
    IgnoresMirrorClock,
    /// Reads do not wait for announced parameters.
    IgnoresAnnouncements,
    /// The last update counts as one after the end.
    DrainEndsEarly,
    /// One value of the drain's result is another in each data center.
    DrainDiffers,
    /// An update is added to a value that is not the one meant.
    AddsElsewhere,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 17] = [
        Self::AcceptsRepeats,
        Self::WatermarkOffByOne,
        Self::AcknowledgesBeforeDelivery,
        Self::ResendsFromWrongNumber,
        Self::NeverAcknowledges,
        Self::AcceptsDamage,
        Self::NeverReconnects,
        Self::IgnoresWindow,
        Self::IgnoresLinkRate,
        Self::SwapsControl,
        Self::ForgetsResidual,
        Self::ReportsClockEarly,
        Self::IgnoresMirrorClock,
        Self::IgnoresAnnouncements,
        Self::DrainEndsEarly,
        Self::DrainDiffers,
        Self::AddsElsewhere,
    ];
}

/// Commits one bug.
pub(super) struct Saboteur {
    bug: Option<Bug>,
    /// The highest number that has come to each end, by lane.
    arrived: BTreeMap<(ServerId, DcId), [u64; 2]>,
    /// Control frames that wait for the next to overtake them.
    swapped: BTreeMap<(ServerId, DcId), Bytes>,
}

impl Saboteur {
    pub(super) fn new(bug: Option<Bug>) -> Self {
        Self { bug, arrived: BTreeMap::new(), swapped: BTreeMap::new() }
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// The model that servers run, where they run another than they should.
    pub(super) fn remote(&self, remote: &RemoteSync) -> RemoteSync {
        let mut remote = remote.clone();
        if let RemoteSync::Asp(asp) = &mut remote
            && self.has(Bug::IgnoresMirrorClock)
        {
            asp.mirror_clock = Brake::Off;
        }
        remote
    }

    /// What the core should have made of a frame, changed to what it makes of it.
    pub(super) fn on_made(&self, lane: Lane, frame: Bytes) -> Bytes {
        match (self.bug, lane) {
            (Some(Bug::ForgetsResidual), Lane::Data) => with_change(&frame, |_, value| {
                *value = 0.0;
            }),
            (Some(Bug::ReportsClockEarly), Lane::Control) => with_control(&frame, |message| {
                if let ControlMessage::MirrorClock { clock, .. } = message {
                    *clock = Clock(clock.0 + 3);
                }
            }),
            (Some(Bug::DrainEndsEarly), Lane::Control) => with_control(&frame, |message| {
                if let ControlMessage::EndOfUpdates { sequence } = message {
                    *sequence = sequence.saturating_sub(1);
                }
            }),
            _ => frame,
        }
    }

    /// The frames that are handed to a session in place of one.
    pub(super) fn on_cut(
        &mut self,
        from: ServerId,
        to: DcId,
        lane: Lane,
        frame: Bytes,
    ) -> Vec<Bytes> {
        if self.has(Bug::SwapsControl) && lane == Lane::Control {
            return match self.swapped.remove(&(from, to)) {
                Some(earlier) => vec![frame, earlier],
                None => {
                    self.swapped.insert((from, to), frame);
                    Vec::new()
                }
            };
        }
        vec![frame]
    }

    /// The message that leaves in place of one; `again` says that it is the first after a reconnect.
    pub(super) fn on_message(
        &self,
        from: ServerId,
        to: DcId,
        message: Message,
        again: bool,
    ) -> Option<Message> {
        let is_hello = message.header[KIND] == HELLO;
        let arrived = self.arrived.get(&(from, to)).copied().unwrap_or_default();
        match self.bug {
            Some(Bug::ResendsFromWrongNumber) if again => None,
            Some(Bug::WatermarkOffByOne) if is_hello => Some(retold(message, |lane, received| {
                if lane == Lane::Data && received > 0 { received + 1 } else { received }
            })),
            Some(Bug::AcknowledgesBeforeDelivery) if !is_hello => {
                Some(retold(message, |lane, received| received.max(arrived[lane.index()])))
            }
            Some(Bug::NeverAcknowledges) => Some(retold(message, |_, _| 0)),
            _ => Some(message),
        }
    }

    /// Notes a message that has come, and changes it where the session is to take what it should not.
    pub(super) fn on_arrival(&mut self, at: ServerId, from: DcId, message: Bytes) -> Bytes {
        if let (Some(lane), true) = (lane_of(&message), message.len() >= HEADER_BYTES) {
            let number = u64_at(&message, NUMBER);
            let highest = &mut self.arrived.entry((at, from)).or_default()[lane.index()];
            *highest = number.max(*highest);
        }
        if self.has(Bug::AcceptsDamage) && message.len() > HEADER_BYTES {
            let mut bytes = message.to_vec();
            let crc = crc32fast::hash(&bytes[HEADER_BYTES..]);
            bytes[FRAME_CRC..FRAME_CRC + 4].copy_from_slice(&crc.to_le_bytes());
            reseal(&mut bytes);
            return bytes.into();
        }
        message
    }

    /// The frame that the session passes on though it was passed on before.
    pub(super) fn repeated(&self, message: &Bytes, received: [u64; 2]) -> Option<(Lane, Bytes)> {
        let lane = lane_of(message).filter(|_| self.has(Bug::AcceptsRepeats))?;
        let old = u64_at(message, NUMBER) <= received[lane.index()];
        old.then(|| (lane, message.slice(HEADER_BYTES..)))
    }

    /// The frame that the core takes in place of one, if any.
    pub(super) fn on_taken(&self, at: ServerId, lane: Lane, frame: Bytes) -> Option<Bytes> {
        match (self.bug, lane) {
            (Some(Bug::IgnoresAnnouncements), Lane::Control) => {
                let message = decode_control(&frame).ok();
                let announces = matches!(message, Some(ControlMessage::Announce { .. }));
                (!announces).then_some(frame)
            }
            (Some(Bug::DrainDiffers), Lane::Data) => Some(with_change(&frame, |kind, value| {
                if kind == BulkKind::DrainResult {
                    *value += f32::from(at.dc.0) + 1.0;
                }
            })),
            (Some(Bug::AddsElsewhere), Lane::Data) => Some(with_change(&frame, |kind, value| {
                if matches!(kind, BulkKind::Update | BulkKind::Total) {
                    *value += 1.0;
                }
            })),
            _ => Some(frame),
        }
    }
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

/// A message that tells other counts of what was received.
fn retold(mut message: Message, received: impl Fn(Lane, u64) -> u64) -> Message {
    for lane in Lane::ALL {
        let at = RECEIVED + 8 * lane.index();
        let count = received(lane, u64_at(&message.header, at));
        message.header[at..at + 8].copy_from_slice(&count.to_le_bytes());
    }
    reseal(&mut message.header);
    message
}

fn reseal(bytes: &mut [u8]) {
    let crc = crc32fast::hash(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

fn lane_of(message: &[u8]) -> Option<Lane> {
    match message.get(KIND) {
        Some(1) => Some(Lane::Control),
        Some(2) => Some(Lane::Data),
        _ => None,
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

/// Where a session's header has its fields.
const KIND: usize = 6;
const FRAME_CRC: usize = 12;
const NUMBER: usize = 32;
const RECEIVED: usize = 40;
const HELLO: u8 = 0;
