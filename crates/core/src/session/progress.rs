//! Detection of connections that make no progress.

use super::Session;
use crate::types::Lane;

/// The acknowledged frames of one end of a link at the last check.
///
/// The transport detects a dead peer. This detects a peer that answers but acknowledges nothing. A new connection
/// begins with the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// The number of acknowledged frames by lane, for lanes with unacknowledged frames.
    seen: [Option<u64>; 2],
}

impl Progress {
    /// Whether the connection has made no progress since the last check: no hello was received, or a lane with
    /// unacknowledged frames has no further acknowledgement.
    pub fn is_stalled(&mut self, session: &Session) -> bool {
        let before = std::mem::take(&mut self.seen);
        let mut stalled = !session.has_hello();
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

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
        let mut progress = Progress::default();
        assert!(progress.is_stalled(&one));

        let hellos = (one.connect().to_bytes(), other.connect().to_bytes());
        one.handle_message(&hellos.1).unwrap();
        other.handle_message(&hellos.0).unwrap();
        assert!(!progress.is_stalled(&one));
        one.push(Lane::Data, Bytes::from_static(b"frame"));

        // It has just begun.
        assert!(!progress.is_stalled(&one));
        assert!(progress.is_stalled(&one));
        progress = Progress::default();
        assert!(!progress.is_stalled(&one));
        let message = one.poll_transmit(Lane::Data).unwrap();
        other.handle_message(&message.to_bytes()).unwrap();
        assert!(other.poll_frame().is_some());
        one.handle_message(&other.poll_acknowledgement().unwrap().to_bytes()).unwrap();
        assert!(!progress.is_stalled(&one));

        assert!(!progress.is_stalled(&one));
    }
}
