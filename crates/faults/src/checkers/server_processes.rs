//! Server processes: each process of a server has a higher incarnation than those before. Messages to or from an
//! earlier one are rejected.

use std::collections::BTreeMap;

use super::{Broken, Checker, Seen, View};
use crate::cluster::envelopes::{FROM, HELLO, KIND, TO, u64_at};
use gaia_core::types::{DcId, ServerId};

#[derive(Debug, Default)]
pub(super) struct ServerProcesses {
    /// By server, the process that last sent a message, and its incarnation.
    sent: BTreeMap<ServerId, (u64, u64)>,
    /// The incarnation of the other end in the last hello that each end has accepted.
    hellos: BTreeMap<(ServerId, DcId), u64>,
}

impl Checker for ServerProcesses {
    fn name(&self) -> &'static str {
        "server_processes"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        match seen {
            Seen::Left { from, message, .. } => {
                let incarnation = view.nodes.servers[&from].host.incarnation;
                let sent = u64_at(&message.header, FROM);
                let before = self.sent.insert(from, (incarnation, sent));
                match before {
                    Some((other, known)) if other != incarnation && known >= sent => Err(format!(
                        "{from} sends as incarnation {sent}, but was incarnation {known} before it restarted"
                    )),
                    _ => Ok(()),
                }
            }
            Seen::Received { at, from, message, own } => {
                let sender = u64_at(message, FROM);
                if message[KIND] == HELLO {
                    let known = self.hellos.insert((at, from), sender).unwrap_or_default();
                    if sender < known {
                        return Err(format!(
                            "{at} accepts a hello of incarnation {sender} of {from} after one of incarnation {known}"
                        ));
                    }
                    return Ok(());
                }
                let (accepted, to) = (self.hellos.get(&(at, from)).copied(), u64_at(message, TO));
                if accepted != Some(sender) || to != own {
                    return Err(format!(
                        "incarnation {own} of {at} accepts a message of incarnation {sender} of {from} to {to}"
                    ));
                }
                Ok(())
            }
            // The last hello may not have been on disk.
            Seen::Recovered { server } => {
                self.hellos.retain(|(at, _), _| *at != server);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
