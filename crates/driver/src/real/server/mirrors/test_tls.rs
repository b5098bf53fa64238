//! The certificates and the TLS settings of endpoints in tests.

use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, ServerConfig, TransportConfig};
use rustls::pki_types::UnixTime;

use gaia_certificates::{Authority, Credentials, Identity, Validity, accepting, connecting};

/// The credentials of a server in each of these data centers, of one authority.
pub(super) fn credentials(data_centers: &[&str]) -> Vec<Credentials> {
    let now = UnixTime::now();
    let mut authority = Authority::create("demo", now).unwrap();
    let validity = Validity::starting(now, Duration::from_secs(86_400));
    let mut issue =
        |dc: &&str| authority.issue(&Identity::server("demo", dc, 0), validity).unwrap();
    data_centers.iter().map(&mut issue).collect()
}

/// The settings of a server that others connect to.
pub(super) fn server_config(own: &Credentials, others: &[Credentials]) -> ServerConfig {
    let others = others.iter().map(|other| other.identity().clone());
    let tls = QuicServerConfig::try_from(accepting(own, others)).unwrap();
    ServerConfig::with_crypto(Arc::new(tls))
}

/// The settings of a server that connects to another one.
pub(super) fn client_config(
    own: &Credentials,
    to: &Credentials,
    transport: TransportConfig,
) -> ClientConfig {
    let tls = QuicClientConfig::try_from(connecting(own, to.identity())).unwrap();
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    config
}
