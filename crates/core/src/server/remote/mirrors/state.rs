//! What changes of the faces towards mirrors as time goes on.

use super::Mirrors;
use crate::server::blocks::drain::{Drain, DrainMethod};
use crate::server::state::Watermark;
use crate::types::{DcId, ShardLayout, StateError, Walk};

impl Mirrors {
    /// Walks over what changes as time goes on.
    pub(in crate::server) fn state(
        &mut self,
        walk: &mut Walk<'_>,
        layout: &ShardLayout,
    ) -> Result<(), StateError> {
        self.client.state(&mut walk.at("client"), layout)?;
        self.server.state(&mut walk.at("server"), layout)?;
        self.reachability.state(&mut walk.at("reachability"))?;
        if let Some(momentum_correction) = &mut self.momentum_correction {
            momentum_correction.state(&mut walk.at("momentum_correction"))?;
        }
        let (dc, hops) = (self.id.dc, &self.first_hops);
        let (server, parameters) = (&self.server, layout.parameters());
        let fresh = || Some(Drain::new(DrainMethod::Mean, dc, server.present(), parameters));
        walk.option("drain", &mut self.drain, fresh, Drain::state)?;
        walk.record("clock", &mut self.clock)?;
        let is_mirror = |dc: &DcId| hops.contains_key(dc);
        walk.record_that("rebuilding", &mut self.rebuilding, |found, _| {
            found.as_ref().is_none_or(is_mirror)
        })?;
        walk.record_that("settling", &mut self.settling, |found, _| {
            found.as_ref().is_none_or(is_mirror)
        })?;
        walk.record_that("wishes", &mut self.wishes, |found, made| {
            found.is_some() == made.is_some()
        })
    }

    pub(in crate::server) fn watermarks(&self) -> Vec<Watermark> {
        let links = self.client.sequences();
        links
            .map(|(peer, sent)| Watermark { peer, sent, received: self.server.applied(peer) })
            .collect()
    }
}
