//! Logical time: iterations finished.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Iterations finished. A worker that works on its first iteration is at clock 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Clock(pub u64);

/// The allowed difference between two clocks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Staleness(pub u64);

impl Clock {
    /// Before the first iteration has ended.
    pub const ZERO: Self = Self(0);

    /// The clock after one more iteration.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// How many clocks `self` is ahead of `other`; 0 where it is behind.
    pub fn ahead_of(self, other: Self) -> u64 {
        self.0.saturating_sub(other.0)
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
