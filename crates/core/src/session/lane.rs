//! One lane of a session: the sent frames that are not acknowledged, and the received frames.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{HEADER_BYTES, SessionError};
use crate::types::Lane;

/// The frames of this end that are not acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    /// The number of the last frame.
    last: u64,
    /// The latest frames, up to `last`. Those before were acknowledged.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    /// How many frames at the end of `kept` were not sent on this connection.
    unsent: usize,
}

/// The frames of the other end.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    /// The number of the last frame that was passed on. All before it were, too.
    passed: u64,
    /// The frames that were received and not passed on, by number.
    early: BTreeMap<u64, Bytes>,
    early_bytes: usize,
}

/// The durable state of one lane. With it no frame is lost or duplicated by a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneState {
    /// The number of the last frame sent.
    pub last: u64,
    /// The frames up to `last` that were not acknowledged.
    pub kept: VecDeque<Bytes>,
    /// The number of frames of the peer that were passed on.
    pub received: u64,
}

impl Outgoing {
    pub(super) fn resume(state: &LaneState) -> Self {
        let kept = state.kept.clone();
        let kept_bytes = kept.iter().map(cost).sum();
        Self { last: state.last, kept_bytes, unsent: kept.len(), kept }
    }

    pub(super) fn push(&mut self, frame: Bytes) {
        self.last += 1;
        self.kept_bytes += cost(&frame);
        self.kept.push_back(frame);
        self.unsent += 1;
    }

    /// The next frame to send on this connection, with its number.
    pub(super) fn next(&mut self) -> Option<(u64, Bytes)> {
        let place = self.kept.len() - self.unsent;
        let frame = self.kept.get(place)?.clone();
        self.unsent -= 1;
        Some((self.acknowledged() + place as u64 + 1, frame))
    }

    /// Checks that a peer can have received this number of frames.
    pub(super) fn check(&self, lane: Lane, received: u64) -> Result<(), SessionError> {
        if received <= self.last {
            Ok(())
        } else {
            Err(SessionError::PeerReceivedUnsent { lane, received, sent: self.last })
        }
    }

    /// Discards the frames up to a number. An acknowledgement is never revoked.
    pub(super) fn acknowledge(&mut self, received: u64) {
        while self.acknowledged() < received
            && let Some(frame) = self.kept.pop_front()
        {
            self.kept_bytes -= cost(&frame);
        }
        self.unsent = self.unsent.min(self.kept.len());
    }

    /// Schedules all kept frames to be sent again.
    pub(super) fn rewind(&mut self) {
        self.unsent = self.kept.len();
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.last - self.kept.len() as u64
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    pub(super) fn kept(&self) -> impl Iterator<Item = &Bytes> {
        self.kept.iter()
    }

    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

impl Incoming {
    pub(super) fn resume(state: &LaneState) -> Self {
        Self { passed: state.received, early: BTreeMap::new(), early_bytes: 0 }
    }

    /// Whether a frame was received before.
    pub(super) fn has(&self, number: u64) -> bool {
        number <= self.passed || self.early.contains_key(&number)
    }

    /// The size in bytes of the waiting frames if one more is added, without the latest of them. The last frame of a
    /// correct peer may exceed its window.
    pub(super) fn early_bytes_with(&self, number: u64, frame: &Bytes) -> usize {
        let latest = self.early.last_key_value().filter(|(latest, _)| **latest > number);
        let latest = latest.map_or(frame, |(_, latest)| latest);
        self.early_bytes + cost(frame) - cost(latest)
    }

    pub(super) fn insert(&mut self, number: u64, frame: Bytes) {
        self.early_bytes += cost(&frame);
        self.early.insert(number, frame);
    }

    /// The next frame in turn, if it has come.
    pub(super) fn in_turn(&self) -> Option<&Bytes> {
        self.early.get(&(self.passed + 1))
    }

    /// The next frame counts as received; answers with it, if it waits here.
    pub(super) fn pass_on(&mut self) -> Option<Bytes> {
        self.passed += 1;
        let frame = self.early.remove(&self.passed)?;
        self.early_bytes -= cost(&frame);
        Some(frame)
    }

    /// Discards the frames that were not passed on.
    pub(super) fn forget_early(&mut self) {
        self.early.clear();
        self.early_bytes = 0;
    }

    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    pub(super) fn early_bytes(&self) -> usize {
        self.early_bytes
    }
}

/// The size of a frame as it counts for windows. The header is included, so that empty frames count.
fn cost(frame: &Bytes) -> usize {
    HEADER_BYTES + frame.len()
}
