//! How much slower BSP was made over a WAN than on its LAN, where a comparison was asked for that.

use serde::{Deserialize, Serialize};

use crate::text::numbers;

/// A bandwidth scale that was fitted before a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// How many times BSP's time per clock on the LAN a clock over the WAN was to take.
    pub asked: f64,
    /// How many times it takes, in short runs.
    pub found: f64,
    /// The factor of all bandwidths that gives this.
    pub bandwidth_scale: f64,
}

impl Slowdown {
    /// What was fitted, in a sentence.
    pub fn said(&self) -> String {
        let scale = numbers::significant(self.bandwidth_scale, 3);
        format!(
            "Bandwidths × {} were fitted: a clock of BSP takes {} its time on the LAN (--slowdown {}).",
            numbers::trim(&scale),
            numbers::times(self.found),
            self.asked
        )
    }
}
