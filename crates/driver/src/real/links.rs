//! Checks all links that a node needs, before a run: `gaia check --connect`.

use std::sync::Arc;

use crate::RunError;
use crate::cluster::Blueprint;
use crate::real::connections::message::Purpose;
use crate::real::error::{LinkFault, RealError};
use crate::real::node::context::{NodeContext, RunContext};
use crate::real::server::mirrors;
use crate::real::{NodeOptions, runtime};
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::topology::Address;
use gaia_core::types::{NodeId, ServerId};

/// The result of checking one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkCheck {
    /// The display name of the node that connects.
    pub from: String,
    /// The display name of the other node.
    pub to: String,
    /// `tcp` or `udp`.
    pub protocol: &'static str,
    /// `None` if neither the topology nor the environment has it.
    pub address: Option<Address>,
    /// The fault of the link. `None` if it works.
    pub fault: Option<LinkFault>,
}

/// Checks once all links that start at the nodes of this process: to the coordinator, to a worker's servers, to a
/// server's mirrors. The other ends must be running. No run begins. Without an application only settings are compared, not
/// the shape of the model.
///
/// # Errors
/// If this node's own certificate is invalid.
pub fn check_links(
    plan: &Plan,
    application: Option<&Arc<dyn Application>>,
    options: &NodeOptions,
) -> Result<Vec<LinkCheck>, RunError> {
    let run_context = RunContext::new(plan, &options.certificates);
    if let Some(application) = application {
        run_context.agree_on(&Blueprint::new(plan, application));
    }
    let runtime = runtime()?;
    let checked: Result<Vec<LinkCheck>, RealError> = runtime.block_on(async {
        let mut checks = Vec::new();
        for node in &options.nodes {
            let context = run_context.node_context(*node)?;
            for (to, protocol, address) in links_of(&run_context, *node, options) {
                let fault = match &address {
                    Some(address) => attempt(&context, to, protocol, address).await.err(),
                    None => Some(LinkFault::Name("no address is known".into())),
                };
                let (from, to) = (run_context.name(*node), run_context.name(to));
                checks.push(LinkCheck { from, to, protocol, address, fault });
            }
        }
        Ok(checks)
    });

    runtime.shutdown_background();
    Ok(checked?)
}

async fn attempt(
    context: &NodeContext,
    to: NodeId,
    protocol: &str,
    address: &Address,
) -> Result<(), LinkFault> {
    match to {
        NodeId::Server(mirror) if protocol == UDP => mirrors::check(context, mirror, address).await,
        _ => context.dial(to, address, &context.hello(Purpose::Check)).await.map(drop),
    }
}

fn links_of(
    run_context: &RunContext,
    node: NodeId,
    options: &NodeOptions,
) -> Vec<(NodeId, &'static str, Option<Address>)> {
    let (topology, deployment) = (&run_context.plan.topology, &run_context.plan.deployment);
    let coordinator = options.coordinator.clone().or_else(|| deployment.coordinator.clone());
    let server = |id: ServerId| deployment.server(id.dc, id.shard.index()).cloned();
    let to_coordinator = (NodeId::Coordinator, TCP, coordinator);

    match node {
        // The coordinator opens no connections.
        NodeId::Coordinator => Vec::new(),
        NodeId::Server(own) => {
            let others = topology.dc_ids().filter(|dc| *dc != own.dc);
            let mirrors = others.map(|dc| ServerId { dc, shard: own.shard });
            let mirrors = mirrors.map(|id| (NodeId::Server(id), UDP, server(id)));
            std::iter::once(to_coordinator).chain(mirrors).collect()
        }
        NodeId::Worker(own) => {
            let shards = 0..topology.dc(own.dc).servers as u16;
            let servers = shards
                .map(|shard| ServerId { dc: own.dc, shard: gaia_core::types::ShardId(shard) });
            let servers = servers.map(|id| (NodeId::Server(id), TCP, server(id)));
            std::iter::once(to_coordinator).chain(servers).collect()
        }
    }
}

const TCP: &str = "tcp";
const UDP: &str = "udp";
