//! The counters of a server. The driver exports them.

use serde::{Deserialize, Serialize};

use crate::types::DcId;

/// The frames that one server has sent to one mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStats {
    /// The size of data frames in bytes.
    pub data_bytes: u64,
    /// The part of `data_bytes` that a hub forwarded for other data centers: each frame's bytes, in proportion to its
    /// updates.
    pub relayed_bytes: u64,
    /// The size of control frames in bytes.
    pub control_bytes: u64,
    /// The number of frames.
    pub frames: u64,
    /// The number of parameter changes in the frames.
    pub updates: u64,
    /// The number of parameters that this data center changed, counted once for each clock.
    pub changes: u64,
    /// How many of `changes` were sent on the link.
    pub carried: u64,
    /// The number of parameters that selective barriers announced.
    pub announced: u64,
}

impl LinkStats {
    /// The share of `changes` that was carried, 0 to 1. `None` if nothing has changed. Nodes report the counters, so that `carried`
    /// may exceed `changes`.
    pub fn carried_fraction(&self) -> Option<f64> {
        (self.changes > 0).then(|| (self.carried as f64 / self.changes as f64).min(1.0))
    }

    /// Adds other counters. Nodes report them and may claim any number, so no sum exceeds the largest one.
    pub fn add(&mut self, other: &Self) {
        let Self {
            data_bytes,
            relayed_bytes,
            control_bytes,
            frames,
            updates,
            changes,
            carried,
            announced,
        } = self;
        for (sum, count) in [
            (data_bytes, other.data_bytes),
            (relayed_bytes, other.relayed_bytes),
            (control_bytes, other.control_bytes),
            (frames, other.frames),
            (updates, other.updates),
            (changes, other.changes),
            (carried, other.carried),
            (announced, other.announced),
        ] {
            *sum = sum.saturating_add(count);
        }
    }
}

/// How often deadlines of one server's brakes have passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrakeStats {
    /// The number of announced parameters whose deadline passed before their update arrived.
    pub announcements_expired: u64,
    /// How often a silent mirror was excluded.
    pub mirrors_lost: u64,
}

/// The sequence numbers of the last frames of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The data center at the other end.
    pub peer: DcId,
    /// The last frame sent to the peer.
    pub sent: u64,
    /// The last frame of the peer that was applied.
    pub received: u64,
}
