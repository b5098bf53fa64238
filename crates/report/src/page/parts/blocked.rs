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

/// A cause, in the legend of bars.
#[derive(Serialize)]
pub(crate) struct CauseKey {
    name: &'static str,
    class: &'static str,
    meaning: &'static str,
}

impl BlockedBar {
    /// A bar whose full width stands for `widest` worker-seconds.
    pub(crate) fn new(label: &str, blocked: BlockedSeconds, widest: f64) -> Self {
        let part = |(cause, seconds): (Cause, f64)| BlockedPart {
            cause: cause.name,
            class: cause.class,
            seconds: numbers::seconds(seconds),
            width: format!("{:.2}", (100.0 * seconds / widest).clamp(0.0, 100.0)),
        };
        let parts =
            causes(blocked).into_iter().filter(|(_, seconds)| *seconds > 0.0 && widest > 0.0);
        Self {
            label: label.into(),
            total: numbers::seconds(blocked.total()),
            parts: parts.map(part).collect(),
        }
    }
}

impl CauseKey {
    /// The causes that held back any read of these.
    pub(crate) fn of(all: impl IntoIterator<Item = BlockedSeconds>) -> Vec<Self> {
        let mut met = [false; CAUSES];
        for blocked in all {
            for (met, (_, seconds)) in met.iter_mut().zip(causes(blocked)) {
                *met |= seconds > 0.0;
            }
        }

        let all = causes(BlockedSeconds::default()).into_iter().zip(met).filter(|(_, met)| *met);
        all.map(|((Cause { name, class, meaning, .. }, _), _)| Self { name, class, meaning })
            .collect()
    }
}

struct Cause {
    /// The field of [`BlockedSeconds`].
    field: &'static str,
    name: &'static str,
    /// The class that colours it.
    class: &'static str,
    meaning: &'static str,
}

/// Every cause with its seconds.
fn causes(blocked: BlockedSeconds) -> [(Cause, f64); CAUSES] {
    let cause = |field, name, class, meaning| Cause { field, name, class, meaning };
    [
        (
            cause("barrier", "barrier", "c-barrier", "announced parameters had not arrived"),
            blocked.barrier,
        ),
        (
            cause(
                "mirror_clock",
                "mirror clock",
                "c-mirror",
                "a mirror was too many clocks behind",
            ),
            blocked.mirror_clock,
        ),
        (
            cause(
                "bandwidth",
                "bandwidth",
                "c-bandwidth",
                "updates of other data centers that the read must see had not arrived",
            ),
            blocked.bandwidth,
        ),
        (
            cause("local", "local", "c-local", "slower workers of the same data center"),
            blocked.local,
        ),
        (
            cause(
                "partial_partition",
                "partial partition",
                "c-partition",
                "a dead link to a data center that a third one still reaches",
            ),
            blocked.partial_partition,
        ),
    ]
}

/// The class and the name of a cause, by the name of its field in [`BlockedSeconds`]. Files may name others.
pub(super) fn class_of(field: &str) -> (&'static str, &'static str) {
    let all = causes(BlockedSeconds::default()).into_iter().map(|(cause, _)| cause);
    let mut found = all.filter(|cause| cause.field == field);
    found.next().map_or(("c-other", "another cause"), |cause| (cause.class, cause.name))
}

const CAUSES: usize = 5;
