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
    /// ceil(what the longest path takes ÷ clock time) + the number of its links, because each hub forwards at its own pace.
    /// The path takes its RTT and, on each link, the time of two frames: the one that is being sent and the next, which
    /// carries what the clock has changed.
    FromPath {
        rtt: Duration,
        hops: u64,
    },
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
            (_, None) => Bound::FromPath { rtt: config.way.rtt, hops: config.way.hops },
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
    /// The number of clocks that a data center may be ahead if its own take `clock_time` and a frame up to `frame_time()` on
    /// a link, which is asked for if it counts. `None` if there is no bound.
    pub(super) fn clocks(
        self,
        clock_time: Option<Duration>,
        frame_time: impl FnOnce() -> Duration,
    ) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Fixed(staleness) => Some(staleness.0),
            Self::FromPath { rtt, hops } => {
                let path = rtt.as_secs_f64() + 2.0 * hops as f64 * frame_time().as_secs_f64();
                let clocks =
                    clock_time.map_or(1.0, |time| (path / time.as_secs_f64().max(1e-9)).ceil());
                Some(clocks.min(STALENESS_FROM_PATH_MAX) as u64 + hops)
            }
        }
    }
}

/// A deadline that is never reached.
pub(super) const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// The largest ratio of a path's time to clock time that counts. In shorter clocks nothing was computed.
const STALENESS_FROM_PATH_MAX: f64 = 1000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_takes_its_rtt_and_two_frames_on_each_link() {
        let of = |hops, clock_ms: Option<u64>, frame_ms| {
            let path = Bound::FromPath { rtt: Duration::from_millis(200), hops };
            path.clocks(clock_ms.map(Duration::from_millis), || Duration::from_millis(frame_ms))
        };
        assert_eq!(of(1, Some(500), 0), Some(2));
        assert_eq!(of(1, Some(50), 0), Some(5));
        assert_eq!(of(1, Some(500), 700), Some(5));
        assert_eq!(of(2, Some(500), 700), Some(8));
        assert_eq!(of(1, None, 700), Some(2));
        assert_eq!(of(1, Some(0), 700), Some(STALENESS_FROM_PATH_MAX as u64 + 1));
    }
}
