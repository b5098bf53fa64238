//! The topics of documents where topics are few.

use pulp::Simd;

use super::lanes::{LANES, Lanes};
use super::rows_of;

/// How many tokens of each document of a batch have each topic, 0 or not.
#[derive(Clone, Debug)]
pub(in super::super) struct DenseCounts {
    /// The rows of each document.
    rows: usize,
    counts: Vec<Lanes>,
}

impl DenseCounts {
    pub(in super::super) fn new(topics: usize, documents: usize) -> Self {
        let rows = rows_of(topics);
        Self { rows, counts: vec![Lanes::ZERO; rows * documents] }
    }

    /// Counts one more token of a document with a topic.
    #[inline(always)]
    pub(in super::super) fn add(&mut self, document: usize, topic: u32) {
        let topic = topic as usize;
        assert!(topic < self.rows * LANES, "a topic of the model");
        self.counts[document * self.rows + topic / LANES].0[topic % LANES] += 1.0;
    }

    /// The counts of each document.
    #[inline(always)]
    pub(super) fn documents_mut<const ROWS: usize>(&mut self) -> &mut [[Lanes; ROWS]] {
        assert_eq!(self.rows, ROWS, "documents are of a model with another number of topics");
        self.counts.as_chunks_mut().0
    }
}

/// Counts a token less with a topic of a document.
#[inline(always)]
pub(super) fn remove<S: Simd>(simd: S, document: &mut [Lanes], topic: usize) {
    let (row, lane) = (&mut document[topic / LANES], topic % LANES);
    assert!(row.0[lane] > 0.0, "a document has the topics of its tokens");
    row.add_to(simd, lane, -1.0);
}

/// Counts a token more with a topic of a document.
#[inline(always)]
pub(super) fn add<S: Simd>(simd: S, document: &mut [Lanes], topic: usize) {
    document[topic / LANES].add_to(simd, topic % LANES, 1.0);
}

#[cfg(test)]
impl DenseCounts {
    /// The tokens of a document with a topic.
    pub(in super::super) fn count(&self, document: usize, topic: u32) -> u32 {
        let topic = topic as usize;
        self.counts[document * self.rows + topic / LANES].0[topic % LANES] as u32
    }
}
