//! The credentials of one node: what it shows to its peers, and what it checks them with.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ring::hmac;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::files::Bundle;
use super::provider::provider;
use super::trust::Trust;
use super::{CertificateError, Identity, Proof, Validity, identity_of};

/// A node's certificate and key, the authorities it trusts, and what these have revoked.
///
/// The certificate and the key are read once. The authorities and their revocation lists can be read again with
/// [`Credentials::reload`], which also changes all clones and every TLS configuration made from them.
#[derive(Clone)]
pub struct Credentials {
    identity: Identity,
    certified: CertifiedKey,
    key: Arc<PrivateKeyDer<'static>>,
    authorities: Vec<CertificateDer<'static>>,
    removed: Vec<CertificateRevocationListDer<'static>>,
    trust: Arc<Trust>,
}

impl Credentials {
    /// Credentials of a node. `chain` starts with the node's own certificate, and `removed` has a revocation list of each
    /// authority.
    ///
    /// # Errors
    /// [`CertificateError::Unfit`] where the certificate names no node, the key is not that of the certificate, or an
    /// authority has no list.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        authorities: Vec<CertificateDer<'static>>,
        removed: Vec<CertificateRevocationListDer<'static>>,
    ) -> Result<Self, CertificateError> {
        if chain.is_empty() {
            return Err(CertificateError::unfit("no certificate", "the certificate of a node"));
        }

        let identity = identity_of(&chain).map_err(|refusal| {
            let found = format!("one that no peer would trust ({refusal})");
            CertificateError::unfit(found, "the certificate of a node")
        })?;

        let certified = CertifiedKey::from_der(chain, key.clone_key(), &provider());
        let certified = certified.map_err(|error| {
            let found = format!("a key that does not fit the certificate ({error})");
            CertificateError::unfit(found, "the key of the certificate beside it")
        })?;

        let trust = Arc::new(Trust::new(&authorities, &removed)?);
        Ok(Self { identity, certified, key: Arc::new(key), authorities, removed, trust })
    }

    /// Reads a node's folder, as [`Credentials::save`] writes it.
    ///
    /// # Errors
    /// Where a file is missing, cannot be read, or does not hold what it should.
    pub fn load(folder: &Path) -> Result<Self, CertificateError> {
        let path = folder.join(NODE);
        let node = Bundle::read(&path, "a key and a certificate, as gaia certs writes them")?;
        let mut keys = node.keys.into_iter();
        let (Some(key), None) = (keys.next(), keys.next()) else {
            return Err(CertificateError::unfit("no private key or several", "one").at(&path));
        };
        let trust = Bundle::read(&folder.join(TRUST), TRUSTED)?;
        Self::new(node.certificates, key, trust.certificates, trust.removed)
            .map_err(|error| error.at(folder))
    }

    /// Reads the authorities and their revocation lists again, and returns whether they have changed.
    ///
    /// # Errors
    /// Where the file cannot be read or is not valid. The node then trusts what it trusted before.
    pub fn reload(&self, folder: &Path) -> Result<bool, CertificateError> {
        let path = folder.join(TRUST);
        let trust = Bundle::read(&path, TRUSTED)?;
        let replaced = self.trust.replace(&trust.certificates, &trust.removed);
        replaced.map_err(|error| error.at(&path))
    }

    /// Watches the chain of a peer, which was accepted in a handshake, for its revocation.
    pub fn proof(&self, chain: Vec<CertificateDer<'static>>) -> Proof {
        Proof::new(chain, self.trust.changes())
    }

    /// Whether a folder holds the credentials of a node.
    pub fn is_folder(folder: &Path) -> bool {
        folder.join(NODE).is_file()
    }

    /// Writes a node's folder: `node.pem` with its key and chain, readable by the owner only, and `trust.pem` with the
    /// authorities and their revocation lists. Each file is replaced whole.
    ///
    /// # Errors
    /// [`CertificateError::Io`] where a file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), CertificateError> {
        save_trust(folder, &self.authorities, &self.removed)?;
        let keys = vec![self.key.clone_key()];
        let certificates = self.chain().to_vec();
        Bundle { keys, certificates, ..Bundle::default() }.write(&folder.join(NODE))
    }

    /// The node that the certificate is for.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The node's own certificate, followed by those between it and an authority.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// The authorities that the node trusted when it read its folder.
    pub fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    /// The validity of the node's certificate.
    ///
    /// # Errors
    /// [`CertificateError::Unfit`] where the certificate cannot be read.
    pub fn validity(&self) -> Result<Validity, CertificateError> {
        let first = self.chain().first();
        Validity::of(first.expect("a chain was checked to have a first certificate"))
    }

    /// A secret of this node for one purpose. Every process that holds the node's key derives the same secret, and the
    /// secret does not reveal the key.
    pub fn secret(&self, purpose: &str) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.key.secret_der());
        let tag = hmac::sign(&key, purpose.as_bytes());
        let mut secret = [0; 32];
        secret.copy_from_slice(tag.as_ref());
        secret
    }

    pub(super) fn trust(&self) -> Arc<Trust> {
        self.trust.clone()
    }

    pub(super) fn shown(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(self.certified.clone()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credentials").field(&self.identity.to_string()).finish()
    }
}

/// Writes the authorities and their revocation lists, which are the same for all nodes of a run.
pub(super) fn save_trust(
    folder: &Path,
    authorities: &[CertificateDer<'static>],
    removed: &[CertificateRevocationListDer<'static>],
) -> Result<(), CertificateError> {
    let (certificates, removed) = (authorities.to_vec(), removed.to_vec());
    Bundle { certificates, removed, ..Bundle::default() }.write(&folder.join(TRUST))
}

/// The file of a node's key and certificate.
pub(super) const NODE: &str = "node.pem";
const TRUST: &str = "trust.pem";
const TRUSTED: &str = "the authorities of the run and their revocation lists";
