//! The budget of a link: a token bucket that is filled at the configured share of the link's rate.
//!
//! The paper adjusts a soft threshold by ±0.005 a step until the link is about full (Hsieh et al., NSDI 2017). That
//! lags behind changes and oscillates otherwise. Here the soft threshold follows from the budget. Updates are taken in
//! order of significance as long as there are tokens, and the significance of the last one is the soft threshold. So no
//! control loop has to converge.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sync::ValueFormat;
use crate::types::Instant;

/// The tokens of one link, in bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Budget {
    tokens: f64,
    filled: Instant,
    /// The moving average of the size of an update in bytes, including its share of the frame's header.
    bytes_per_update: f64,
}

impl Budget {
    /// A budget without tokens. An update is assumed to take `bytes_per_update` until some were sent.
    pub(super) fn new(bytes_per_update: f64) -> Self {
        Self { tokens: 0.0, filled: Instant::ZERO, bytes_per_update }
    }

    /// Adds tokens at `bytes_per_second` for the time since the last call. Both unused tokens and debt are limited to
    /// those of one `clock_time`, so that an idle period does not allow a burst.
    pub(super) fn fill(&mut self, now: Instant, bytes_per_second: f64, clock_time: Duration) {
        let elapsed = now.since(self.filled).as_secs_f64();
        self.filled = now;
        let most = bytes_per_second * clock_time.as_secs_f64() * CLOCKS_KEPT;
        self.tokens = (self.tokens + bytes_per_second * elapsed).clamp(-most, most);
    }

    /// The number of updates for which there are tokens.
    pub(super) fn updates(&self) -> usize {
        (self.tokens / self.bytes_per_update).max(0.0) as usize
    }

    /// Removes the tokens of a frame.
    pub(super) fn spend(&mut self, bytes: usize, updates: usize) {
        self.tokens -= bytes as f64;
        if updates > 0 {
            let cost = bytes as f64 / updates as f64;
            self.bytes_per_update += GAIN * (cost - self.bytes_per_update);
        }
    }
}

/// The assumed size of a sparse update in a frame, in bytes, before any was measured.
pub(super) fn update_bytes(format: ValueFormat) -> f64 {
    format.bytes_per_value() + INDEX_BYTES
}

/// The number of sparse updates in a frame of `bytes`, at least one.
pub(super) fn entries_in(bytes: usize, format: ValueFormat) -> usize {
    ((bytes as f64 / update_bytes(format)) as usize).max(1)
}

/// The size of an index in bytes if one of a hundred parameters changes (benches/codec.rs).
const INDEX_BYTES: f64 = 1.03;

/// The limit of unused tokens in clocks. It is above 1 because clocks vary in length: a long clock may use the tokens
/// of a short one.
const CLOCKS_KEPT: f64 = 1.5;

/// The weight of the newest frame.
const GAIN: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_held_without_swinging_whatever_updates_cost() {
        let clock = Duration::from_secs(1);
        let mut budget = Budget::new(4.0);
        let rate = 10_000.0;
        let mut spent = Vec::new();

        for tick in 1..=200_u64 {
            budget.fill(Instant::from_nanos(tick * 1_000_000_000), rate, clock);
            // Headers and indexes: what the first guess knows nothing of.
            let cost = if tick <= 100 { 2.5 } else { 6.0 };
            let updates = budget.updates();
            let bytes = (updates as f64 * cost) as usize + 40;
            budget.spend(bytes, updates);
            spent.push(bytes as f64);
        }

        for half in [&spent[..100], &spent[100..]] {
            let mean = half.iter().sum::<f64>() / half.len() as f64;
            assert!((mean / rate - 1.0).abs() < 0.02, "{mean}");
            let settled = &half[half.len() - 20..];
            let most =
                settled.iter().fold(0.0_f64, |most, bytes| most.max((bytes / rate - 1.0).abs()));
            assert!(most < 0.02, "{settled:?}");
        }
    }

    #[test]
    fn an_idle_past_is_forgotten_and_a_debt_is_paid_back() {
        let clock = Duration::from_secs(1);
        let mut budget = Budget::new(1.0);
        budget.fill(Instant::from_nanos(60_000_000_000), 1000.0, clock);
        assert_eq!(budget.updates(), 1500);
        budget.spend(2200, 2200);
        budget.fill(Instant::from_nanos(60_500_000_000), 1000.0, clock);
        assert_eq!(budget.updates(), 0);
        budget.fill(Instant::from_nanos(61_000_000_000), 1000.0, clock);
        assert_eq!(budget.updates(), 300);
    }
}
