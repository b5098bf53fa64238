//! What changes of a drain as time goes on.

use std::ops::Range;
use std::sync::Arc;

use super::{Drain, Incoming, Mirror, Outgoing, Phase};
use crate::types::{self, DcId, StateError, Walk};

impl Drain {
    /// Walks over what changes as time goes on.
    pub(in crate::server) fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        walk.record("method", &mut self.method)?;
        walk.record("phase", &mut self.phase)?;
        for (of, mirror) in &mut self.mirrors {
            mirror.state(&mut walk.at(of), &self.home)?;
        }
        let (own, home) = (self.own, self.home.len());
        let mirrors = &self.mirrors;
        let come = |of: &DcId| match mirrors.get(of) {
            Some(mirror) => Some(mirror.copy.values),
            None => (*of == own).then_some(home),
        };
        let fresh = |of: &DcId| come(of).map(|values| vec![0.0; values]);
        walk.entries("copies", &mut self.copies, fresh, |copy, walk| {
            walk.tensor("copy", types::Content::Values, copy)
        })?;
        if self.phase == Phase::Gathering && !self.copies.contains_key(&own) {
            return Err(walk.unfit("copies"));
        }
        Ok(())
    }
}

impl Mirror {
    fn state(&mut self, walk: &mut Walk<'_>, home: &Range<usize>) -> Result<(), StateError> {
        walk.record_that("copy", &mut self.copy, |found, _| found.fits(home))?;
        walk.record_that("result", &mut self.result, |found, _| found.fits(&self.home))?;
        let none = || Outgoing::new(super::Content::Copy, 0, Arc::new(Vec::new()));
        walk.queue("outgoing", &mut self.outgoing, none, Outgoing::state)
    }
}

impl Incoming {
    fn fits(&self, block: &Range<usize>) -> bool {
        self.values <= block.len() && self.complete <= (self.values == block.len())
    }
}

impl Outgoing {
    fn state(&mut self, walk: &mut Walk<'_>) -> Result<(), StateError> {
        walk.record("content", &mut self.content)?;
        walk.record("start", &mut self.start)?;
        let mut values = self.values.to_vec();
        walk.numbers("values", types::Content::Values, &mut values, |_| true)?;
        let length = values.len();
        if walk.restores() {
            self.values = Arc::new(values);
        }
        walk.record_that("sent", &mut self.sent, |found, _| *found <= length)
    }
}
