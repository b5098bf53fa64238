//! What changes of the rounds as time goes on.

use super::LocalSteps;
use crate::server::blocks::sums::Sum;
use crate::server::state::Watermark;
use crate::types::{Clock, Content, StateError, Walk};

impl LocalSteps {
    /// Walks over what changes as time goes on.
    pub(in crate::server) fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        let parameters = self.agreed.len();
        walk.record_that("decided", &mut self.rounds.decided, |found, made| {
            found.is_some() == made.is_some()
        })?;
        self.factors.state(walk)?;
        for (fragment, contributor_counts) in self.turnouts.iter_mut().enumerate() {
            contributor_counts
                .state(&mut walk.at(format_args!("contributor_counts.{fragment}")))?;
        }
        walk.tensor("agreed", Content::Values, &mut self.agreed)?;
        walk.tensor("own", Content::Changes, &mut self.own)?;
        self.touched.state(walk, "touched", parameters)?;
        for (fragment, outer) in self.outer.iter_mut().enumerate() {
            outer.state(&mut walk.at(format_args!("outer.{fragment}")))?;
        }
        let (rounds, dc) = (&self.rounds, self.id.dc);
        let sum = |clock: &Clock| {
            let size = rounds.block(rounds.fragment_at(*clock)?, dc).len();
            Some(Sum::new(size, rounds.data_centers))
        };
        walk.entries("sums", &mut self.sums, sum, Sum::state)?;
        walk.record_that("completed", &mut self.completed, |a, b| a.len() == b.len())?;
        walk.record("wish", &mut self.wish)?;
        walk.record("tightness", &mut self.tightness)?;
        walk.record_that("next", &mut self.next, |a, b| a.len() == b.len())?;
        walk.record_that("due", &mut self.due, |found, made| {
            found.iter().map(Vec::len).eq(made.iter().map(Vec::len))
        })?;
        for (to, link) in &mut self.links {
            link.state(&mut walk.at(to), parameters)?;
        }
        self.drain.state(&mut walk.at("drain"))?;
        walk.record("draining", &mut self.draining)
    }

    pub(in crate::server) fn watermarks(&self) -> Vec<Watermark> {
        self.links.iter().map(|(peer, link)| link.watermark(*peer)).collect()
    }
}
