//! Whether a connection to a mirror comes to something.

use std::time::Duration;

use tokio::time;

use gaia_core::session::{Progress, Session, window};
use gaia_core::topology::Topology;
use gaia_core::types::DcId;

/// Looks at a session from time to time.
pub(in crate::real) struct Watch {
    patience: Duration,
    look_at: time::Instant,
    progress: Progress,
}

impl Watch {
    pub(in crate::real) fn new(patience: Duration) -> Self {
        Self { patience, look_at: time::Instant::now() + patience, progress: Progress::default() }
    }

    /// A connection begins.
    pub(in crate::real) fn begin(&mut self) {
        *self = Self::new(self.patience);
    }

    /// When it wants to look.
    pub(in crate::real) fn due(&self) -> time::Instant {
        self.look_at
    }

    /// Whether nothing has come of the connection since it was last looked at.
    pub(in crate::real) fn is_stalled(&mut self, session: &Session) -> bool {
        self.look_at = time::Instant::now() + self.patience;
        self.progress.is_stalled(session)
    }
}

/// How long a connection may stand still: some round trips, and the time that slow links take for what may be under way
/// and a frame of a whole shard of so many parameters behind it.
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

/// Of one change, its index and its value.
const CHANGE_BYTES_MAX: usize = 8;

/// What a machine may stand still for reasons of its own.
const STALL_MIN: Duration = Duration::from_secs(10);
