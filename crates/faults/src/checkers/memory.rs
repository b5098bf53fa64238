//! Memory: the frames that sessions hold are bounded, however long a link is down.

use super::{Broken, Checker, Seen, View};
use crate::cluster::ends::held_bytes_max;

#[derive(Debug)]
pub(super) struct Memory;

impl Checker for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        let Seen::Held { at, peer, bytes } = seen else { return Ok(()) };
        let server = view.server(at);
        let most = held_bytes_max(server.layout().parameters());
        if bytes > most {
            return Err(format!(
                "{at} holds {bytes} bytes of data for and from {peer}; the bound is {most}"
            ));
        }
        Ok(())
    }
}
