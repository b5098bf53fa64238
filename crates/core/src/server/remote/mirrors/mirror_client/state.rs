//! What changes of a mirror client as time goes on.

use super::{MirrorClient, Sharing};
use crate::types::{Content, ShardLayout, StateError, Walk};

impl MirrorClient {
    /// Walks over what changes as time goes on.
    pub(in crate::server) fn state(
        &mut self,
        walk: &mut Walk<'_>,
        layout: &ShardLayout,
    ) -> Result<(), StateError> {
        match &mut self.sharing {
            Sharing::Everything => {}
            Sharing::Released { filter, released, .. } => {
                filter.state(&mut walk.at("filter"), layout)?;
                walk.tensor("released", Content::Changes, released)?;
            }
            Sharing::PerLink { filter } => filter.state(&mut walk.at("filter"), layout)?,
        }
        self.sources.state(&mut walk.at("sources"))?;
        self.touched.state(walk, "touched", layout.parameters())?;
        for (to, peer) in &mut self.peers {
            peer.state(&mut walk.at(to), layout.parameters())?;
        }
        walk.record("last_tick", &mut self.last_tick)?;
        walk.record("closed", &mut self.closed)?;
        walk.record("clock_time", &mut self.clock_time)
    }
}
