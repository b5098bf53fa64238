//! The handshake of each link: both ends must have resolved the same plan.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::error::PeerError;
use crate::persist;
use crate::types::{DcId, ServerId};
use crate::wire::{ControlMessage, Hello, encode_control};

/// This server's hello, and the mirrors to which it must still be sent.
#[derive(Debug)]
pub(super) struct Handshake {
    own: Hello,
    due: BTreeSet<DcId>,
}

impl Handshake {
    /// `plan` is a hash of the resolved plan.
    pub(super) fn new(
        id: ServerId,
        shards: usize,
        parameters: usize,
        plan: u64,
        mirrors: impl Iterator<Item = DcId>,
    ) -> Self {
        let own = Hello {
            from: id.dc,
            shard: id.shard,
            shards: shards as u16,
            parameters: parameters as u64,
            plan,
        };
        Self { own, due: mirrors.collect() }
    }

    /// The hello for a mirror, unless it was returned before.
    pub(super) fn next(&mut self, to: DcId) -> Option<Bytes> {
        self.due.remove(&to).then(|| {
            let mut frame = Vec::new();
            encode_control(&ControlMessage::Hello(self.own), &mut frame);
            frame.into()
        })
    }

    /// Schedules the hello for a mirror that has lost its state.
    pub(super) fn repeat(&mut self, to: DcId) {
        self.due.insert(to);
    }

    /// Checks that a mirror's hello agrees with this server's in all fields but `from`.
    pub(super) fn check(&self, from: DcId, theirs: Hello) -> Result<(), PeerError> {
        if theirs.from != from {
            return Err(PeerError::PeerSentForeignOrigin { from, origin: theirs.from });
        }
        let ours = self.own;
        let facts = [
            ("shard", theirs.shard.0.into(), ours.shard.0.into()),
            ("a number of shards", theirs.shards.into(), ours.shards.into()),
            ("a number of parameters", theirs.parameters, ours.parameters),
            ("a plan with hash", theirs.plan, ours.plan),
        ];
        match facts.into_iter().find(|(_, theirs, ours)| theirs != ours) {
            Some((what, found, expected)) => {
                Err(PeerError::PeerRunsOtherPlan { from, what, found, expected })
            }
            None => Ok(()),
        }
    }
}

persist! {
    impl Persist<()> for Handshake {
        fn walk(Self { own: _, due }, walk, ()) {
            walk.record_that("handshake", due, BTreeSet::is_subset)
        }
    }
}
