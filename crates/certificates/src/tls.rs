//! TLS 1.3 between nodes, with certificates on both sides.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ServerConfig, version};

use super::provider::provider;
use super::trust::PeerVerifier;
use super::{Credentials, Identity};

/// TLS for a node that accepts connections: the peer must prove that it is one of `allowed`.
///
/// Sessions are never resumed and there is no early data (0-RTT): both would let in a peer whose certificate has been
/// revoked since, and early data could be replayed.
pub fn accepting(
    credentials: &Credentials,
    allowed: impl IntoIterator<Item = Identity>,
) -> ServerConfig {
    let verifier = Arc::new(verifier(credentials, allowed.into_iter().collect()));
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .expect("ring has the ciphers of TLS 1.3")
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(credentials.shown());
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    config
}

/// TLS for a node that connects: the peer must prove that it is `expected`.
///
/// The server name of TLS ([`SERVER_NAME`]) is not sent and not checked.
pub fn connecting(credentials: &Credentials, expected: &Identity) -> ClientConfig {
    let verifier = Arc::new(verifier(credentials, BTreeSet::from([expected.clone()])));
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .expect("ring has the ciphers of TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(credentials.shown());
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.enable_early_data = false;
    config
}

fn verifier(credentials: &Credentials, expected: BTreeSet<Identity>) -> PeerVerifier {
    PeerVerifier::new(credentials.trust(), &credentials.identity().run, expected, provider())
}

/// The server name that TLS asks a connecting node for. It has no effect.
pub const SERVER_NAME: &str = "gaia";
