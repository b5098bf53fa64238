//! Once a run is over and faults have ended, nothing is left anywhere: no frame in a server, none in a session.

use super::Broken;
use crate::driver::cluster::Cluster;
use crate::faults::ends::{Ends, held_bytes};
use crate::types::{Instant, Lane};

/// The law's name in reports.
pub(in crate::faults) const NAME: &str = "quiescence";

/// What sessions still hold, if anything.
pub(in crate::faults) fn held(ends: &Ends) -> Option<Broken> {
    let held = ends.sessions().map(|((server, peer), session)| (server, peer, held_bytes(session)));
    let held = held.filter(|(_, _, bytes)| *bytes > 0);
    let held: Vec<String> = held
        .map(|(server, peer, bytes)| format!("{server} holds {bytes} bytes for and from {peer}"))
        .collect();
    (!held.is_empty()).then(|| held.join("; "))
}

/// Asks every server of a run that is over for frames: there must be none.
pub(in crate::faults) fn nothing_left(now: Instant, cluster: &mut Cluster) -> Result<(), Broken> {
    let dcs: Vec<_> = cluster.servers.iter().map(|server| server.id().dc).collect();
    for server in &mut cluster.servers {
        let id = server.id();
        for to in dcs.iter().copied().filter(|to| *to != id.dc) {
            for lane in Lane::ALL {
                if server.poll_transmit(now, to, lane, ROOM).is_some() {
                    let lane = lane.name();
                    return Err(format!("{id} still has a {lane} frame for {to}"));
                }
            }
        }
    }
    Ok(())
}

const ROOM: usize = 4096;
