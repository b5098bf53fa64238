//! Detects stalled connections to a mirror.

use std::time::Duration;

use tokio::time;

use gaia_core::session::{Progress, Session, window};
use gaia_core::topology::Topology;
use gaia_core::types::DcId;

/// Checks a session for progress from time to time.
pub(in crate::real) struct Watch {
    patience: Duration,
    look_at: time::Instant,
    progress: Progress,
}

impl Watch {
    pub(in crate::real) fn new(patience: Duration) -> Self {
        Self { patience, look_at: time::Instant::now() + patience, progress: Progress::default() }
    }

    /// Handles a new connection.
    pub(in crate::real) fn begin(&mut self) {
        *self = Self::new(self.patience);
    }

    /// When the next check is due.
    pub(in crate::real) fn due(&self) -> time::Instant {
        self.look_at
    }

    /// Whether there was no progress since the last check.
    pub(in crate::real) fn is_stalled(&mut self, session: &Session) -> bool {
        self.look_at = time::Instant::now() + self.patience;
        self.progress.is_stalled(session)
    }
}

/// The longest time that a connection may make no progress: some round trips, and the transmission time of a full
/// window and of one frame with a whole shard of `parameters` parameters.
pub(in crate::real) fn stall_max(
    topology: &Topology,
    (own, peer): (DcId, DcId),
    parameters: usize,
) -> Duration {
    let longest = [(own, peer), (peer, own)].map(|(from, to)| {
        let (rtt, bandwidth) = (topology.link(from, to).rtt.0, topology.server_bandwidth(from, to));
        let bytes = window(bandwidth, rtt) + CHANGE_BYTES_MAX * parameters;
        2 * (rtt + bandwidth.time_for(bytes as u64))
    });
    STALL_MIN + longest[0] + longest[1]
}

/// The size of the index and the value of a change, in bytes.
const CHANGE_BYTES_MAX: usize = 8;

/// An allowance for pauses of the machine itself.
const STALL_MIN: Duration = Duration::from_secs(10);
