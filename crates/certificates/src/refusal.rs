//! Why a peer was turned away: what its certificate says, and what was expected.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::UnixTime;
use rustls::{CertificateError, OtherError};

use super::{Identity, date};

/// Why a peer was refused in the handshake.
///
/// `claimed` is what the certificate says of itself; nothing vouches for it where the chain is what was wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the peer showed no certificate, expected one of this run")]
    NoCertificate,
    #[error("the certificate cannot be read ({reason}), expected one of this run")]
    Unreadable { reason: String },
    #[error("the certificate names {found}, expected one name such as gaia://RUN/DC/ROLE/INDEX")]
    NoIdentity { found: String },
    #[error("the certificate for {claimed} expired at {}, expected one that holds at {}", date(*.not_after), date(*.now))]
    Expired { claimed: Identity, not_after: UnixTime, now: UnixTime },
    #[error("the certificate for {claimed} holds from {}, expected one that holds at {}", date(*.not_before), date(*.now))]
    NotYetValid { claimed: Identity, not_before: UnixTime, now: UnixTime },
    #[error(
        "the certificate for {claimed} is signed by itself, expected the signature of {expected}"
    )]
    SelfSigned { claimed: Identity, expected: String },
    #[error(
        "the certificate for {claimed} is signed by a stranger, expected the signature of {expected}"
    )]
    UnknownAuthority { claimed: Identity, expected: String },
    #[error("the certificate for {claimed} has been revoked, expected one of a node of the run")]
    Removed { claimed: Identity },
    #[error("the certificate is for {found}, expected a node of run `{expected}`")]
    OtherRun { found: Identity, expected: String },
    #[error("the certificate is for {found}, expected data center {}", either(.expected))]
    WrongDataCenter { found: Identity, expected: Vec<String> },
    #[error("the certificate is for {found}, expected a {}", either(.expected))]
    WrongRole { found: Identity, expected: Vec<String> },
    #[error("the certificate is for {found}, expected number {}", either(.expected))]
    WrongIndex { found: Identity, expected: Vec<String> },
    #[error("the certificate for {claimed} does not hold ({reason}), expected one of this run")]
    Broken { claimed: Identity, reason: String },
}

impl Refusal {
    /// The refusal within an error of a handshake, where a certificate is the reason.
    pub fn of(error: &rustls::Error) -> Option<Self> {
        match error {
            rustls::Error::NoCertificatesPresented => Some(Self::NoCertificate),
            rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(told))) => {
                told.downcast_ref::<Told>().map(|told| told.0.clone())
            }
            _ => None,
        }
    }
}

impl From<Refusal> for rustls::Error {
    fn from(refusal: Refusal) -> Self {
        CertificateError::Other(OtherError(Arc::new(Told(refusal)))).into()
    }
}

/// The reason of a failed handshake without what TLS wraps around a [`Refusal`]: for transports that pass errors on
/// as text.
pub fn plain_reason(reason: &str) -> &str {
    let inner = reason.split_once(WRAPPING).map(|(_, inner)| inner);
    inner.and_then(|inner| inner.strip_suffix("))")).unwrap_or(reason)
}

/// A refusal on its way through TLS, which shows it with `Debug`.
struct Told(Refusal);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Told {}

fn either(expected: &[String]) -> String {
    let shown = expected.len().min(EXPECTED_SHOWN_MAX);
    let mut text = expected[..shown].join(" or ");
    if shown < expected.len() {
        text.push_str(&format!(" or one of {} more", expected.len() - shown));
    }
    text
}

const WRAPPING: &str = "Other(OtherError(";
const EXPECTED_SHOWN_MAX: usize = 4;
