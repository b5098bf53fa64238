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
    /// The clock of the next part to receive.
    pub(super) part: Clock,
    pub(super) jobs: VecDeque<Job>,
    pub(super) stats: LinkStats,
}

/// A block of one clock that is being sent to a peer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) kind: BulkKind,
    pub(super) clock: Clock,
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

    /// Whether a job of this kind and clock is unsent.
    pub(super) fn has_yet_to_carry(&self, kind: BulkKind, clock: Clock) -> bool {
        self.jobs.iter().any(|job| job.kind == kind && job.clock == clock)
    }

    pub(super) fn watermark(&self, peer: DcId) -> Watermark {
        Watermark { peer, sent: self.sequence, received: self.received }
    }
}

persist! {
    /// With whether a job has what it carries.
    impl Persist<&dyn Fn(&Job) -> bool> for ExchangeLink {
        fn walk(Self { sequence, received, part, jobs, stats }, walk, carries) {
            walk.record("sequence", sequence)?;
            walk.record("received", received)?;
            walk.record("part", part)?;
            walk.record_that("jobs", jobs, |found, _| found.iter().all(carries))?;
            walk.record("stats", stats)
        }
    }
}
