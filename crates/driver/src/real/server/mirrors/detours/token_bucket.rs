//! How fast detours may use a link.

use std::time::Duration;

use gaia_core::types::Bandwidth;

/// A token bucket. At most half of the link's rate goes to detours. Datagrams beyond that are dropped, so that the congestion
/// control of their connection slows down.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    rate: Bandwidth,
    bytes_max: f64,
    bytes: f64,
    filled_at: Duration,
}

impl TokenBucket {
    /// For a link with this bandwidth.
    pub(super) fn new(bandwidth: Bandwidth, now: Duration) -> Self {
        let rate = bandwidth.scaled(SHARE);
        let bytes_max = rate.bytes_in(BURST).max(BURST_BYTES_MIN);
        Self { rate, bytes_max, bytes: bytes_max, filled_at: now }
    }

    /// Whether these bytes may be sent now. If so, they are taken.
    pub(super) fn try_take(&mut self, now: Duration, bytes: u64) -> bool {
        let earned = self.rate.bytes_in(now.saturating_sub(self.filled_at));
        self.bytes = (self.bytes + earned).min(self.bytes_max);
        self.filled_at = self.filled_at.max(now);
        let may = self.bytes >= bytes as f64;
        if may {
            self.bytes -= bytes as f64;
        }
        may
    }
}

const SHARE: f64 = 0.5;
const BURST: Duration = Duration::from_millis(100);

/// One datagram of the largest size has to fit.
const BURST_BYTES_MIN: f64 = 8_192.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_leave_half_of_a_link_to_its_own_frames() {
        let bandwidth = Bandwidth::from_mbit(80.0);
        let mut bucket = TokenBucket::new(bandwidth, Duration::ZERO);
        let mut sent = 0;
        for ms in 0..10_000 {
            while bucket.try_take(Duration::from_millis(ms), 1_200) {
                sent += 1_200;
            }
        }
        let half = 10.0 * bandwidth.bytes_in(Duration::from_secs(1)) / 2.0;
        assert!((sent as f64) < half + 600_000.0, "{sent}");
        assert!((sent as f64) > half, "{sent}");
        assert!(!bucket.try_take(Duration::from_secs(100), 10 << 20), "a burst is bounded");
    }

    #[test]
    fn a_thin_link_is_not_flooded_by_a_burst() {
        let mut bucket = TokenBucket::new(Bandwidth::from_mbit(0.064), Duration::ZERO);
        let sent = (0..100).filter(|_| bucket.try_take(Duration::ZERO, 1_200)).count();
        assert_eq!(sent, 6);
    }
}
