//! Datagrams that wait for room in the socket.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::paths::Outgoing;

/// Datagrams of detours that wait for room in the socket, in their order, up to [`WAITING_BYTES_MAX`].
#[derive(Debug, Default)]
pub(super) struct WaitingDatagrams {
    datagrams: VecDeque<Outgoing>,
    bytes: usize,
}

impl WaitingDatagrams {
    /// Adds datagrams at the end. Returns where those were to be sent that are too many.
    pub(super) fn append(&mut self, datagrams: Vec<Outgoing>) -> Vec<SocketAddr> {
        let mut dropped = Vec::new();
        for datagram in datagrams {
            let bytes = self.bytes + datagram.contents.len();
            if bytes > WAITING_BYTES_MAX {
                dropped.push(datagram.to);
            } else {
                self.bytes = bytes;
                self.datagrams.push_back(datagram);
            }
        }
        dropped
    }

    /// The datagram that has waited longest.
    pub(super) fn first(&self) -> Option<&Outgoing> {
        self.datagrams.front()
    }

    /// Removes the datagram that has waited longest.
    pub(super) fn remove_first(&mut self) {
        if let Some(first) = self.datagrams.pop_front() {
            self.bytes -= first.contents.len();
        }
    }
}

/// As many bytes as the socket itself holds by default on Linux (`net.core.wmem_default`), so that they wait about as long as
/// those.
pub(super) const WAITING_BYTES_MAX: usize = 212_992;
