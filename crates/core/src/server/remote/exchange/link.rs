//! The link to one peer of an exchange: what has yet to leave on it, and how far both ends are.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::persist;
use crate::server::error::PeerError;
use crate::server::stats::{LinkStats, Watermark};
use crate::types::{Clock, DcId};
use crate::wire::BulkKind;

/// The link to one peer, both ways.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The last sequence number sent, and received.
    pub(super) sequence: u64,
    pub(super) received: u64,
    /// The clock whose part is next to come.
    pub(super) part: Clock,
    pub(super) jobs: VecDeque<Job>,
    pub(super) stats: LinkStats,
}

/// A block of one clock on its way to a peer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) kind: BulkKind,
    pub(super) clock: Clock,
    /// The first parameter that has not left.
    pub(super) cursor: usize,
}

impl Link {
    /// Checks that a frame of the peer is the next one.
    pub(super) fn check_sequence(&self, from: DcId, found: u64) -> Result<(), PeerError> {
        let expected = self.received + 1;
        if found != expected {
            return Err(PeerError::PeerSentWrongSequence { from, found, expected });
        }
        Ok(())
    }

    /// Whether something of this kind and clock has yet to leave.
    pub(super) fn has_yet_to_carry(&self, kind: BulkKind, clock: Clock) -> bool {
        self.jobs.iter().any(|job| job.kind == kind && job.clock == clock)
    }

    pub(super) fn watermark(&self, peer: DcId) -> Watermark {
        Watermark { peer, sent: self.sequence, received: self.received }
    }
}

persist! {
    /// With whether a job has what it carries.
    impl Persist<&dyn Fn(&Job) -> bool> for Link {
        fn walk(Self { sequence, received, part, jobs, stats }, walk, carries) {
            walk.record("sequence", sequence)?;
            walk.record("received", received)?;
            walk.record("part", part)?;
            walk.record_that("jobs", jobs, |found, _| found.iter().all(carries))?;
            walk.record("stats", stats)
        }
    }
}
