//! Who may speak for which data center: one authority per run, one certificate per data center.
//!
//! Keys are made at start and never leave the process. They are Ed25519, whose signatures have one length, so
//! that handshakes take the same bytes every time. A certificate names its data center, and both ends check it: the
//! side that connects through TLS itself, the side that accepts through [`check_peer`].

use std::any::Any;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, client, server, version};

use super::TransportError;
use crate::topology::Topology;
use crate::types::DcId;

/// The identities of one run.
#[derive(Debug)]
pub struct Certificates {
    /// In the topology's order.
    pub identities: Vec<Identity>,
    authority: CertificateDer<'static>,
}

/// What a data center shows to its peers.
#[derive(Debug)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Certificates {
    /// Makes an authority, and a certificate of it for each data center.
    pub fn for_data_centers(topology: &Topology) -> Result<Self, TransportError> {
        let failed = |name: &str| {
            let name = name.to_owned();
            move |error: rcgen::Error| TransportError::Certificates {
                name,
                reason: error.to_string(),
            }
        };
        let name = "the run's authority";
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(failed(name))?;
        let mut params = CertificateParams::new(Vec::new()).map_err(failed(name))?;
        params.distinguished_name = common_name("gaia");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = params.self_signed(&key).map_err(failed(name))?.into();
        let issuer = Issuer::new(params, key);

        let mut identities = Vec::new();
        for dc in topology.dc_ids() {
            let name = &topology.dc(dc).name;
            identities.push(Identity::new(&issuer, host_name(topology, dc)).map_err(failed(name))?);
        }
        Ok(Self { identities, authority })
    }

    /// TLS for a data center that accepts: its peers must show a certificate of this run.
    pub(super) fn accepting(
        &self,
        topology: &Topology,
        dc: DcId,
    ) -> Result<QuicServerConfig, TransportError> {
        let failed = |reason: String| {
            let name = topology.dc(dc).name.clone();
            TransportError::Certificates { name, reason }
        };
        let provider = provider();
        let roots = Arc::new(self.roots().map_err(|error| failed(error.to_string()))?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let identity = &self.identities[dc.index()];
        let mut config = server_config(provider, verifier, identity)
            .map_err(|error| failed(error.to_string()))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        QuicServerConfig::try_from(config).map_err(|error| failed(error.to_string()))
    }

    /// TLS for a data center that connects. The name of its peer is checked during the handshake.
    pub(super) fn connecting(
        &self,
        topology: &Topology,
        dc: DcId,
    ) -> Result<QuicClientConfig, TransportError> {
        let failed = |reason: String| {
            let name = topology.dc(dc).name.clone();
            TransportError::Certificates { name, reason }
        };
        let roots = self.roots().map_err(|error| failed(error.to_string()))?;
        let identity = &self.identities[dc.index()];
        let mut config =
            client_config(roots, identity).map_err(|error| failed(error.to_string()))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        QuicClientConfig::try_from(config).map_err(|error| failed(error.to_string()))
    }

    fn roots(&self) -> Result<RootCertStore, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone())?;
        Ok(roots)
    }
}

impl Identity {
    fn new(issuer: &Issuer<'_, KeyPair>, host_name: String) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
        let distinguished_name = common_name(&host_name);
        let mut params = CertificateParams::new(vec![host_name])?;
        params.distinguished_name = distinguished_name;
        let certificate = params.signed_by(&key, issuer)?.into();
        Ok(Self { certificate, key: PrivatePkcs8KeyDer::from(key.serialize_der()) })
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key().into()
    }
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// The name in a data center's certificate: its name in the topology as a host name, made unique by its number.
pub(super) fn host_name(topology: &Topology, dc: DcId) -> String {
    let lower = topology.dc(dc).name.to_lowercase();
    let kept: String =
        lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let label: String = kept.trim_matches('-').chars().take(LABEL_CHARS_MAX).collect();
    let label = label.trim_end_matches('-');
    if label.is_empty() { format!("{dc}.gaia") } else { format!("{label}.{dc}.gaia") }
}

/// Checks that a peer whose certificate the authority has signed is the data center it should be.
pub(super) fn check_peer(
    identity: Option<Box<dyn Any>>,
    topology: &Topology,
    at: DcId,
    peer: DcId,
) -> Result<(), TransportError> {
    let refused = |reason: String| TransportError::WrongCertificate {
        at: topology.dc(at).name.clone(),
        peer: topology.dc(peer).name.clone(),
        reason,
    };
    let chain = identity.and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    let chain = chain.unwrap_or_default();
    let first = chain.first().ok_or_else(|| refused("it has no certificate".into()))?;
    let parsed = server::ParsedCertificate::try_from(first);
    let expected = ServerName::try_from(host_name(topology, peer));
    let expected = expected.map_err(|error| refused(error.to_string()))?;
    parsed
        .and_then(|certificate| client::verify_server_name(&certificate, &expected))
        .map_err(|error| refused(error.to_string()))
}

fn server_config(
    provider: Arc<CryptoProvider>,
    verifier: Arc<dyn server::danger::ClientCertVerifier>,
    identity: &Identity,
) -> Result<rustls::ServerConfig, rustls::Error> {
    rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![identity.certificate.clone()], identity.key())
}

fn client_config(
    roots: RootCertStore,
    identity: &Identity,
) -> Result<rustls::ClientConfig, rustls::Error> {
    rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![identity.certificate.clone()], identity.key())
}

/// Chosen here and not by the process, whose default another library could have set.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

const PROTOCOL: &[u8] = b"gaia/1";

/// The longest label of a host name (RFC 1035, section 2.3.4).
const LABEL_CHARS_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::DataCenter;
    use crate::types::{Bandwidth, Time};

    #[test]
    fn any_name_in_a_topology_becomes_a_host_name_of_its_own() {
        let named = |name: &str| DataCenter {
            name: name.into(),
            servers: 1,
            workers: 1,
            lan_bandwidth: Bandwidth::from_mbit(1.0),
            lan_rtt: Time::default(),
            colocated: false,
        };
        let long = "a".repeat(80);
        let names = ["us-east-1", "São Paulo", "--", "", "US East 1", long.as_str()];
        let topology = Topology {
            name: "names".into(),
            data_centers: names.iter().map(|name| named(name)).collect(),
            links: Vec::new(),
            groups: Vec::new(),
            bandwidth_scale: 1.0,
        };
        let hosts: Vec<String> = topology.dc_ids().map(|dc| host_name(&topology, dc)).collect();
        assert_eq!(hosts[0], "us-east-1.dc0.gaia");
        assert_eq!(hosts[1], "s-o-paulo.dc1.gaia");
        assert_eq!(hosts[2], "dc2.gaia");
        for host in &hosts {
            assert!(ServerName::try_from(host.as_str()).is_ok(), "{host}");
        }
        Certificates::for_data_centers(&topology).unwrap();
    }
}
