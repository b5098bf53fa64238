//! The range of each kind of figure, and its check.
//!
//! The bounds are wide. They ensure that no later sum, product or conversion to a duration overflows.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::document::{Fault, Node, Problem};
use gaia_core::types::limits::CLOCK_MAX;
use gaia_core::types::{Bandwidth, ByteSize, DurationSetting};

/// Checks of the figures in one tree. Each check names a dotted key, and its error shows the place of that key.
pub(crate) struct Checks<'n> {
    pub(crate) root: &'n Node,
}

/// The numbers that a setting takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) expected: &'static str,
    /// Whether `low` itself is refused.
    pub(crate) open: bool,
    /// Whether `high` itself is refused.
    pub(crate) below: bool,
}

impl Range {
    const fn closed(low: f64, high: f64, expected: &'static str) -> Self {
        Self { low, high, expected, open: false, below: false }
    }

    const fn above(low: f64, high: f64, expected: &'static str) -> Self {
        Self { low, high, expected, open: true, below: false }
    }

    fn contains(&self, value: f64) -> bool {
        let low = if self.open { value > self.low } else { value >= self.low };
        let high = if self.below { value < self.high } else { value <= self.high };
        low && high
    }
}

impl Checks<'_> {
    pub(crate) fn number(&self, path: &str, value: f64, range: Range) -> Result<(), Problem> {
        if range.contains(value) { Ok(()) } else { Err(self.wrong(path, value, range.expected)) }
    }

    pub(crate) fn count(&self, path: &str, value: usize, max: usize) -> Result<(), Problem> {
        if (1..=max).contains(&value) {
            return Ok(());
        }
        Err(self.wrong(path, value, format!("a whole number from 1 to {max}")))
    }

    /// A whole number from `min` to [`CLOCKS_MAX`].
    pub(crate) fn clocks(&self, path: &str, value: u64, min: u64) -> Result<(), Problem> {
        if (min..=CLOCKS_MAX).contains(&value) {
            return Ok(());
        }
        Err(self.wrong(path, value, format!("a whole number of clocks from {min} to {CLOCKS_MAX}")))
    }

    pub(crate) fn time(
        &self,
        path: &str,
        value: DurationSetting,
        max: DurationSetting,
    ) -> Result<(), Problem> {
        if value <= max { Ok(()) } else { Err(self.wrong(path, value, format!("at most {max}"))) }
    }

    pub(crate) fn bandwidth(
        &self,
        path: &str,
        bits_per_second: impl Into<BitsPerSecond>,
    ) -> Result<(), Problem> {
        let bits = bits_per_second.into().0;
        if BANDWIDTH.contains(&bits) {
            return Ok(());
        }
        let expected = "a bandwidth from 1 kbit/s to 100000 Gbit/s, `bandwidth_scale` applied";
        Err(self.found(path, format!("{bits} bit/s"), expected.to_owned()))
    }

    /// A name that is valid in a path, in a metric and in a table on the terminal.
    pub(crate) fn name(&self, path: &str, value: &str) -> Result<(), Problem> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !value.is_empty() && value.len() <= NAME_BYTES_MAX && value.chars().all(fits) {
            return Ok(());
        }
        let expected = format!("1 to {NAME_BYTES_MAX} letters, digits, `-` or `_`");
        Err(self.wrong(path, value, expected))
    }

    pub(crate) fn wrong(
        &self,
        path: &str,
        found: impl Display,
        expected: impl Into<String>,
    ) -> Problem {
        self.found(path, found.to_string(), expected.into())
    }

    pub(crate) fn found(&self, path: &str, found: String, expected: String) -> Problem {
        self.root.problem(path, Fault::Wrong { found, expected, help: None })
    }
}

/// A rate that may be outside of what [`Bandwidth`] allows.
pub(crate) struct BitsPerSecond(f64);

impl From<f64> for BitsPerSecond {
    fn from(bits: f64) -> Self {
        Self(bits)
    }
}

impl From<Bandwidth> for BitsPerSecond {
    fn from(bandwidth: Bandwidth) -> Self {
        Self(bandwidth.bits_per_second())
    }
}

pub(crate) const BANDWIDTH: RangeInclusive<f64> = 1e3..=1e14;
pub(crate) const RTT_MAX: DurationSetting = DurationSetting(Duration::from_secs(60));
pub(crate) const QUEUE_TIME_MAX: DurationSetting = DurationSetting(Duration::from_secs(60));
/// From one packet up.
pub(crate) const QUEUE_BYTES: RangeInclusive<u64> = 1_500..=1 << 40;
pub(crate) const SCALE: Range = Range::above(0.0, 1e6, "a number above 0, at most 1000000");
pub(crate) const LOSS: Range =
    Range { low: 0.0, high: 1.0, expected: "a share from 0 to below 1", open: false, below: true };
pub(crate) const THRESHOLD: Range = Range::above(0.0, 1e6, "a number above 0, at most 1000000");
/// The largest norm, and the largest multiple of one: the norm of the largest update to the largest model is below it.
pub(crate) const NORM: Range = Range::above(0.0, 1e30, "a number above 0, at most 1e30");
pub(crate) const NORM_TIMES: Range = Range::closed(1.0, 1e6, "a number from 1 to 1000000");
pub(crate) const SHARE: Range = Range::above(0.0, 1.0, "a share above 0, at most 1");
pub(crate) const OUTER_RATE: Range = Range::above(0.0, 100.0, "a number above 0, at most 100");
pub(crate) const MOMENTUM: Range =
    Range { low: 0.0, high: 1.0, expected: "a share from 0 to below 1", open: false, below: true };
pub(crate) const DRIFT_CORRECTION: Range = Range::closed(0.0, 1.0, "a share from 0 to 1");
pub(crate) const RATE: Range = Range::closed(1e-3, 1e18, "a rate from 0.001 to 1e18");
pub(crate) const JITTER: Range = Range::closed(0.0, 2.0, "a sigma from 0 to 2");
pub(crate) const SLOWDOWN: Range = Range::closed(1e-3, 1e3, "a factor from 0.001 to 1000");
pub(crate) const SECONDS: Range = Range::above(0.0, 1e9, "seconds above 0, at most 1e9");
pub(crate) const OBJECTIVE: Range = Range::closed(f64::MIN, f64::MAX, "a number");
pub(crate) const PERCENT: Range = Range::above(0.0, 100.0, "a percentage above 0, at most 100");
pub(crate) const PRICE: Range = Range::closed(0.0, 1e6, "US dollars from 0 to 1000000");
pub(crate) const OVERHEAD_MAX: DurationSetting = DurationSetting(Duration::from_secs(3600));
/// A day.
pub(crate) const DEADLINE_MAX: DurationSetting = DurationSetting(Duration::from_secs(86_400));
/// Thirty days.
pub(crate) const GIVE_UP_MAX: DurationSetting = DurationSetting(Duration::from_secs(30 * 86_400));
pub(crate) const BULKY_MAX: ByteSize = ByteSize(100_000_000_000);
pub(crate) const CLOCKS_MAX: u64 = CLOCK_MAX;
/// A larger difference of clocks would never hold a read back.
pub(crate) const STALENESS_MAX: u64 = 1 << 20;
/// Clocks between two rounds. There are at most as many fragments, which are searched one by one.
pub(crate) const STEPS_MAX: u64 = 10_000;
pub(crate) const GUARD_BOUND: Range = Range::above(0.0, 1e3, "a share above 0, at most 1000");
pub(crate) const GUARD_EXAMPLES_MAX: usize = 1 << 24;
pub(crate) const CHECKPOINTS_MAX: usize = 10_000;
const NAME_BYTES_MAX: usize = 64;
