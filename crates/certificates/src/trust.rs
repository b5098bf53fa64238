//! Which peers a node accepts: the chain is signed by a trusted authority, valid and not revoked, and names an expected
//! node.
//!
//! The decision is made inside the handshake, by webpki and then by the identity, so that no payload of an unknown peer is
//! read. The server name of TLS is not checked: only the identity in the certificate counts.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, ServerName, TrustAnchor, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use tokio::sync::watch;
use webpki::{
    CertRevocationList, EndEntityCert, KeyUsage, OwnedCertRevocationList, RevocationOptionsBuilder,
    UnknownStatusPolicy, anchor_from_trusted_cert,
};

use super::identity::shown;
use super::{CertificateError, Identity, Refusal, fingerprint};

/// The authorities of a run and their revocation lists, which may change while nodes run.
pub(super) struct Trust {
    believed: watch::Sender<Arc<Believed>>,
}

/// The authorities and their revocation lists at one moment.
pub(super) struct Believed {
    anchors: Vec<TrustAnchor<'static>>,
    removed: Vec<CertRevocationList<'static>>,
    /// The authorities, for errors.
    named: String,
    /// The bytes that it was made from.
    source: (Vec<CertificateDer<'static>>, Vec<CertificateRevocationListDer<'static>>),
}

/// Verifies the peers of one node.
#[derive(Debug)]
pub(super) struct PeerVerifier {
    trust: Arc<Trust>,
    run: String,
    expected: BTreeSet<Identity>,
    provider: Arc<CryptoProvider>,
}

impl Trust {
    /// `removed` must have a list of each authority, which may be empty: without it a revoked node would be accepted.
    pub(super) fn new(
        authorities: &[CertificateDer<'static>],
        removed: &[CertificateRevocationListDer<'static>],
    ) -> Result<Self, CertificateError> {
        let believed = Believed::new(authorities, removed)?;
        Ok(Self { believed: watch::Sender::new(Arc::new(believed)) })
    }

    /// Replaces the authorities and the lists, and returns whether they are different. An error changes nothing.
    pub(super) fn replace(
        &self,
        authorities: &[CertificateDer<'static>],
        removed: &[CertificateRevocationListDer<'static>],
    ) -> Result<bool, CertificateError> {
        let believed = self.believed();
        let (known, listed) = &believed.source;
        if (&known[..], &listed[..]) == (authorities, removed) {
            return Ok(false);
        }
        self.believed.send_replace(Arc::new(Believed::new(authorities, removed)?));
        Ok(true)
    }

    pub(super) fn believed(&self) -> Arc<Believed> {
        self.believed.borrow().clone()
    }

    /// The current authorities and lists, and every later change of them.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Believed>> {
        self.believed.subscribe()
    }
}

impl Believed {
    fn new(
        authorities: &[CertificateDer<'static>],
        removed: &[CertificateRevocationListDer<'static>],
    ) -> Result<Self, CertificateError> {
        let broken = |expected: &'static str| {
            move |error: webpki::Error| {
                CertificateError::unfit(format!("invalid bytes ({error})"), expected)
            }
        };

        let mut anchors = Vec::new();
        for der in authorities {
            let anchor = anchor_from_trusted_cert(der).map_err(broken("an authority"))?;
            anchors.push(anchor.to_owned());
        }

        if anchors.is_empty() {
            return Err(CertificateError::unfit("no authority", "the authority of the run"));
        }

        let mut lists = Vec::new();
        for der in removed {
            let list = OwnedCertRevocationList::from_der(der);
            lists.push(list.map_err(broken("a revocation list"))?.into());
        }

        let listed = |anchor: &TrustAnchor<'_>| {
            let by = |list: &CertRevocationList<'_>| list.issuer() == anchor.subject.as_ref();
            lists.iter().any(by)
        };
        if !anchors.iter().all(listed) {
            let expected = "a revocation list of each authority";
            return Err(CertificateError::unfit(
                "an authority without a revocation list",
                expected,
            ));
        }

        let named: Vec<String> = authorities.iter().map(short_fingerprint).collect();
        let named = format!("authority {}", named.join(" or "));
        let source = (authorities.to_vec(), removed.to_vec());

        Ok(Self { anchors, removed: lists, named, source })
    }

    /// The identity that a chain proves, for `usage` at `now`.
    pub(super) fn prove(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
        provider: &CryptoProvider,
    ) -> Result<Identity, Refusal> {
        let certificate = read(end_entity)?;
        let claimed = claimed(&certificate)?;
        let lists: Vec<&CertRevocationList<'_>> = self.removed.iter().collect();

        // A new authority whose certificate a trusted one has signed has no list here yet.
        let revocation = RevocationOptionsBuilder::new(&lists)
            .expect("each authority has a list, and there is an authority")
            .with_status_policy(UnknownStatusPolicy::Allow)
            .build();
        let algorithms = provider.signature_verification_algorithms.all;
        let proven = certificate.verify_for_usage(
            algorithms,
            &self.anchors,
            intermediates,
            now,
            usage,
            Some(revocation),
            None,
        );

        match proven {
            Ok(_) => Ok(claimed),
            Err(error) => Err(self.refusal(claimed, &certificate, error)),
        }
    }

    fn refusal(
        &self,
        claimed: Identity,
        certificate: &EndEntityCert<'_>,
        error: webpki::Error,
    ) -> Refusal {
        use webpki::Error;

        let expected = self.named.clone();
        match error {
            Error::CertExpired { time, not_after } => {
                Refusal::Expired { claimed, not_after, now: time }
            }
            Error::CertNotValidYet { time, not_before } => {
                Refusal::NotYetValid { claimed, not_before, now: time }
            }
            Error::CertRevoked => Refusal::Removed { claimed },
            Error::UnknownIssuer | Error::CaUsedAsEndEntity
                if certificate.issuer() == certificate.subject() =>
            {
                Refusal::SelfSigned { claimed, expected }
            }
            Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => {
                Refusal::UnknownAuthority { claimed, expected }
            }
            other => Refusal::Broken { claimed, reason: other.to_string() },
        }
    }
}

impl PeerVerifier {
    pub(super) fn new(
        trust: Arc<Trust>,
        run: &str,
        expected: BTreeSet<Identity>,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self { trust, run: run.into(), expected, provider }
    }

    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
    ) -> Result<(), Refusal> {
        let found =
            self.trust.believed().prove(end_entity, intermediates, now, usage, &self.provider)?;
        if found.run != self.run {
            return Err(Refusal::OtherRun { found, expected: self.run.clone() });
        }
        if self.expected.contains(&found) {
            return Ok(());
        }
        Err(self.mistaken(found))
    }

    /// The first part of an identity that none of the expected ones has.
    fn mistaken(&self, found: Identity) -> Refusal {
        let of = |near: &[&Identity], part: fn(&Identity) -> String| -> Vec<String> {
            let all: BTreeSet<String> = near.iter().map(|node| part(node)).collect();
            all.into_iter().collect()
        };
        let all: Vec<&Identity> = self.expected.iter().collect();
        let near: Vec<&Identity> = all.iter().copied().filter(|node| node.dc == found.dc).collect();
        if near.is_empty() {
            return Refusal::WrongDataCenter { found, expected: of(&all, |node| node.dc.clone()) };
        }
        let nearer: Vec<&Identity> =
            near.iter().copied().filter(|node| node.role == found.role).collect();
        if nearer.is_empty() {
            return Refusal::WrongRole { found, expected: of(&near, |node| node.role.to_string()) };
        }
        Refusal::WrongIndex { found, expected: of(&nearer, |node| node.index.to_string()) }
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verify(end_entity, intermediates, now, KeyUsage::server_auth())?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.verify(end_entity, intermediates, now, KeyUsage::client_auth())?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trust").field(&self.believed().named).finish()
    }
}

/// The identity of a peer, from the certificates of a finished handshake.
///
/// The handshake has verified the certificates; this function only reads them.
///
/// # Errors
/// Where there is no certificate, it cannot be read, or it names no node.
pub fn identity_of(certificates: &[CertificateDer<'_>]) -> Result<Identity, Refusal> {
    let first = certificates.first().ok_or(Refusal::NoCertificate)?;
    claimed(&read(first)?)
}

fn read<'a>(der: &'a CertificateDer<'a>) -> Result<EndEntityCert<'a>, Refusal> {
    EndEntityCert::try_from(der).map_err(|error| Refusal::Unreadable { reason: error.to_string() })
}

/// The identity in a certificate. A certificate with two is refused, because they could differ.
fn claimed(certificate: &EndEntityCert<'_>) -> Result<Identity, Refusal> {
    let names: Vec<&str> = certificate.valid_uri_names().collect();
    let found = match names.as_slice() {
        [] => "nobody".into(),
        [one] => match one.parse() {
            Ok(identity) => return Ok(identity),
            Err(_) => format!("`{}`", shown(one)),
        },
        several => format!("{} names", several.len()),
    };
    Err(Refusal::NoIdentity { found })
}

fn short_fingerprint(certificate: &CertificateDer<'_>) -> String {
    fingerprint(certificate).chars().take(SHORT_FINGERPRINT_CHARS).collect()
}

const SHORT_FINGERPRINT_CHARS: usize = 16;
