//! Stateless resets (RFC 9000, section 10.3), by which a mirror detects that its peer's process was replaced.
//!
//! A process that is killed closes no connection. The process after it, at the same address, receives packets of
//! connections that it does not know. It answers with a token that is derived from the server's key. The mirror has
//! received this token at the start of the connection. Without resets the mirror would wait for the idle timeout.

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

    use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
    use quinn::{
        ClientConfig, Connection, ConnectionError, Endpoint, ServerConfig, TokioRuntime,
        TransportConfig,
    };
    use rustls::pki_types::UnixTime;
    use tokio::runtime::Runtime;

    use super::*;
    use gaia_certificates::{Authority, Identity, SERVER_NAME, Validity, accepting, connecting};

    struct Pair {
        oregon: Credentials,
        tokyo: Credentials,
    }

    impl Pair {
        fn new() -> Self {
            let now = UnixTime::now();
            let mut authority = Authority::create("demo", now).unwrap();
            let validity = Validity::starting(now, Duration::from_secs(86_400));
            let mut issue =
                |dc| authority.issue(&Identity::server("demo", dc, 0), validity).unwrap();
            Self { oregon: issue("oregon"), tokyo: issue("tokyo") }
        }

        /// An endpoint in tokyo, to which oregon connects.
        async fn listen(&self, at: SocketAddr) -> Endpoint {
            let tls = accepting(&self.tokyo, [self.oregon.identity().clone()]);
            let tls = QuicServerConfig::try_from(tls).unwrap();
            let config = ServerConfig::with_crypto(Arc::new(tls));
            let socket = UdpSocket::bind(at).unwrap();
            let own = endpoint_config(&self.tokyo);
            Endpoint::new(own, Some(config), socket, Arc::new(TokioRuntime)).unwrap()
        }

        async fn dial(&self, to: SocketAddr) -> (Endpoint, Connection) {
            let tls = connecting(&self.oregon, self.tokyo.identity());
            let tls = QuicClientConfig::try_from(tls).unwrap();
            let mut config = ClientConfig::new(Arc::new(tls));
            let mut transport = TransportConfig::default();
            transport.keep_alive_interval(Some(Duration::from_millis(20)));
            transport.max_idle_timeout(Some(Duration::from_secs(100).try_into().unwrap()));
            config.transport_config(Arc::new(transport));
            let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
            let connecting = endpoint.connect_with(config, to, SERVER_NAME).unwrap();
            (endpoint, connecting.await.unwrap())
        }
    }

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

        let (_endpoint, connection) = own.block_on(pair.dial(at));
        let accepted = first.block_on(taken).unwrap();

        // The end of the runtime ends all tasks that could close the connection.
        first.shutdown_background();
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
