//! Logical time, counted in finished iterations.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number of finished iterations. A worker is at clock 0 during its first iteration.
///
/// The clock of a data center is the smallest clock of its workers, or with a quorum of workers the largest that so many of
/// them have reached.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Clock(pub u64);

/// The allowed difference between two clocks, in clocks. 0 is bulk synchronous.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Staleness(pub u64);

impl Clock {
    /// The clock of the first iteration.
    pub const ZERO: Self = Self(0);

    /// The clock after one more iteration.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// How many clocks `self` is ahead of `other`. 0 if `self` is behind.
    pub fn ahead_of(self, other: Self) -> u64 {
        self.0.saturating_sub(other.0)
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
