//! Why a peer was refused: what its certificate says, and what was expected.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::UnixTime;
use rustls::{CertificateError, OtherError};

use super::{Identity, date};

/// Why a peer was refused in the handshake.
///
/// The identity `claimed` is not proven where the chain of the certificate is what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The peer showed no certificate.
    #[error("the peer presented no certificate, expected one of this run")]
    NoCertificate,
    /// The certificate is not valid X.509.
    #[error("the certificate cannot be read ({reason}), expected one of this run")]
    Unreadable {
        /// The reason, as the library words it.
        reason: String,
    },
    /// The certificate has no identity, or several.
    #[error("the certificate names {found}, expected one name such as gaia://RUN/DC/ROLE/INDEX")]
    NoIdentity {
        /// What the certificate has instead.
        found: String,
    },
    /// The certificate is no longer valid.
    #[error("the certificate for {claimed} expired at {}, expected one that is valid at {}", date(*.not_after), date(*.now))]
    Expired {
        /// The identity in the certificate, which nothing has proven.
        claimed: Identity,
        /// The end of its validity.
        not_after: UnixTime,
        /// The time of this machine.
        now: UnixTime,
    },
    /// The certificate is not valid yet.
    #[error("the certificate for {claimed} is valid from {}, expected one that is valid at {}", date(*.not_before), date(*.now))]
    NotYetValid {
        /// The identity in the certificate, which nothing has proven.
        claimed: Identity,
        /// The start of its validity.
        not_before: UnixTime,
        /// The time of this machine.
        now: UnixTime,
    },
    /// The certificate is signed by its own key.
    #[error("the certificate for {claimed} is self-signed, expected the signature of {expected}")]
    SelfSigned {
        /// The identity in the certificate, which nothing has proven.
        claimed: Identity,
        /// The trusted authorities, by their fingerprints.
        expected: String,
    },
    /// The certificate is signed by an authority that this node does not trust.
    #[error(
        "the certificate for {claimed} is signed by an unknown authority, expected the signature of {expected}"
    )]
    UnknownAuthority {
        /// The identity in the certificate, which nothing has proven.
        claimed: Identity,
        /// The trusted authorities, by their fingerprints.
        expected: String,
    },
    /// The certificate is revoked.
    #[error("the certificate for {claimed} has been revoked, expected one of a node of the run")]
    Removed {
        /// The identity in the certificate, which nothing has proven.
        claimed: Identity,
    },
    /// The certificate is for a node of another run.
    #[error("the certificate is for {found}, expected a node of run `{expected}`")]
    OtherRun {
        /// The identity in the certificate, which is proven.
        found: Identity,
        /// The name of this run.
        expected: String,
    },
    /// The certificate is for a node of another data center.
    #[error("the certificate is for {found}, expected data center {}", either(.expected))]
    WrongDataCenter {
        /// The identity in the certificate, which is proven.
        found: Identity,
        /// The values that would be accepted here.
        expected: Vec<String>,
    },
    /// The certificate is for a node of another role.
    #[error("the certificate is for {found}, expected a {}", either(.expected))]
    WrongRole {
        /// The identity in the certificate, which is proven.
        found: Identity,
        /// The values that would be accepted here.
        expected: Vec<String>,
    },
    /// The certificate is for a node with another number.
    #[error("the certificate is for {found}, expected number {}", either(.expected))]
    WrongIndex {
        /// The identity in the certificate, which is proven.
        found: Identity,
        /// The values that would be accepted here.
        expected: Vec<String>,
    },
    /// The certificate does not hold for another reason.
    #[error("the certificate for {claimed} is not valid ({reason}), expected one of this run")]
    Broken {
        /// The identity in the certificate, which nothing has proven.
        claimed: Identity,
        /// The reason, as the library words it.
        reason: String,
    },
}

impl Refusal {
    /// The refusal inside an error of a handshake. `None` where the error is not about a certificate.
    pub fn of(error: &rustls::Error) -> Option<Self> {
        match error {
            rustls::Error::NoCertificatesPresented => Some(Self::NoCertificate),
            rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(carried))) => {
                carried.downcast_ref::<Carried>().map(|carried| carried.0.clone())
            }
            _ => None,
        }
    }
}

impl From<Refusal> for rustls::Error {
    fn from(refusal: Refusal) -> Self {
        CertificateError::Other(OtherError(Arc::new(Carried(refusal)))).into()
    }
}

/// The reason of a failed handshake, without the text that TLS wraps around a [`Refusal`].
///
/// For transports that report errors as text only.
pub fn plain_reason(reason: &str) -> &str {
    let inner = reason.split_once(WRAPPING).map(|(_, inner)| inner);
    inner.and_then(|inner| inner.strip_suffix("))")).unwrap_or(reason)
}

/// A refusal inside an error of TLS, which prints it with `Debug`.
struct Carried(Refusal);

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Carried {}

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
