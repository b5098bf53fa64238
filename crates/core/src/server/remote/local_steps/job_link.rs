//! A link that sends parts one after another, and the state of its other end.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::persist;
use crate::server::blocks::Job;
use crate::server::error::PeerError;
use crate::server::stats::LinkStats;
use crate::server::stats::Watermark;
use crate::types::{Clock, DcId, ServerId};
use crate::wire::{BulkHeader, BulkKind};

/// The link to one peer, in both directions.
#[derive(Debug, Default)]
pub(super) struct JobLink {
    /// The last sequence number sent, and received.
    sequence: u64,
    received: u64,
    /// The round of the next part to receive, by fragment.
    pub(super) parts: Vec<Clock>,
    /// Whether the peer has sent a frame of its drain.
    ended: bool,
    jobs: VecDeque<Job>,
    pub(super) stats: LinkStats,
}

impl JobLink {
    /// A link whose peer sends its parts of these rounds next.
    pub(super) fn new(parts: Vec<Clock>) -> Self {
        Self { parts, ..Self::default() }
    }

    /// Queues a part behind those that wait.
    pub(super) fn push(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    /// The next frame of the queued parts, of about `room` bytes.
    pub(super) fn next_frame(&mut self, id: ServerId, room: usize) -> Option<Bytes> {
        let sequence = self.sequence + 1;
        let job = self.jobs.front_mut()?;
        let header = BulkHeader {
            kind: job.kind,
            origin: id.dc,
            shard: id.shard,
            sequence,
            clock: job.clock,
            last: false,
            relayed: false,
            tightness: job.tightness,
        };

        let (frame, updates, last) = job.next_frame(header, room);
        self.sequence = sequence;
        self.stats.updates += updates;
        if job.kind == BulkKind::Partial {
            self.stats.carried += updates;
        }

        if last {
            self.jobs.pop_front();
        }
        self.count(&frame);
        Some(frame)
    }

    /// Assigns the next sequence number to a frame that was not queued here.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Counts a frame that is sent.
    pub(super) fn count(&mut self, frame: &Bytes) {
        self.stats.frames += 1;
        self.stats.data_bytes += frame.len() as u64;
    }

    /// Checks that a frame is the next one, and of a kind that the peer may still send.
    pub(super) fn check(&self, from: DcId, header: &BulkHeader) -> Result<(), PeerError> {
        let (found, expected) = (header.sequence, self.received + 1);
        if found != expected {
            return Err(PeerError::PeerSentWrongSequence { from, found, expected });
        }
        if self.ended && !is_of_drain(header.kind) {
            let found = header.kind.name();
            return Err(PeerError::PeerSentUnexpectedKind { from, found, sync: "a drain" });
        }
        Ok(())
    }

    pub(super) fn watermark(&self, peer: DcId) -> Watermark {
        Watermark { peer, sent: self.sequence, received: self.received }
    }

    /// Records a frame that was checked.
    pub(super) fn on_taken(&mut self, header: &BulkHeader) {
        self.received = header.sequence;
        self.ended |= is_of_drain(header.kind);
    }
}

persist! {
    impl Persist<usize> for JobLink {
        fn walk(Self { sequence, received, parts, ended, jobs, stats }, walk, parameters) {
            walk.record("sequence", sequence)?;
            walk.record("received", received)?;
            walk.record_that("parts", parts, |found, made| found.len() == made.len())?;
            walk.record("ended", ended)?;
            walk.record("stats", stats)?;
            walk.queue("jobs", jobs, Job::none, |job, walk| walk.flatten(job, parameters))
        }
    }
}

fn is_of_drain(kind: BulkKind) -> bool {
    matches!(kind, BulkKind::DrainCopy | BulkKind::DrainResult)
}
