//! The deadlines of reads that wait for mirrors, and the bound on how far a data center may be ahead of them.

use std::time::Duration;

use crate::server::config::ServerConfig;
use crate::sync::{AspConfig, Brake, OnPartition};
use crate::types::Staleness;

/// The deadlines and the bound of the two brakes.
pub(super) struct Limits {
    pub(super) bound: Bound,
    /// The deadlines of the two brakes.
    pub(super) barrier: Duration,
    pub(super) mirror_clock: Duration,
    /// How long reads wait for a mirror that sends frames and reports no clock.
    pub(super) stall: Duration,
    pub(super) on_partition: OnPartition,
}

/// How far this data center may be ahead of its slowest mirror.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    None,
    Fixed(Staleness),
    /// ceil(largest RTT ÷ clock time) + the number of links on the path, because each hub forwards at its own pace.
    FromRtt(Duration, u64),
}

impl Limits {
    /// No read waits.
    pub(super) fn tap() -> Self {
        Self {
            bound: Bound::None,
            barrier: FOR_EVER,
            mirror_clock: FOR_EVER,
            stall: FOR_EVER,
            on_partition: OnPartition::Continue,
        }
    }

    /// The limits of the configuration. Without a configured staleness, the bound follows from the longest path.
    pub(super) fn asp(config: &ServerConfig, asp: &AspConfig) -> Self {
        let bound = match (asp.mirror_clock, asp.data_center_staleness) {
            (Brake::Off, _) => Bound::None,
            (_, Some(staleness)) => Bound::Fixed(staleness),
            (_, None) => Bound::FromRtt(config.way.rtt, config.way.hops),
        };
        Self {
            bound,
            barrier: asp.barrier_deadline.0,
            mirror_clock: asp.mirror_clock_deadline.0,
            stall: asp.mirror_clock_deadline.0.max(config.give_up_after),
            on_partition: asp.on_partition,
        }
    }
}

impl Bound {
    /// The number of clocks that a data center may be ahead if its own take `clock_time`. `None` if there is no bound.
    pub(super) fn clocks(self, clock_time: Option<Duration>) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Fixed(staleness) => Some(staleness.0),
            Self::FromRtt(rtt, hops) => {
                let clocks = clock_time
                    .map_or(1.0, |time| (rtt.as_secs_f64() / time.as_secs_f64().max(1e-9)).ceil());
                Some(clocks.min(STALENESS_FROM_RTT_MAX) as u64 + hops)
            }
        }
    }
}

/// A deadline that is never reached.
pub(super) const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// The largest ratio of RTT to clock time that counts. In shorter clocks nothing was computed.
const STALENESS_FROM_RTT_MAX: f64 = 1000.0;
