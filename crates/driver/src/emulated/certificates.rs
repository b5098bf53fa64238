//! The certificates of data centers, which are issued at the start. Their keys stay in the process.
//!
//! There is one connection for each pair of data centers, so each data center uses one certificate, that of its first
//! server.

use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::pki_types::UnixTime;

use super::TransportError;
use gaia_certificates::{Authority, Credentials, Identity, Validity, accepting, connecting};
use gaia_core::topology::Topology;
use gaia_core::types::DcId;

/// The credentials of one run.
#[derive(Debug)]
pub struct Certificates {
    /// In the topology's order.
    pub identities: Vec<Credentials>,
}

impl Certificates {
    /// Creates an authority, and issues a certificate for each data center.
    pub fn for_data_centers(topology: &Topology) -> Result<Self, TransportError> {
        let now = UnixTime::now();
        let failed = |reason: String| {
            let name = topology.name.clone();
            TransportError::Certificates { name, reason }
        };
        let mut authority =
            Authority::create(&topology.name, now).map_err(|error| failed(error.to_string()))?;
        let validity = Validity::starting(now, LASTING);
        let issue = |dc| authority.issue(&identity(topology, dc), validity);
        let identities: Result<Vec<_>, _> = topology.dc_ids().map(issue).collect();
        let identities = identities.map_err(|error| failed(error.to_string()))?;
        Ok(Self { identities })
    }

    /// TLS for a data center that accepts one peer only.
    pub(super) fn accepting(
        &self,
        topology: &Topology,
        dc: DcId,
        peer: Option<DcId>,
    ) -> Result<QuicServerConfig, TransportError> {
        let allowed = peer.map(|peer| identity(topology, peer));
        let mut config = accepting(&self.identities[dc.index()], allowed);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        QuicServerConfig::try_from(config).map_err(|error| TransportError::Certificates {
            name: topology.dc(dc).name.clone(),
            reason: error.to_string(),
        })
    }

    /// TLS for a data center that connects to a peer.
    pub(super) fn connecting(
        &self,
        topology: &Topology,
        dc: DcId,
        peer: DcId,
    ) -> Result<QuicClientConfig, TransportError> {
        let mut config = connecting(&self.identities[dc.index()], &identity(topology, peer));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        QuicClientConfig::try_from(config).map_err(|error| TransportError::Certificates {
            name: topology.dc(dc).name.clone(),
            reason: error.to_string(),
        })
    }
}

fn identity(topology: &Topology, dc: DcId) -> Identity {
    Identity::server(&topology.name, &topology.dc(dc).name, 0)
}

const PROTOCOL: &[u8] = b"gaia/1";

/// Longer than any run.
const LASTING: Duration = Duration::from_secs(365 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_topology::{link, mesh};
    use gaia_core::types::Bandwidth;

    #[test]
    fn any_name_in_a_topology_has_a_certificate_of_its_own() {
        let long = "a".repeat(80);
        let names = ["us-east-1", "São Paulo", "--", "", "US East 1", long.as_str()];
        let link = link(Bandwidth::from_mbit(1.0), Duration::ZERO, 0);
        let topology = mesh(&names, link);

        let certificates = Certificates::for_data_centers(&topology).unwrap();
        let found = certificates.identities.iter().map(|made| made.identity().dc.as_str());
        assert_eq!(found.collect::<Vec<_>>(), names);
    }
}
