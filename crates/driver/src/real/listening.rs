//! Where the nodes of this process listen.

use std::net::{IpAddr, SocketAddr};

use tracing::warn;

use super::connections::channel::resolve;
use super::error::{LinkFault, RealError};
use super::node::context::{Patience, RunContext};
use super::{NodeOptions, no_address};
use gaia_core::topology::Address;
use gaia_core::types::NodeId;

/// The address that a node listens on: that of the options, or else one that its name resolves to.
///
/// A name that has no address yet is asked for again, as that of any other node: after a power failure the name servers may
/// start later than this machine.
///
/// # Errors
/// [`RealError::NoAddress`] if neither is configured.
pub(super) async fn listening_address(
    run_context: &RunContext,
    node: NodeId,
    options: &NodeOptions,
    named: Option<&Address>,
) -> Result<SocketAddr, RealError> {
    let named = match (options.listen, named) {
        (Some(at), _) => return Ok(at),
        (None, Some(named)) => named,
        (None, None) => return Err(no_address(run_context, node)),
    };

    let node = run_context.name(node);
    let at = own_address(&node, named, resolve).await?;
    if is_hidden(&named.host, at.ip()) {
        warn!(
            "{node} listens at {at}, which no other machine reaches: here `{}` is the name of the loopback interface, as by a \
             line of /etc/hosts; expected a name of an address that others reach, or --listen IP:PORT",
            named.host
        );
    }
    Ok(at)
}

/// The first address that a name resolves to and others can reach, or else the first one.
async fn own_address(
    node: &str,
    named: &Address,
    resolve: impl AsyncFn(&Address) -> Result<Vec<SocketAddr>, LinkFault>,
) -> Result<SocketAddr, RealError> {
    let mut patience = Patience::new(format!("the address of {node}"), false);
    loop {
        let fault = match resolve(named).await {
            Ok(found) => {
                let reachable = found.iter().find(|at| !is_loopback(at.ip()));
                match reachable.or_else(|| found.first()) {
                    Some(at) => return Ok(*at),
                    None => LinkFault::Name(format!("`{}` has no address", named.host)),
                }
            }
            Err(fault) => fault,
        };
        patience.wait(named, fault).await?;
    }
}

/// Whether a host whose name suggests that others reach it listens where they do not. Debian gives a machine's name the
/// address 127.0.1.1.
fn is_hidden(host: &str, ip: IpAddr) -> bool {
    let means_this_machine = host.parse::<IpAddr>().is_ok() || host.contains("localhost");
    is_loopback(ip) && !means_this_machine
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The address for a name that resolves to these, after so many failures.
    async fn found(host: &str, failures: u32, ips: &[&str]) -> (SocketAddr, u32) {
        let named = Address { host: host.into(), port: 4433 };
        let asked = Cell::new(0);
        let resolve = async |named: &Address| {
            asked.set(asked.get() + 1);
            if asked.get() <= failures {
                return Err(LinkFault::Name("no name server answers".into()));
            }
            let at = |ip: &&str| SocketAddr::new(ip.parse().unwrap(), named.port);
            Ok(ips.iter().map(at).collect::<Vec<_>>())
        };
        let at = own_address("server 0 of tokyo", &named, resolve).await.unwrap();
        (at, asked.get())
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_without_an_address_is_asked_for_again() {
        let at: SocketAddr = ([10, 0, 0, 7], 4433).into();
        assert_eq!(found("node7", 5, &["10.0.0.7"]).await, (at, 6));
    }

    #[tokio::test]
    async fn an_address_that_others_reach_comes_first() {
        let check = async |host: &str, ips: &[&str], expect: &str, hidden: bool| {
            let (at, _) = found(host, 0, ips).await;
            assert_eq!(at.ip().to_string(), expect, "{host}");
            assert_eq!(is_hidden(host, at.ip()), hidden, "{host} at {at}");
        };
        check("node7", &["10.0.0.7", "10.0.0.8"], "10.0.0.7", false).await;
        check("node7", &["127.0.1.1", "10.0.0.7"], "10.0.0.7", false).await;
        check("node7", &["127.0.1.1"], "127.0.1.1", true).await;
        check("node7", &["::1"], "::1", true).await;
        check("localhost", &["::1", "127.0.0.1"], "::1", false).await;
        check("127.0.0.1", &["127.0.0.1"], "127.0.0.1", false).await;
    }
}
