//! How fast a link carries what a server gives it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::types::Bandwidth;

/// A moving average of a link's rate, over the data that kept it busy.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct RateEstimate {
    bytes_per_second: f64,
}

impl RateEstimate {
    /// Starts from what the topology says.
    pub(super) fn new(expected: Bandwidth) -> Self {
        Self { bytes_per_second: expected.bytes_per_second() }
    }

    pub(super) fn on_drained(&mut self, bytes: u64, busy: Duration) {
        if bytes == 0 || busy < BUSY_MIN {
            return;
        }
        let measured = bytes as f64 / busy.as_secs_f64();
        self.bytes_per_second += GAIN * (measured - self.bytes_per_second);
    }

    /// How many bytes pass in `time`.
    pub(super) fn bytes_in(self, time: Duration) -> f64 {
        self.bytes_per_second * time.as_secs_f64()
    }
}

/// The weight of the newest measurement: about ten quanta, one clock, are remembered.
const GAIN: f64 = 0.1;

/// A shorter time says more about the clock that measured it than about the link.
const BUSY_MIN: Duration = Duration::from_micros(10);
