//! What changes of a mirror server as time goes on.

use super::{Mirror, MirrorServer};
use crate::types::{DcId, ShardLayout, StateError, Walk};

impl MirrorServer {
    /// Walks over what changes as time goes on.
    pub(in crate::server) fn state(
        &mut self,
        walk: &mut Walk<'_>,
        layout: &ShardLayout,
    ) -> Result<(), StateError> {
        for (from, mirror) in &mut self.mirrors {
            mirror.state(&mut walk.at(from), layout.parameters())?;
        }
        if walk.restores() {
            self.announced_rows.fill(0);
            self.announced = 0;
            for place in self.mirrors.values().flat_map(|mirror| mirror.announced.keys()) {
                let (_, row) = layout.row_of_parameter(*place as usize);
                self.announced_rows[row] += 1;
                self.announced += 1;
            }
        }
        walk.record("stats", &mut self.stats)
    }

    /// The last frame of a mirror that was applied.
    pub(in crate::server) fn applied(&self, from: DcId) -> u64 {
        self.mirrors.get(&from).map_or(0, |mirror| mirror.applied)
    }
}

impl Mirror {
    fn state(&mut self, walk: &mut Walk<'_>, parameters: usize) -> Result<(), StateError> {
        walk.record("applied", &mut self.applied)?;
        walk.record("updated", &mut self.updated)?;
        walk.record("clock", &mut self.clock)?;
        walk.record("reported", &mut self.reported)?;
        walk.record("heard", &mut self.heard)?;
        walk.record("lost", &mut self.lost)?;
        walk.record("parted", &mut self.parted)?;
        walk.record("missed", &mut self.missed)?;
        walk.record("caught_up", &mut self.caught_up)?;
        walk.record("returning", &mut self.returning)?;
        walk.record("inactive", &mut self.inactive)?;
        walk.record("paused", &mut self.paused)?;
        walk.record("excused", &mut self.excused)?;
        walk.record_that("announced", &mut self.announced, |found, _| {
            found.keys().all(|place| (*place as usize) < parameters)
        })?;
        walk.record("deadlines", &mut self.deadlines)?;
        walk.record("end", &mut self.end)
    }
}
