//! The addresses at which the nodes of a run listen, and the properties of their network.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::types::DcId;

/// The part of a topology that only the real driver uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Whether workers and servers of one data center use TLS.
    pub lan_tls: bool,
    /// Whether a data center passes on the datagrams of two others while no datagrams pass directly between them.
    pub detours: bool,
    /// The address at which the coordinator listens, over TCP.
    pub coordinator: Option<Address>,
    /// The addresses at which servers listen, by data center and shard: over UDP for mirrors, over TCP for workers. The
    /// list of a data center without addresses is empty.
    pub servers: Vec<Vec<Address>>,
    /// Links without other traffic. Their congestion window is set from the bandwidth, not probed.
    pub dedicated: BTreeSet<(DcId, DcId)>,
}

/// A host name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The host. An IPv6 address has no brackets.
    pub host: String,
    /// The port, above 0.
    pub port: u16,
}

/// A text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not an address, expected {ADDRESS}")]
pub struct NotAnAddress {
    /// The text.
    pub found: String,
}

impl Deployment {
    /// The address at which a server listens. `None` if the topology names none.
    pub fn server(&self, dc: DcId, shard: usize) -> Option<&Address> {
        self.servers.get(dc.index())?.get(shard)
    }
}

impl Default for Deployment {
    fn default() -> Self {
        Self {
            lan_tls: true,
            detours: true,
            coordinator: None,
            servers: Vec::new(),
            dedicated: BTreeSet::new(),
        }
    }
}

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let wrong = || NotAnAddress { found: text.to_owned() };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let fits = match bracketed {
            Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_host(host),
        };
        let host = bracketed.unwrap_or(host).to_owned();
        if fits { Ok(Self { host, port }) } else { Err(wrong()) }
    }
}

/// Whether this can be a host name or an IPv4 address (RFC 1123, section 2.1).
fn is_host(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    host.len() <= 253 && host.trim_end_matches('.').split('.').all(label)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The form of an address, for error messages.
pub const ADDRESS: &str = "a host name or an IP address with a port, such as \"oregon-1.example.org:4433\", \
                           \"10.0.0.7:4433\" or \"[fd00::7]:4433\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_as_written() {
        for text in ["localhost:1", "10.0.0.7:4433", "[::1]:65535", "a-b.example.org:80"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "host",
            "host:",
            "host:0",
            "host:65536",
            "::1:80",
            "[::1]",
            "[host]:1",
            "a b:1",
            "a..b:1",
        ] {
            let wrong = NotAnAddress { found: text.to_owned() };
            assert_eq!(text.parse::<Address>(), Err(wrong));
        }
    }
}
