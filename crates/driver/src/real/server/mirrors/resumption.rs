//! How long mirrors that were apart take until each knows of the other again.

use tokio::time;
use tracing::info;

use gaia_core::session::Session;
use gaia_core::types::Lane;

/// Looks at a link from the moment that its ends are connected again until all that waited for the mirror has come there.
pub(in crate::real) struct Resumption {
    since: time::Instant,
    /// Bytes of data frames that were under way, or were cut since.
    bytes: usize,
    hears: bool,
    tells: bool,
}

impl Resumption {
    /// Of an end that has this session.
    pub(in crate::real) fn begin(session: &Session) -> Self {
        let bytes = session.held_bytes(Lane::Data);
        Self { since: time::Instant::now(), bytes, hears: false, tells: false }
    }

    /// A data frame was cut for the mirror.
    pub(in crate::real) fn on_cut(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// A data frame of the mirror has come.
    pub(in crate::real) fn on_heard(&mut self, own: &str, peer: &str) {
        if !std::mem::replace(&mut self.hears, true) {
            let seconds = self.since.elapsed().as_secs_f64();
            info!(peer, seconds, "{own} has updates of {peer} again");
        }
    }

    /// Looks whether anything is left of what waited; `waits` says that there are updates which no frame was cut of.
    /// Answers whether this end has nothing more to look for.
    pub(in crate::real) fn look(
        &mut self,
        session: &Session,
        waits: bool,
        own: &str,
        peer: &str,
    ) -> bool {
        let under_way = session.pushed(Lane::Data) > session.acknowledged(Lane::Data);
        if !self.tells && session.has_met() && !waits && !under_way {
            self.tells = true;
            let (bytes, seconds) = (self.bytes, self.since.elapsed().as_secs_f64());
            info!(peer, bytes, seconds, "{peer} has all that waited for it at {own}");
        }
        self.tells && self.hears
    }
}
