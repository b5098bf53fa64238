//! Worker-seconds that reads were held back, as bars divided by cause.

use serde::Serialize;

use crate::text::numbers;
use gaia_telemetry::BlockedSeconds;

/// One bar.
#[derive(Serialize)]
pub(crate) struct BlockedBar {
    label: String,
    total: String,
    parts: Vec<BlockedPart>,
}

#[derive(Serialize)]
pub(in crate::page) struct BlockedPart {
    cause: &'static str,
    /// The class that colours it.
    class: &'static str,
    seconds: String,
    /// Percent of the widest bar.
    width: String,
}

impl BlockedBar {
    /// A bar whose full width stands for `widest` worker-seconds.
    pub(crate) fn new(label: &str, blocked: BlockedSeconds, widest: f64) -> Self {
        let part = |(cause, class, seconds): (&'static str, &'static str, f64)| BlockedPart {
            cause,
            class,
            seconds: numbers::seconds(seconds),
            width: format!("{:.2}", (100.0 * seconds / widest).clamp(0.0, 100.0)),
        };
        let parts =
            causes(blocked).into_iter().filter(|(_, _, seconds)| *seconds > 0.0 && widest > 0.0);
        Self {
            label: label.into(),
            total: numbers::seconds(blocked.total()),
            parts: parts.map(part).collect(),
        }
    }
}

/// Every cause with its class and its seconds.
fn causes(blocked: BlockedSeconds) -> [(&'static str, &'static str, f64); 5] {
    [
        ("barrier", "c-barrier", blocked.barrier),
        ("mirror clock", "c-mirror", blocked.mirror_clock),
        ("bandwidth", "c-bandwidth", blocked.bandwidth),
        ("local", "c-local", blocked.local),
        ("partial partition", "c-partition", blocked.partial_partition),
    ]
}
