//! Each life of a server has an incarnation above those before, and what was said to or by an earlier life is not believed.

use std::collections::BTreeMap;

use super::{Broken, Checker, Seen, View};
use crate::envelopes::{FROM, HELLO, KIND, TO, u64_at};
use gaia_core::types::{DcId, ServerId};

#[derive(Debug, Default)]
pub(super) struct Lives {
    /// By server: in which life it last spoke, as which incarnation.
    spoken: BTreeMap<ServerId, (u64, u64)>,
    /// The incarnation that each end has met.
    met: BTreeMap<(ServerId, DcId), u64>,
}

impl Checker for Lives {
    fn name(&self) -> &'static str {
        "lives"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        match seen {
            Seen::Left { from, message, .. } => {
                let life = view.nodes.servers[&from].host.life;
                let incarnation = u64_at(&message.header, FROM);
                let before = self.spoken.insert(from, (life, incarnation));
                match before {
                    Some((other, known)) if other != life && known >= incarnation => Err(format!(
                        "{from} speaks as incarnation {incarnation} and was {known} in a life before"
                    )),
                    _ => Ok(()),
                }
            }
            Seen::Heard { at, from, message, own } => {
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
            // Whom it met last may not have been on disk.
            Seen::Recovered { server } => {
                self.met.retain(|(at, _), _| *at != server);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
