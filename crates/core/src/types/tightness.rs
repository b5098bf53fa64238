//! The tightness of a run: how far the guard against skew has reduced thresholds, local steps and staleness.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The request of a guard against skew, in steps from 0 to 6.
///
/// Each step divides thresholds, local steps and allowed differences of clocks by four.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "u8")]
pub struct Tightness(u8);

impl Tightness {
    /// The settings as they are.
    pub const NONE: Self = Self(0);
    /// The settings divided by 4096.
    pub const MOST: Self = Self(6);

    /// A tightness of `steps` steps. `None` above [`Self::MOST`].
    pub fn new(steps: u8) -> Option<Self> {
        (steps <= Self::MOST.0).then_some(Self(steps))
    }

    /// The number of steps.
    pub fn steps(self) -> u8 {
        self.0
    }

    /// The smallest tightness that reduces `clocks` to 1. [`Self::MOST`] if none does.
    pub fn most_of_clocks(clocks: u64) -> Self {
        let steps = (0..Self::MOST.0).find(|steps| Self(*steps).of_clocks(clocks) == 1);
        steps.map_or(Self::MOST, Self)
    }

    /// `steps` steps tighter, at most [`Self::MOST`].
    pub fn tighter(self, steps: u8) -> Self {
        Self(self.0.saturating_add(steps).min(Self::MOST.0))
    }

    /// One step looser, at least [`Self::NONE`].
    pub fn looser(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// A threshold after the reduction.
    pub fn of_threshold(self, threshold: f64) -> f64 {
        threshold / f64::from(1_u32 << (2 * self.0))
    }

    /// A number of clocks after the reduction, rounded down, at least 1.
    pub fn of_clocks(self, clocks: u64) -> u64 {
        (clocks >> (2 * self.0)).max(1)
    }
}

impl TryFrom<u8> for Tightness {
    type Error = String;

    fn try_from(steps: u8) -> Result<Self, String> {
        let beyond = || format!("found {steps} steps, expected at most {}", Self::MOST);
        Self::new(steps).ok_or_else(beyond)
    }
}

impl fmt::Display for Tightness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_quarter_down_to_one_clock_and_end() {
        let two = Tightness::NONE.tighter(2);
        assert_eq!((two.of_threshold(0.32), two.of_clocks(100), two.of_clocks(10)), (0.02, 6, 1));
        assert_eq!(two.tighter(200), Tightness::MOST);
        assert_eq!(Tightness::NONE.looser(), Tightness::NONE);
        assert_eq!((Tightness::new(6), Tightness::new(7)), (Some(Tightness::MOST), None));
        assert_eq!(Tightness::NONE.of_clocks(7), 7);
        let most = [1, 4, 10, 16, 1 << 40].map(|clocks| Tightness::most_of_clocks(clocks).0);
        assert_eq!(most, [0, 1, 2, 2, 6]);
    }
}
