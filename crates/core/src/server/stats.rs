//! What a server counts. The driver exports it.

use serde::{Deserialize, Serialize};

use crate::types::DcId;

/// What one server sent to one mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStats {
    pub data_bytes: u64,
    /// Of those, what a hub forwarded for others: each frame's bytes, in proportion to its updates.
    pub relayed_bytes: u64,
    pub control_bytes: u64,
    pub frames: u64,
    /// Parameters changed by the frames sent.
    pub updates: u64,
    /// Parameters changed at home, counted once per clock, that this link might have carried.
    pub changes: u64,
    /// Of those, how many the link carried.
    pub carried: u64,
    /// Parameters announced by selective barriers.
    pub announced: u64,
}

/// What one server's brakes had to give up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrakeStats {
    /// Announced parameters whose deadline passed before they came.
    pub announcements_expired: u64,
    /// Times that a silent mirror was left out.
    pub mirrors_lost: u64,
}

/// How far the frames of one link have come, by their sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    pub peer: DcId,
    /// The last that was sent to the peer.
    pub sent: u64,
    /// The last of the peer's that was applied.
    pub received: u64,
}
