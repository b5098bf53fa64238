//! A certificate that was accepted in a handshake, watched for its revocation.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;
use webpki::KeyUsage;

use super::provider::provider;
use super::trust::Believed;
use super::{Refusal, Validity};

/// The certificates of the peer of a connection, watched for their revocation.
pub struct Proof {
    chain: Vec<CertificateDer<'static>>,
    believed: watch::Receiver<Arc<Believed>>,
}

impl Proof {
    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        mut believed: watch::Receiver<Arc<Believed>>,
    ) -> Self {
        // The lists may have changed since the handshake.
        believed.mark_changed();
        Self { chain, believed }
    }

    /// Waits until the certificate is revoked, and returns the refusal that a new handshake would have.
    ///
    /// Cancel safe.
    pub async fn revoked(&mut self) -> Refusal {
        while self.believed.changed().await.is_ok() {
            let believed = self.believed.borrow().clone();
            if let Some(refusal) = removal(&believed, &self.chain) {
                return refusal;
            }
        }
        // The credentials are gone, so that no list can change any more.
        std::future::pending().await
    }
}

/// The refusal of a revoked certificate. A certificate that has expired since its handshake is not refused.
fn removal(believed: &Believed, chain: &[CertificateDer<'_>]) -> Option<Refusal> {
    let (first, intermediates) = chain.split_first()?;
    let begins = chain.iter().filter_map(|one| Validity::of(one).ok());
    let held = begins.map(|validity| validity.not_before.as_secs()).max()?;
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(held));
    let usage = KeyUsage::client_auth();
    let proven = believed.prove(first, intermediates, now, usage, &provider());
    proven.err().filter(|refusal| matches!(refusal, Refusal::Removed { .. }))
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proof").finish_non_exhaustive()
    }
}
