//! Server processes: each process of a server has a higher incarnation than those before. Messages to or from an
//! earlier one are rejected.

use std::collections::BTreeMap;

use super::{Broken, Checker, Seen, View};
use crate::cluster::envelopes::{FROM, HELLO, KIND, TO, u64_at};
use gaia_core::types::{DcId, ServerId};

#[derive(Debug, Default)]
pub(super) struct ServerProcesses {
    /// By server, the process that last sent a message, and its incarnation.
    spoken: BTreeMap<ServerId, (u64, u64)>,
    /// The incarnation of the other end in the last hello that each end has accepted.
    met: BTreeMap<(ServerId, DcId), u64>,
}

impl Checker for ServerProcesses {
    fn name(&self) -> &'static str {
        "server_processes"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        match seen {
            Seen::Left { from, message, .. } => {
                let incarnation = view.nodes.servers[&from].host.incarnation;
                let spoken = u64_at(&message.header, FROM);
                let before = self.spoken.insert(from, (incarnation, spoken));
                match before {
                    Some((other, known)) if other != incarnation && known >= spoken => {
                        Err(format!(
                            "{from} speaks as incarnation {spoken} and was {known} before it restarted"
                        ))
                    }
                    _ => Ok(()),
                }
            }
            Seen::Received { at, from, message, own } => {
                let speaker = u64_at(message, FROM);
                if message[KIND] == HELLO {
                    let known = self.met.insert((at, from), speaker).unwrap_or_default();
                    if speaker < known {
                        return Err(format!(
                            "{at} meets incarnation {speaker} of {from} after incarnation {known}"
                        ));
                    }
                    return Ok(());
                }
                let (met, to) = (self.met.get(&(at, from)).copied(), u64_at(message, TO));
                if met != Some(speaker) || to != own {
                    return Err(format!(
                        "{at}, incarnation {own}, believes what incarnation {speaker} of {from} said to incarnation {to}"
                    ));
                }
                Ok(())
            }
            // The last hello may not have been on disk.
            Seen::Recovered { server } => {
                self.met.retain(|(at, _), _| *at != server);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
