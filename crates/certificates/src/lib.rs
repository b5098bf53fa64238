//! The certificates of a run: one authority for each run, one certificate for each node.
//!
//! This crate decides which peer a node accepts, and how the certificates of a run are made, stored, renewed and
//! revoked. A certificate names its node, [`Identity`]. A peer is accepted for its certificate alone, not for its
//! address and not for what it sends later. A refused peer is refused inside the handshake, before anything that it
//! sends is read. The crate does not know what nodes send to each other or over which transport, and it owns no clock:
//! TLS asks the machine for the time.
//!
//! # Example
//!
//! An authority signs for two servers, and the one that accepts sees who has connected.
//!
//! ```
//! use std::time::Duration;
//! use gaia_certificates::{
//!     Authority, Identity, SERVER_NAME, Validity, accepting, connecting, identity_of,
//! };
//! use rustls::pki_types::UnixTime;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = UnixTime::now();
//! let mut authority = Authority::create("demo", now)?;
//! let (oregon, tokyo) = (Identity::server("demo", "oregon", 0), Identity::server("demo", "tokyo", 0));
//! let validity = Validity::starting(now, Duration::from_secs(90 * 86_400));
//! let in_oregon = authority.issue(&oregon, validity)?;
//! let in_tokyo = authority.issue(&tokyo, validity)?;
//!
//! let mut accepts = rustls::ServerConnection::new(accepting(&in_tokyo, [oregon.clone()]).into())?;
//! let config = connecting(&in_oregon, &tokyo);
//! let mut connects = rustls::ClientConnection::new(config.into(), SERVER_NAME.try_into()?)?;
//! while accepts.is_handshaking() || connects.is_handshaking() {
//!     let mut sent = Vec::new();
//!     connects.write_tls(&mut sent)?;
//!     accepts.read_tls(&mut sent.as_slice())?;
//!     accepts.process_new_packets()?;
//!     let mut answer = Vec::new();
//!     accepts.write_tls(&mut answer)?;
//!     connects.read_tls(&mut answer.as_slice())?;
//!     connects.process_new_packets()?;
//! }
//! assert_eq!(identity_of(accepts.peer_certificates().unwrap_or_default())?, oregon);
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod authority;
mod credentials;
mod directory;
mod error;
mod files;
mod identity;
mod proof;
mod provider;
mod refusal;
mod register;
mod tls;
mod trust;
mod validity;

pub use authority::Authority;
pub use credentials::Credentials;
pub use directory::{Details, Directory, Listed, State};
pub use error::CertificateError;
pub use identity::{Identity, NotAnIdentity, Role};
pub use proof::Proof;
pub use refusal::{Refusal, plain_reason};
pub use tls::{SERVER_NAME, accepting, connecting};
pub use trust::identity_of;
pub use validity::{Validity, date};

use rustls::pki_types::CertificateDer;

/// The SHA-256 of a certificate in hexadecimal digits, as other tools print it.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    register::hex(ring::digest::digest(&ring::digest::SHA256, certificate).as_ref())
}
