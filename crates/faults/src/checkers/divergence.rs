//! Divergence of copies: after the drain all copies are equal to the bit.
//!
//! During training copies differ by residuals and updates in flight. [`super::conservation`] checks these sums.

use super::{Broken, Checker, Seen, View};
use gaia_core::types::ServerId;

#[derive(Debug)]
pub(super) struct Divergence;

impl Checker for Divergence {
    fn name(&self) -> &'static str {
        "divergence"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        if !matches!(seen, Seen::End) {
            return Ok(());
        }
        let Some(first) = view.present().next() else { return Ok(()) };
        for server in view.servers() {
            let first = ServerId { dc: first, shard: server.id().shard };
            let first = view.server(first);
            let pairs = server.values().iter().zip(first.values());
            let differs = pairs.enumerate().find(|(_, (own, first))| own != first);
            if let Some((place, (own, theirs))) = differs {
                let (server, first) = (server.id(), first.id());
                return Err(format!(
                    "parameter {place} is {own} at {server} and {theirs} at {first} after the drain"
                ));
            }
        }
        Ok(())
    }
}
