//! What changes of an exchange as time goes on.

use super::{Exchange, Job, Link};
use crate::server::blocks::sums::{Changed, Sum};
use crate::server::state::Watermark;
use crate::types::{Content, StateError, Walk};
use crate::wire::BulkKind;

impl Exchange {
    /// Walks over what changes as time goes on.
    pub(in crate::server) fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        let (parameters, home) = (self.global.len(), self.home().len());
        let data_centers = self.data_centers;
        walk.tensor("global", Content::Values, &mut self.global)?;
        let part = |_: &_| Some(Changed::none(parameters));
        walk.entries("own", &mut self.own, part, Changed::state)?;
        walk.record("open", &mut self.open)?;
        walk.entries("sums", &mut self.sums, |_| Some(Sum::new(home, data_centers)), Sum::state)?;
        let total = |_: &_| Some(Changed::none(home));
        walk.entries("totals", &mut self.totals, total, Changed::state)?;
        walk.record_that("done", &mut self.done, |found, _| found.len() == data_centers)?;
        let (own, totals) = (&self.own, &self.totals);
        let carries = |job: &Job| {
            let source = match job.kind {
                BulkKind::Total => totals.contains_key(&job.clock),
                _ => own.contains_key(&job.clock),
            };
            source && job.cursor <= parameters
        };
        for (to, link) in &mut self.links {
            link.state(&mut walk.at(to), carries)?;
        }
        Ok(())
    }

    pub(in crate::server) fn watermarks(&self) -> Vec<Watermark> {
        let links = self.links.iter();
        let marks = links.map(|(peer, link)| Watermark {
            peer: *peer,
            sent: link.sequence,
            received: link.received,
        });
        marks.collect()
    }
}

impl Link {
    fn state(
        &mut self,
        walk: &mut Walk<'_>,
        carries: impl Fn(&Job) -> bool,
    ) -> Result<(), StateError> {
        walk.record("sequence", &mut self.sequence)?;
        walk.record("received", &mut self.received)?;
        walk.record("part", &mut self.part)?;
        walk.record_that("jobs", &mut self.jobs, |found, _| found.iter().all(carries))?;
        walk.record("stats", &mut self.stats)
    }
}
