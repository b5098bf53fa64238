//! Whether nodes reach each other at the addresses that the topology names.

use std::net::IpAddr;

use gaia_core::topology::Address;

use crate::{DeployError, Site};

/// A process to which others connect.
struct Listening<'s> {
    /// The key of the topology for its address.
    key: String,
    named: Option<&'s Address>,
}

/// Checks that no address is one at which each host reaches itself.
///
/// # Errors
/// [`DeployError::OwnHost`].
pub(crate) fn check_hosts(sites: &[Site]) -> Result<(), DeployError> {
    listening(sites).iter().try_for_each(Listening::check_host)
}

/// As [`check_hosts`], unless all nodes are on this machine.
///
/// # Errors
/// [`DeployError::OwnHost`] where only some of the addresses are those of this machine. [`DeployError::HalfNamed`] where the
/// topology names other hosts and not the coordinator's, since that then is this one.
pub(crate) fn check_hosts_unless_here(sites: &[Site]) -> Result<(), DeployError> {
    let listening = listening(sites);
    let is_elsewhere =
        |process: &&Listening<'_>| process.named.is_some_and(|address| !is_own_host(&address.host));
    let Some(elsewhere) = listening.iter().find(is_elsewhere) else { return Ok(()) };
    match listening.first() {
        Some(coordinator) if coordinator.named.is_none() => Err(elsewhere.without(coordinator)),
        _ => listening.iter().try_for_each(Listening::check_host),
    }
}

/// Checks that the topology names all addresses or none. In a single data center some of them do.
///
/// # Errors
/// [`DeployError::HalfNamed`].
pub(crate) fn check_all_or_none(sites: &[Site]) -> Result<(), DeployError> {
    let listening = listening(sites);
    let named = listening.iter().find(|process| process.named.is_some());
    let unnamed = listening.iter().find(|process| process.named.is_none());
    match (named, unnamed) {
        (Some(named), Some(unnamed)) if sites.len() > 1 => Err(named.without(unnamed)),
        _ => Ok(()),
    }
}

/// All processes to which others connect: first the coordinator, which is in the first data center.
fn listening(sites: &[Site]) -> Vec<Listening<'_>> {
    let sites = sites.iter().enumerate();
    let processes = sites.flat_map(|(at, site)| site.processes.iter().map(move |own| (at, own)));
    let listening = processes.filter(|(_, process)| process.listens());
    let listening = listening.map(|(at, process)| Listening {
        key: match process.is_coordinator() {
            true => "topology.coordinator_address".into(),
            false => format!("topology.data_center.{at}.server_addresses"),
        },
        named: process.named.as_ref(),
    });
    listening.collect()
}

impl Listening<'_> {
    fn check_host(&self) -> Result<(), DeployError> {
        match self.named {
            Some(address) if is_own_host(&address.host) => {
                Err(DeployError::OwnHost { key: self.key.clone(), address: address.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// The error that this address is named, and that of another process is not.
    fn without(&self, missing: &Self) -> DeployError {
        let address = self.named.map(ToString::to_string).unwrap_or_default();
        DeployError::HalfNamed { key: self.key.clone(), address, missing: missing.key.clone() }
    }
}

/// Whether a host is the one that asks, for every host.
fn is_own_host(host: &str) -> bool {
    if let Ok(ip) = host.parse::<IpAddr>() {
        let ip = ip.to_canonical();
        return ip.is_loopback() || ip.is_unspecified();
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    OWN_NAMES.contains(&name.as_str()) || name.ends_with(".localhost")
}

/// Names of the loopback interface (RFC 6761, section 6.3), and those that distributions give it.
const OWN_NAMES: [&str; 4] =
    ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_its_own_by_any_name_of_the_loopback_interface() {
        let own = [
            "localhost",
            "LOCALHOST.",
            "db.localhost",
            "127.0.0.1",
            "127.0.1.1",
            "0.0.0.0",
            "::1",
            "::",
            "::ffff:127.0.0.1",
        ];
        for host in own {
            assert!(is_own_host(host), "{host}");
        }
        for host in ["localhost.example.org", "a", "10.0.0.1", "128.0.0.1", "fd00::1"] {
            assert!(!is_own_host(host), "{host}");
        }
    }
}
