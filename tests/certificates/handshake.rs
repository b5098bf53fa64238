//! Two ends of TLS in memory, one of which may show anything and believe anyone.

use std::io::{Read, Write};
use std::sync::Arc;

use gaia_certificates::{
    Credentials, Identity, Refusal, SERVER_NAME, accepting, connecting, identity_of,
};
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::verify_tls13_signature;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, Error, HandshakeKind,
    ServerConfig, ServerConnection, SignatureScheme, version,
};

/// What became of a handshake: the refusal of the honest end, and what the other end was told.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    pub(super) told: Option<Error>,
}

/// What a stranger shows.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    Nothing,
    Chain(Arc<CertifiedKey>),
}

impl Shown {
    pub(super) fn chain(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Self {
        Self::Chain(Arc::new(CertifiedKey::from_der(chain, key, &default_provider()).unwrap()))
    }
}

/// An honest node accepts a stranger who connects.
pub(super) fn accept(
    honest: &Credentials,
    allowed: &[Identity],
    shown: Shown,
) -> Result<(), Box<Refused>> {
    let mut config = connecting(honest, honest.identity());
    config.dangerous().set_certificate_verifier(Arc::new(Anyone));
    config.client_auth_cert_resolver = Arc::new(Resolver(shown));
    let (client, server) = shake(config, accepting(honest, allowed.to_vec()));
    outcome(server.map(|_| ()), client.err())
}

/// An honest node connects to a stranger who accepts.
pub(super) fn connect(
    honest: &Credentials,
    expected: &Identity,
    shown: Shown,
) -> Result<(), Box<Refused>> {
    let (client, server) = shake(connecting(honest, expected), stranger(shown));
    outcome(client.map(|_| ()), server.err())
}

/// An honest node connects to an end of rustls without a certificate, which gives up by itself: a server has no way to
/// go on without one (RFC 8446, section 4.4.2).
pub(super) fn connect_to_nobody(honest: &Credentials, expected: &Identity) -> Error {
    let (client, _) = shake(connecting(honest, expected), stranger(Shown::Nothing));
    client.map(|_| ()).expect_err("nobody has an end without a certificate")
}

fn stranger(shown: Shown) -> ServerConfig {
    ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::new(Anyone))
        .with_cert_resolver(Arc::new(Resolver(shown)))
}

/// Two nodes that are both honest, and who the accepting one and the connecting one have seen.
pub(super) fn meet(
    connects: &Credentials,
    accepts: &Credentials,
) -> Result<(Identity, Identity), Error> {
    let client = connecting(connects, accepts.identity());
    let (client, server) = shake(client, accepting(accepts, [connects.identity().clone()]));
    let (client, server) = (client?, server?);
    let seen = |certificates: Option<&[CertificateDer<'_>]>| identity_of(certificates.unwrap());
    Ok((seen(server.peer_certificates()).unwrap(), seen(client.peer_certificates()).unwrap()))
}

/// How two ends shake hands when they meet for the second time with the same settings.
pub(super) fn meet_again(client: ClientConfig, server: ServerConfig) -> HandshakeKind {
    shake(client.clone(), server.clone()).0.unwrap();
    shake(client, server).0.unwrap().handshake_kind().unwrap()
}

fn outcome(honest: Result<(), Error>, told: Option<Error>) -> Result<(), Box<Refused>> {
    honest.map_err(|error| {
        let refusal = Refusal::of(&error);
        Box::new(Refused { refusal: refusal.unwrap_or_else(|| panic!("{error}")), told })
    })
}

/// Both ends send a payload as early as TLS lets them, and go on until both are done or neither has more to say.
///
/// # Panics
/// Where an end that failed has been given a byte of payload.
fn shake(
    client: ClientConfig,
    server: ServerConfig,
) -> (Result<ClientConnection, Error>, Result<ServerConnection, Error>) {
    let name = ServerName::try_from(SERVER_NAME).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    client.writer().write_all(PAYLOAD).unwrap();
    server.writer().write_all(PAYLOAD).unwrap();
    let (mut client_error, mut server_error) = (None, None);
    loop {
        let mut flight = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut flight).unwrap();
        }
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).unwrap();
        }
        if flight.is_empty() && answer.is_empty() {
            break;
        }
        let mut rest = flight.as_slice();
        while !rest.is_empty() && server_error.is_none() {
            server.read_tls(&mut rest).unwrap();
            server_error = server.process_new_packets().err();
        }
        let mut rest = answer.as_slice();
        while !rest.is_empty() && client_error.is_none() {
            client.read_tls(&mut rest).unwrap();
            client_error = client.process_new_packets().err();
        }
    }
    let client = match client_error {
        None => {
            assert_eq!(read(client.reader()), PAYLOAD);
            Ok(client)
        }
        Some(error) => {
            assert!(read(client.reader()).is_empty(), "payload before the peer is known");
            Err(error)
        }
    };
    let server = match server_error {
        None => {
            assert_eq!(read(server.reader()), PAYLOAD);
            Ok(server)
        }
        Some(error) => {
            assert!(read(server.reader()).is_empty(), "payload before the peer is known");
            Err(error)
        }
    };
    (client, server)
}

fn read(mut reader: impl Read) -> Vec<u8> {
    let mut bytes = vec![0; 2 * PAYLOAD.len()];
    let count = reader.read(&mut bytes).unwrap_or(0);
    bytes.truncate(count);
    bytes
}

const PAYLOAD: &[u8] = b"payload";

/// Believes everyone.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        panic!("nobody speaks TLS 1.2")
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Anyone {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }
}

/// Shows what it was given.
#[derive(Debug)]
struct Resolver(Shown);

impl Resolver {
    fn shown(&self) -> Option<Arc<CertifiedKey>> {
        match &self.0 {
            Shown::Nothing => None,
            Shown::Chain(certified) => Some(certified.clone()),
        }
    }
}

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.shown()
    }

    fn has_certs(&self) -> bool {
        self.shown().is_some()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.shown()
    }
}
