//! Limits on unauthenticated incoming connections.
//!
//! The number of simultaneous handshakes is limited. Half of them are open to all, so that the first connections do not
//! wait. For the other half a peer must first validate its address (QUIC Retry), which takes a round trip and no memory
//! of this node. So a flood from forged addresses leaves room for peers at real addresses.
//!
//! An authenticated peer has one connection. The next one replaces it ([`super::DcTransport::join`]).

use std::sync::Arc;

use quinn::{Incoming, ServerConfig};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The handshakes of an endpoint.
pub struct Callers {
    most: usize,
    places: Arc<Semaphore>,
}

/// A place for one handshake, free again when this is dropped.
pub struct Handshake {
    _place: OwnedSemaphorePermit,
}

impl Callers {
    /// Limits for an endpoint with `peers` peers. Each may connect twice if its first connection was lost.
    pub fn new(peers: usize) -> Self {
        let most = 2 * peers + HANDSHAKES_SPARE;
        Self { most, places: Arc::new(Semaphore::new(most)) }
    }

    /// Bounds the memory of QUIC for incoming connections that were not accepted.
    pub fn limit(&self, config: &mut ServerConfig) {
        let bytes = INCOMING_BYTES_MAX;
        config.max_incoming(self.most).incoming_buffer_size(bytes);
        config.incoming_buffer_size_total(bytes * self.most as u64).migration(false);
    }

    /// Accepts an incoming connection, requires address validation first, or refuses it.
    pub fn admit(&self, incoming: Incoming) -> Option<(Incoming, Handshake)> {
        let known = incoming.remote_address_validated();
        let is_crowded = self.places.available_permits() <= self.most / 2;
        if is_crowded && !known {
            // Retry fails only if the address is validated already.
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

/// The number of handshakes in addition to those of peers.
const HANDSHAKES_SPARE: usize = 16;

/// The size of a handshake's first flight, including retransmissions.
const INCOMING_BYTES_MAX: u64 = 16 << 10;
