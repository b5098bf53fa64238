//! Quiescence: once a run is over and faults have ended, no frame is left in a server or a session. Frames for data
//! centers that have left do not count.

use std::collections::BTreeSet;

use super::Broken;
use crate::cluster::ends::held_bytes;
use crate::cluster::nodes::Nodes;
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, Instant, Lane};

/// The invariant's name in reports.
pub(crate) const NAME: &str = "quiescence";

/// A description of the frames that sessions hold, if any.
pub(crate) fn held(
    nodes: &Nodes<'_>,
    topology: &Topology,
    inactive: &BTreeSet<DcId>,
) -> Option<Broken> {
    let mut held = Vec::new();
    let there: Vec<DcId> = topology.dc_ids().filter(|dc| !inactive.contains(dc)).collect();
    for (server, node) in nodes.servers.iter().filter(|(id, _)| there.contains(&id.dc)) {
        for peer in there.iter().copied().filter(|peer| *peer != server.dc) {
            let bytes = held_bytes(node.machine.session(peer));
            if bytes > 0 {
                held.push(format!("{server} holds {bytes} bytes for and from {peer}"));
            }
        }
    }
    (!held.is_empty()).then(|| held.join("; "))
}

/// Polls frames of all servers after the run. There must be none.
pub(crate) fn nothing_left(
    now: Instant,
    nodes: &mut Nodes<'_>,
    inactive: &BTreeSet<DcId>,
) -> Result<(), Broken> {
    let dcs: BTreeSet<DcId> = nodes.servers.keys().map(|id| id.dc).collect();
    let dcs: BTreeSet<DcId> = dcs.difference(inactive).copied().collect();
    for (id, node) in nodes.servers.iter_mut().filter(|(id, _)| dcs.contains(&id.dc)) {
        for to in dcs.iter().copied().filter(|to| *to != id.dc) {
            for lane in Lane::ALL {
                if node.machine.cut(now, to, lane, ROOM).is_some() {
                    let lane = lane.name();
                    return Err(format!("{id} has a {lane} frame for {to} after the run"));
                }
            }
        }
    }
    Ok(())
}

const ROOM: usize = 4096;
