//! The implementation of the algorithms of TLS.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// Ring, chosen here because another library may have set the default of the process.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
