//! The laws that hold whatever happens, one a file.
//!
//! A checker sees what goes into nodes and what comes out of them and keeps books of its own. It looks into nodes only
//! where a law is about what is in them.

mod bandwidth;
mod barrier;
mod clock_bound;
mod conservation;
mod delivery;
mod divergence;
mod memory;
pub(super) mod quiescence;

use bytes::Bytes;

use crate::config::Plan;
use crate::driver::cluster::Cluster;
use crate::node::RowsRead;
use crate::store::{ShardDeltas, ShardRows};
use crate::topology::Overlay;
use crate::types::{Clock, DcId, Instant, Lane, ServerId, WorkerId};

/// A promise that was broken, in words.
pub(super) type Broken = String;

/// Something that has happened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen<'a> {
    /// A worker asked for rows.
    Asked { server: ServerId, worker: WorkerId, rows: &'a ShardRows },
    /// A worker was answered.
    Answered { server: ServerId, worker: WorkerId, message: &'a RowsRead },
    /// A worker's deltas were added.
    Updated { server: ServerId, deltas: &'a ShardDeltas },
    /// A server cut a frame for a mirror.
    Cut { from: ServerId, to: DcId, lane: Lane, frame: &'a Bytes },
    /// A session passed a frame on, which the server is about to take.
    Delivered { at: ServerId, from: DcId, lane: Lane, frame: &'a Bytes },
    /// The server has taken it.
    Taken { at: ServerId },
    /// A message was given to a link, whose data lane has room again when it has left.
    Carried { from: DcId, to: DcId, lane: Lane, bytes: u64, departs: Instant },
    /// A session holds so many bytes of data.
    Held { at: ServerId, peer: DcId, bytes: usize },
    /// The run is over and all is quiet.
    End,
}

/// What checkers may know beside.
pub(super) struct View<'a> {
    pub(super) now: Instant,
    pub(super) cluster: &'a Cluster,
    pub(super) plan: &'a Plan,
    pub(super) overlay: &'a Overlay,
}

/// One law.
pub(super) trait Checker {
    /// The law's name in reports.
    fn name(&self) -> &'static str;

    /// Takes note of what has happened, and says what is wrong with it.
    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken>;
}

/// All laws.
pub(super) fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(delivery::Delivery::default()),
        Box::new(conservation::Conservation::default()),
        Box::new(divergence::Divergence),
        Box::new(barrier::Barrier::default()),
        Box::new(clock_bound::ClockBound),
        Box::new(bandwidth::Bandwidth::default()),
        Box::new(memory::Memory),
    ]
}

/// The clock that a data center's workers have finished, as the server of a shard knows it.
fn clock_of(view: &View<'_>, like: ServerId, dc: DcId) -> Clock {
    let index = view.cluster.server_index(ServerId { dc, shard: like.shard });
    view.cluster.servers[index].clock()
}
