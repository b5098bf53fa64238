//! The estimate of a link's rate.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::types::Bandwidth;

/// A moving average of a link's rate while it is busy with data.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct RateEstimate {
    bytes_per_second: f64,
}

impl RateEstimate {
    /// An estimate that starts from the topology's bandwidth.
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

    /// How long the link takes for so many bytes.
    pub(super) fn time_of(self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(bytes as f64 / self.bytes_per_second).unwrap_or(Duration::MAX)
    }

    /// The number of bytes that the link carries in `time`.
    pub(super) fn bytes_in(self, time: Duration) -> f64 {
        self.bytes_per_second * time.as_secs_f64()
    }
}

/// The weight of the newest measurement. The average covers about ten frames, which is one clock.
const GAIN: f64 = 0.1;

/// The shortest time that is measured. The resolution of the machine's clock affects shorter ones.
const BUSY_MIN: Duration = Duration::from_micros(10);
