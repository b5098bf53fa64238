//! Model traveling: when data centers send each other their copies of the model, to measure them on examples of their own.

use crate::types::Clock;

/// How copies travel (Hsieh, Phanishayee, Mutlu and Gibbons, ICML 2020, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TravelingConfig {
    /// When they do.
    pub due: CopiesDue,
    /// The number of examples that a copy is measured on, at least 1.
    pub examples: usize,
}

/// The clocks at which copies are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiesDue {
    /// At each multiple of so many clocks, at least 1: for the guard, which reacts to what is measured.
    Every(u64),
    /// At clock 10, and each time that the clocks have doubled, so that it costs a run little: to know whether copies part.
    Doubling,
}

impl CopiesDue {
    /// The first clock after `clock` at which a copy is taken.
    pub fn after(self, clock: Clock) -> Clock {
        let number = self.number(clock);
        match self {
            Self::Every(every) => Clock((number + 1).saturating_mul(every)),
            Self::Doubling => Clock(FIRST.0.saturating_mul(2_u64.saturating_pow(number as u32))),
        }
    }

    /// The number of copies that are due up to a clock. Copies of two data centers with the same number are taken about the
    /// same clock.
    pub fn number(self, clock: Clock) -> u64 {
        match self {
            Self::Every(every) => clock.0 / every,
            Self::Doubling => {
                (clock.0 / FIRST.0).checked_ilog2().map_or(0, |log| 1 + u64::from(log))
            }
        }
    }
}

/// A few updates of each data center have crossed the links.
const FIRST: Clock = Clock(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_due_at_multiples_or_each_time_that_the_clocks_have_doubled() {
        let dues = |due: CopiesDue| {
            let mut next = due.after(Clock::ZERO);
            let mut dues = vec![next.0];
            for _ in 0..4 {
                next = due.after(next);
                dues.push(next.0);
            }
            dues
        };
        assert_eq!(dues(CopiesDue::Every(3)), [3, 6, 9, 12, 15]);
        assert_eq!(dues(CopiesDue::Doubling), [10, 20, 40, 80, 160]);
        // A data center that skips clocks takes the copy later.
        assert_eq!(CopiesDue::Doubling.after(Clock(43)), Clock(80));
        assert_eq!(
            [9, 10, 19, 20, 39, 43].map(|at| CopiesDue::Doubling.number(Clock(at))),
            [0, 1, 1, 2, 2, 3]
        );
        assert_eq!(CopiesDue::Doubling.after(Clock(u64::MAX)), Clock(u64::MAX));
    }
}
