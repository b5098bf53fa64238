//! What changes of a guard as time goes on.

use super::{Guard, Traveller};
use crate::server::blocks::parts::Job;
use crate::types::{Clock, Content, DcId, StateError, Walk};

impl Guard {
    /// Walks over what changes as time goes on; the shard has so many `parameters`.
    pub(in crate::server) fn state(
        &mut self,
        walk: &mut Walk<'_>,
        parameters: usize,
    ) -> Result<(), StateError> {
        walk.record("next", &mut self.next)?;
        walk.entries(
            "leaving",
            &mut self.leaving,
            |_| Some(Job::none()),
            |job, walk| job.state(walk, parameters),
        )?;
        let fresh = |_: &DcId| {
            let values = vec![0.0; parameters];
            Some(Traveller { clock: Clock::ZERO, values, whole: false })
        };
        walk.entries("travellers", &mut self.travellers, fresh, |traveller, walk| {
            walk.record("clock", &mut traveller.clock)?;
            walk.tensor("values", Content::Values, &mut traveller.values)?;
            walk.record("whole", &mut traveller.whole)
        })?;
        walk.record("wish", &mut self.wish)?;
        walk.record("tightness", &mut self.tightness)?;
        walk.record("last_lost", &mut self.last_lost)?;
        walk.record("quiet", &mut self.quiet)?;
        walk.record("patience", &mut self.patience)?;
        walk.record("stats", &mut self.stats)
    }
}
