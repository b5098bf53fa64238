//! Whether a connection to a mirror comes to something.

use std::time::Duration;

use tokio::time::Instant as Moment;

use crate::session::{Session, window};
use crate::topology::Topology;
use crate::types::{DcId, Lane};

/// Looks at a session from time to time.
///
/// Who answers is alive, however slowly: QUIC itself notices the dead. This notices a peer that answers and gets nowhere.
pub(in crate::driver::real) struct Watch {
    patience: Duration,
    look_at: Moment,
    /// What was acknowledged of each lane, where something was under way.
    seen: [Option<u64>; 2],
}

impl Watch {
    pub(in crate::driver::real) fn new(patience: Duration) -> Self {
        Self { patience, look_at: Moment::now() + patience, seen: [None; 2] }
    }

    /// A connection begins.
    pub(in crate::driver::real) fn begin(&mut self) {
        *self = Self::new(self.patience);
    }

    /// When it wants to look.
    pub(in crate::driver::real) fn due(&self) -> Moment {
        self.look_at
    }

    /// Whether nothing has come of the connection since it was last looked at: no hello, or something under way and
    /// nothing acknowledged.
    pub(in crate::driver::real) fn is_stalled(&mut self, session: &Session) -> bool {
        self.look_at = Moment::now() + self.patience;
        let before = std::mem::take(&mut self.seen);
        let mut stalled = !session.has_met();
        for lane in Lane::ALL {
            let acknowledged = session.acknowledged(lane);
            if session.pushed(lane) > acknowledged {
                self.seen[lane.index()] = Some(acknowledged);
                stalled |= before[lane.index()] == Some(acknowledged);
            }
        }
        stalled
    }
}

/// How long a connection may stand still: some round trips, and the time that slow links take for what may be under way
/// and a frame of a whole shard of so many parameters behind it.
pub(in crate::driver::real) fn stall_max(
    topology: &Topology,
    (own, peer): (DcId, DcId),
    parameters: usize,
) -> Duration {
    let shards = topology.dc(own).servers as f64;
    let ways = [topology.link(own, peer), topology.link(peer, own)];
    let longest = ways.map(|link| {
        let bandwidth = link.bandwidth.scaled(1.0 / shards);
        let bytes = window(bandwidth, link.rtt.0) + CHANGE_BYTES_MAX * parameters;
        2 * (link.rtt.0 + bandwidth.time_for(bytes as u64))
    });
    STALL_MIN + longest[0] + longest[1]
}

/// Of one change, its index and its value.
const CHANGE_BYTES_MAX: usize = 8;

/// What a machine may stand still for reasons of its own.
const STALL_MIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Incarnation, SessionConfig};

    #[test]
    fn a_connection_without_hello_or_acknowledgement_stands_still() {
        let config = SessionConfig {
            incarnation: Incarnation::FIRST,
            sent_bytes_max: 1 << 16,
            early_bytes_max: 1 << 16,
        };
        let (mut one, mut other) = (Session::new(config), Session::new(config));
        let mut watch = Watch::new(Duration::from_secs(1));
        assert!(watch.is_stalled(&one));
        let hellos = (one.connect().to_bytes(), other.connect().to_bytes());
        one.handle_message(&hellos.1).unwrap();
        other.handle_message(&hellos.0).unwrap();
        assert!(!watch.is_stalled(&one));
        one.push(Lane::Data, bytes::Bytes::from_static(b"frame"));
        // It has just begun.
        assert!(!watch.is_stalled(&one));
        assert!(watch.is_stalled(&one));
        watch.begin();
        assert!(!watch.is_stalled(&one));
        let message = one.poll_transmit(Lane::Data).unwrap();
        other.handle_message(&message.to_bytes()).unwrap();
        assert!(other.poll_frame().is_some());
        one.handle_message(&other.poll_acknowledgement().unwrap().to_bytes()).unwrap();
        assert!(!watch.is_stalled(&one));
        assert!(!watch.is_stalled(&one));
    }
}
