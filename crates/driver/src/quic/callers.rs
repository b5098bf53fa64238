//! What callers may cost before they have proven who they are.
//!
//! So many handshakes are under way at a time. Half of these places are for anyone, so that who calls first is not kept
//! waiting; for the other half a caller must show that it hears what is sent to its address, which costs a round trip
//! and this node no memory. So a flood from forged addresses leaves room for callers that are there.
//!
//! Who has proven itself has one connection: the next takes the place of the one before ([`super::DcTransport::join`]).

use std::sync::Arc;

use quinn::{Incoming, ServerConfig};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The handshakes of an endpoint.
pub(crate) struct Callers {
    most: usize,
    places: Arc<Semaphore>,
}

/// A place for one handshake, free again when this is dropped.
pub(crate) struct Handshake {
    _place: OwnedSemaphorePermit,
}

impl Callers {
    /// For an endpoint that so many peers call, each of them twice where it was lost.
    pub(crate) fn new(peers: usize) -> Self {
        let most = 2 * peers + HANDSHAKES_SPARE;
        Self { most, places: Arc::new(Semaphore::new(most)) }
    }

    /// Bounds what QUIC keeps of callers that nobody has looked at yet.
    pub(crate) fn limit(&self, config: &mut ServerConfig) {
        let bytes = INCOMING_BYTES_MAX;
        config.max_incoming(self.most).incoming_buffer_size(bytes);
        config.incoming_buffer_size_total(bytes * self.most as u64).migration(false);
    }

    /// Lets a caller in, with a place for its handshake, asks it to show its address first, or turns it away.
    pub(crate) fn admit(&self, incoming: Incoming) -> Option<(Incoming, Handshake)> {
        let known = incoming.remote_address_validated();
        let is_crowded = self.places.available_permits() <= self.most / 2;
        if is_crowded && !known {
            // One that cannot be asked has been, and is validated.
            let _asked = incoming.retry();
            return None;
        }
        match self.places.clone().try_acquire_owned() {
            Ok(place) => Some((incoming, Handshake { _place: place })),
            Err(_) => {
                incoming.refuse();
                None
            }
        }
    }
}

/// Callers that turn out to be nobody's peer.
const HANDSHAKES_SPARE: usize = 16;

/// The first flight of a handshake, sent more than once.
const INCOMING_BYTES_MAX: u64 = 16 << 10;
