//! An outbox that sends the most significant residuals first.
//!
//! Once per clock the residuals are ranked; frames are then cut from the head of the ranking, with the
//! residuals as they are when they leave. Ranking once per clock instead of once per frame keeps the cost at
//! one pass over the shard.

use std::collections::BTreeSet;

use super::Batch;
use crate::codec::Changes;
use crate::persist;
use crate::significance::{Measure, Parameters, Scratch, Selection, TableCriteria, Take, select};
use crate::sync::ValueFormat;
use crate::types::{Clock, Content};

/// The ranking of one link's residuals.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// What the link has carried, per parameter.
    shared: Vec<f32>,
    ranking: Selection,
    /// Entries of the ranking that have left.
    taken: usize,
    /// Announced parameters that the ranking may lack: they leave first, whatever is left of their residual.
    owed: Vec<u32>,
    /// Parameters announced to the receiver and not sent since.
    announced: BTreeSet<u32>,
    /// The clock the ranking belongs to, until it is reported.
    ranked: Option<Clock>,
    chunk: Vec<u32>,
}

/// The state of the shard that residuals are ranked against.
#[derive(Clone, Copy, Debug)]
pub struct Residuals<'a> {
    pub values: &'a [f32],
    pub source: &'a [f32],
    pub criteria: &'a [TableCriteria<Measure>],
}

impl Ranked {
    pub fn new(parameters: usize) -> Self {
        Self::sharing(vec![0.0; parameters])
    }

    /// Of a link that has carried `shared`.
    pub fn sharing(shared: Vec<f32>) -> Self {
        Self {
            shared,
            ranking: Selection::default(),
            taken: 0,
            owed: Vec::new(),
            announced: BTreeSet::new(),
            ranked: None,
            chunk: Vec::new(),
        }
    }

    /// Ranks every residual above the hard threshold, and as many below it as `take` asks for.
    pub fn rank(
        &mut self,
        residuals: Residuals<'_>,
        take: Take,
        clock: Clock,
        scratch: &mut Scratch,
    ) {
        let parameters =
            Parameters { values: residuals.values, local: residuals.source, shared: &self.shared };
        select(&parameters, residuals.criteria, take, clock.0, scratch, &mut self.ranking);
        self.taken = 0;
        self.ranked = Some(clock);
        self.owed.clear();
        if !self.announced.is_empty() {
            let hard: BTreeSet<u32> =
                self.ranking.indexes[..self.ranking.hard].iter().copied().collect();
            self.owed.extend(self.announced.difference(&hard));
        }
    }

    /// Cuts at most `most` updates for one frame.
    pub fn take(&mut self, source: &[f32], format: ValueFormat, most: usize, batch: &mut Batch) {
        batch.clear();
        self.chunk.clear();
        let owed = self.owed.len().min(most);
        self.chunk.extend(self.owed.drain(..owed));
        let ranked = (self.ranking.indexes.len() - self.taken).min(most - owed);
        self.chunk.extend_from_slice(&self.ranking.indexes[self.taken..self.taken + ranked]);
        self.taken += ranked;
        self.chunk.sort_unstable();
        self.chunk.dedup();

        for &index in &self.chunk {
            let place = index as usize;
            let announced = self.announced.remove(&index);
            if announced || source[place] != self.shared[place] {
                batch.push(index, source[place], self.shared[place]);
            }
        }

        if batch.leave(source, &mut self.shared, format) {
            for index in &batch.indexes {
                self.announced.remove(index);
            }
        }
    }

    /// Notes that the residuals above the threshold past the first `fitting` are about to be announced, and
    /// returns their places, ascending.
    pub fn announce(&mut self, fitting: usize) -> Vec<u32> {
        let mut places: Vec<u32> =
            self.ranking.indexes[fitting.min(self.ranking.hard)..self.ranking.hard].to_vec();
        places.retain(|place| self.announced.insert(*place));
        places.sort_unstable();
        places
    }

    /// The ranked clock, once everything above its hard threshold has left.
    pub fn covered(&mut self) -> Option<Clock> {
        if self.hard_waiting() == 0 { self.ranked.take() } else { None }
    }

    /// Ranked residuals above the hard threshold, and announced ones, that are still at home.
    pub fn hard_waiting(&self) -> usize {
        self.ranking.hard.saturating_sub(self.taken) + self.owed.len()
    }

    /// Forgets the ranking: what has not left stays at home.
    pub fn close(&mut self) {
        self.ranking = Selection::default();
        self.taken = 0;
        self.owed.clear();
        self.announced.clear();
        self.ranked = None;
    }

    /// The same ranking for a link whose receiver has heard of no announcement.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { owed: Vec::new(), announced: BTreeSet::new(), ..self.clone() }
    }

    /// Adds changes that are no part of the source to what the link has yet to carry: the next ranking sees them.
    pub fn enqueue(&mut self, changes: Changes<'_>) {
        changes.for_each(|index, value| self.shared[index] -= value);
    }

    /// Everything ranked that is still at home.
    pub fn waiting(&self) -> usize {
        self.ranking.indexes.len() - self.taken + self.owed.len()
    }

    /// What the link has carried, per parameter.
    pub fn shared(&self) -> &[f32] {
        &self.shared
    }
}

persist! {
    impl Persist<()> for Ranked {
        fn walk(Self { shared, ranking, taken, owed, announced, ranked, chunk: _ }, walk, ()) {
            let Selection { indexes, hard, .. } = ranking;
            walk.tensor("shared", Content::Changes, shared)?;
            let parameters = shared.len();
            let within = |index: &u32| (*index as usize) < parameters;

            walk.record_that("ranking", indexes, |found, _| found.iter().all(within))?;
            let most = indexes.len();
            walk.record_that("hard", hard, |found, _| *found <= most)?;
            walk.record_that("taken", taken, |found, _| *found <= most)?;
            walk.record_that("owed", owed, |found, _| found.iter().all(within))?;
            walk.record_that("announced", announced, |found, _| found.iter().all(within))?;
            walk.record("ranked", ranked)
        }
    }
}
