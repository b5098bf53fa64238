//! Stateless resets (RFC 9000, section 10.3), by which a mirror detects that its peer's process was replaced.
//!
//! A process that is killed closes no connection. The process after it, at the same address, receives packets of
//! connections that it does not know. It answers with a token that is derived from the server's key. The mirror has
//! received this token at the start of the connection. Without resets the mirror would wait until its silence is noticed.

use std::sync::Arc;

use quinn::EndpointConfig;
use quinn_proto::HashedConnectionIdGenerator;
use ring::hmac;

use gaia_certificates::Credentials;
use gaia_quic::DATAGRAM_BYTES_PROBED_MAX;

/// The endpoint settings that all processes of a server have in common.
pub(super) fn endpoint_config(credentials: &Credentials) -> EndpointConfig {
    let resets = credentials.secret("QUIC stateless reset");
    let mut config = EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &resets)));
    let ids = credentials.secret("QUIC connection ids");
    let ids = ids.first_chunk::<8>().expect("a secret has 32 bytes");
    let ids = u64::from_le_bytes(*ids);
    // An endpoint answers only for connection ids that it could have issued.
    config.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
    let largest = config.max_udp_payload_size(DATAGRAM_BYTES_PROBED_MAX);
    largest.expect("the largest datagram is one of QUIC");
    config
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};
    use std::time::Duration;

    use quinn::udp::Transmit;
    use quinn::{
        Connection, ConnectionError, Endpoint, EndpointConfig, TokioRuntime, TransportConfig,
    };
    use tokio::runtime::Runtime;

    use super::super::test_endpoints::{LossySocket, client_config, credentials, server_config};
    use super::*;
    use gaia_certificates::SERVER_NAME;
    use gaia_core::types::Bandwidth;
    use gaia_quic::datagram_discovery;

    struct Pair {
        oregon: Credentials,
        tokyo: Credentials,
    }

    impl Pair {
        fn new() -> Self {
            let [oregon, tokyo] = credentials(&["oregon", "tokyo"]).try_into().unwrap();
            Self { oregon, tokyo }
        }

        /// An endpoint in tokyo, to which oregon connects.
        async fn listen(&self, at: SocketAddr) -> Endpoint {
            let config = server_config(&self.tokyo, std::slice::from_ref(&self.oregon));
            let socket = UdpSocket::bind(at).unwrap();
            let own = endpoint_config(&self.tokyo);
            Endpoint::new(own, Some(config), socket, Arc::new(TokioRuntime)).unwrap()
        }

        /// Connects over a path that loses each datagram of more than `largest` bytes.
        async fn dial(&self, to: SocketAddr, largest: usize) -> (Endpoint, Connection) {
            let mut transport = TransportConfig::default();
            transport.keep_alive_interval(Some(Duration::from_millis(20)));
            transport.max_idle_timeout(Some(Duration::from_secs(100).try_into().unwrap()));
            transport.mtu_discovery_config(Some(datagram_discovery(Bandwidth::from_mbit(1e3), 0)));
            let config = client_config(&self.oregon, &self.tokyo, transport);
            let bytes = |sent: &Transmit<'_>| sent.segment_size.unwrap_or(sent.contents.len());
            // As a queue that is smaller than a large datagram.
            let socket =
                Arc::new(LossySocket::new(move |sent: &Transmit<'_>| bytes(sent) > largest));
            let own = EndpointConfig::default();
            let runtime = Arc::new(TokioRuntime);
            let endpoint = Endpoint::new_with_abstract_socket(own, None, socket, runtime).unwrap();
            let connecting = endpoint.connect_with(config, to, SERVER_NAME).unwrap();
            (endpoint, connecting.await.unwrap())
        }
    }

    /// The datagrams of a connection over a path that carries those of up to `largest` bytes, once they are of `expected`
    /// bytes and 4 MB have arrived in them.
    async fn datagrams_over(largest: usize, expected: std::ops::RangeInclusive<u16>) -> u16 {
        let pair = Pair::new();
        let listening = pair.listen(([127, 0, 0, 1], 0).into()).await;
        let at = listening.local_addr().unwrap();
        let taken = tokio::spawn(async move {
            let connection = listening.accept().await.unwrap().await.unwrap();
            let mut stream = connection.accept_uni().await.unwrap();
            (stream.read_to_end(BYTES).await.unwrap().len(), listening, connection)
        });

        let (_endpoint, connection) = pair.dial(at, largest).await;
        while !expected.contains(&connection.stats().path.current_mtu) {
            assert_eq!(connection.close_reason(), None);
            tokio::task::yield_now().await;
        }
        let mut stream = connection.open_uni().await.unwrap();
        stream.write_all(&vec![7; BYTES]).await.unwrap();
        stream.finish().unwrap();
        assert_eq!(taken.await.unwrap().0, BYTES);
        connection.stats().path.current_mtu
    }

    #[tokio::test]
    async fn datagrams_are_as_large_as_a_path_carries_and_ten_of_them_leave_at_once() {
        let most = DATAGRAM_BYTES_PROBED_MAX;
        assert_eq!(datagrams_over(usize::MAX, most..=most).await, most);
    }

    #[tokio::test]
    async fn datagrams_stay_small_on_a_path_that_loses_large_ones() {
        let found = datagrams_over(1_472, 1_400..=1_472).await;
        assert!((1_400..=1_472).contains(&found), "{found}");
    }

    const BYTES: usize = 4 << 20;

    #[test]
    fn a_mirror_learns_of_a_kill_from_the_next_process_at_the_address() {
        let pair = Pair::new();
        let (first, own) = (Runtime::new().unwrap(), Runtime::new().unwrap());
        let listening = first.block_on(pair.listen(([127, 0, 0, 1], 0).into()));
        let at = listening.local_addr().unwrap();
        let taken = {
            let listening = listening.clone();
            first.spawn(async move { listening.accept().await.unwrap().await.unwrap() })
        };

        let (_endpoint, connection) = own.block_on(pair.dial(at, usize::MAX));
        let accepted = first.block_on(taken).unwrap();

        // The runtime waits for its threads to end, so that no task is left that could close the
        // connection when its handles go.
        drop(first);
        drop((accepted, listening));
        let _second = own.block_on(async {
            loop {
                // Until the socket of the first is closed.
                if UdpSocket::bind(at).is_ok() {
                    return pair.listen(at).await;
                }
                tokio::task::yield_now().await;
            }
        });

        assert_eq!(own.block_on(connection.closed()), ConnectionError::Reset);
    }
}
