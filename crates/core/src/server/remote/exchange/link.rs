//! The link to one peer of an exchange: its unsent jobs, and the sequence numbers of both directions.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::server::error::PeerError;
use crate::server::stats::{LinkStats, Watermark};
use crate::types::{Clock, DcId};
use crate::wire::BulkKind;

/// The link to one peer, in both directions.
#[derive(Debug, Default)]
pub(super) struct ExchangeLink {
    /// The last sequence number sent, and received.
    pub(super) sequence: u64,
    pub(super) received: u64,
    /// The next partial sum and the next total to receive.
    pub(super) partial: Turn,
    pub(super) total: Turn,
    pub(super) jobs: VecDeque<Job>,
    pub(super) stats: LinkStats,
}

/// The place of a chunk among those that a peer sends.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) clock: Clock,
    /// The number of chunks of this clock that were received before.
    pub(super) place: usize,
}

/// A chunk of one clock that is being sent to a peer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) kind: BulkKind,
    pub(super) clock: Clock,
    pub(super) chunk: usize,
    /// The first parameter that was not sent.
    pub(super) cursor: usize,
}

impl ExchangeLink {
    /// Checks that a frame of the peer is the next one.
    pub(super) fn check_sequence(&self, from: DcId, found: u64) -> Result<(), PeerError> {
        let expected = self.received + 1;
        if found != expected {
            return Err(PeerError::PeerSentWrongSequence { from, found, expected });
        }
        Ok(())
    }

    /// The next chunk of a kind to receive.
    pub(super) fn turn_of(&mut self, kind: BulkKind) -> &mut Turn {
        if kind == BulkKind::Total { &mut self.total } else { &mut self.partial }
    }

    pub(super) fn watermark(&self, peer: DcId) -> Watermark {
        Watermark { peer, sent: self.sequence, received: self.received }
    }
}

impl Turn {
    /// The turn of the next of so many chunks.
    pub(super) fn next(self, chunks: usize) -> Self {
        match self.place + 1 {
            place if place < chunks => Self { place, ..self },
            _ => Self { clock: self.clock.next(), place: 0 },
        }
    }
}

persist! {
    /// With whether a job has what it carries, and the numbers of partial sums and of totals that the peer sends in a
    /// clock.
    impl Persist<(&dyn Fn(&Job) -> bool, [usize; 2])> for ExchangeLink {
        fn walk(
            Self { sequence, received, partial, total, jobs, stats },
            walk,
            (carries, [partials, totals]),
        ) {
            walk.record("sequence", sequence)?;
            walk.record("received", received)?;
            walk.record_that("partial", partial, |found, _| found.place < partials.max(1))?;
            walk.record_that("total", total, |found, _| found.place < totals.max(1))?;
            walk.record_that("jobs", jobs, |found, _| found.iter().all(carries))?;
            walk.record("stats", stats)
        }
    }
}
