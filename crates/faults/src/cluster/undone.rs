//! The events of a node that its crash undoes.

use bytes::Bytes;
use gaia_core::store::ShardDeltas;
use gaia_core::types::{Clock, DcId, Lane, ServerId, WorkerId};

/// An event that a crash has undone, because it was not on disk.
#[derive(Clone, Debug)]
pub(crate) enum Undone {
    Asked { server: ServerId, worker: WorkerId },
    Updated { server: ServerId, worker: WorkerId, clock: Clock, deltas: ShardDeltas },
    Rejected { server: ServerId, worker: WorkerId, clock: Clock },
    Cut { from: ServerId, to: DcId, lane: Lane, frame: Bytes },
    Delivered { at: ServerId, from: DcId, lane: Lane, frame: Bytes },
}
