//! Measures how long mirrors take after a reconnect until both have each other's updates.

use tokio::time;
use tracing::info;

use gaia_core::session::Session;
use gaia_core::types::Lane;

/// Observes a link from a reconnect until the mirror has received all that waited for it.
pub(in crate::real) struct Resumption {
    since: time::Instant,
    /// Bytes of data frames that were not acknowledged at the reconnect, or were cut since.
    bytes: usize,
    receives: bool,
    sends: bool,
}

impl Resumption {
    /// Begins with the end that has this session.
    pub(in crate::real) fn begin(session: &Session) -> Self {
        let bytes = session.held_bytes(Lane::Data);
        Self { since: time::Instant::now(), bytes, receives: false, sends: false }
    }

    /// Records a data frame that was cut for the mirror.
    pub(in crate::real) fn on_cut(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Records a data frame of the mirror.
    pub(in crate::real) fn on_message(&mut self, own: &str, peer: &str) {
        if !std::mem::replace(&mut self.receives, true) {
            let seconds = self.since.elapsed().as_secs_f64();
            info!(peer, seconds, "{own} receives updates of {peer} again");
        }
    }

    /// Checks whether the mirror has received all that waited for it. `waits` is whether there are updates without a
    /// frame. Returns whether both directions have resumed.
    pub(in crate::real) fn look(
        &mut self,
        session: &Session,
        waits: bool,
        own: &str,
        peer: &str,
    ) -> bool {
        let under_way = session.pushed(Lane::Data) > session.acknowledged(Lane::Data);
        if !self.sends && session.has_hello() && !waits && !under_way {
            self.sends = true;
            let (bytes, seconds) = (self.bytes, self.since.elapsed().as_secs_f64());
            info!(peer, bytes, seconds, "{peer} has received all updates that {own} held for it");
        }
        self.sends && self.receives
    }
}
