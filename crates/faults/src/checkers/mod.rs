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
mod durability;
mod memory;
mod orders;
mod partition;
pub(super) mod quiescence;
mod server_processes;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::network::Network;
use super::nodes::{Nodes, ReplayPair};
use gaia_config::Plan;
use gaia_core::node::{RowsRead, WorkerMessage};
use gaia_core::recovery::RequestSeq;
use gaia_core::server::Server;
use gaia_core::session::Message;
use gaia_core::store::{ShardDeltas, ShardRows};
use gaia_core::topology::Overlay;
use gaia_core::types::{Clock, DcId, Instant, Lane, NodeId, ServerId, ShardId, WorkerId};

/// A promise that was broken, in words.
pub(super) type Broken = String;

/// Something that has happened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen<'a> {
    /// A worker asked for rows.
    Asked { server: ServerId, worker: WorkerId, clock: Clock, rows: &'a ShardRows },
    /// A worker is to be answered.
    Answered { server: ServerId, worker: WorkerId, message: &'a RowsRead },
    /// A worker's deltas were added.
    Updated { server: ServerId, worker: WorkerId, clock: Clock, deltas: &'a ShardDeltas },
    /// A server cut a frame for a mirror.
    Cut { from: ServerId, to: DcId, lane: Lane, frame: &'a Bytes },
    /// A session passed a frame on, which the server is about to take.
    Delivered { at: ServerId, from: DcId, lane: Lane, frame: &'a Bytes },
    /// The server has taken it.
    Taken { at: ServerId },
    /// A server has learnt that a connection is lost.
    Disconnected { at: ServerId },
    /// A message was given to a link, whose data lane has room again when it has left.
    Carried { from: DcId, to: DcId, lane: Lane, bytes: u64, departs: Instant },
    /// A session holds so many bytes of data.
    Held { at: ServerId, peer: DcId, bytes: usize },
    /// A message of a session left its server.
    Left { from: ServerId, to: DcId, message: &'a Message },
    /// A session took a message; `own` is the incarnation of its server.
    Heard { at: ServerId, from: DcId, message: &'a Bytes, own: u64 },
    /// An answer left a server.
    Said { server: ServerId, worker: WorkerId, rows: &'a RowsRead },
    /// A server told a worker what is due from it.
    Due { server: ServerId, worker: WorkerId, due: RequestSeq },
    /// A server told the coordinator which clock its workers have finished.
    Reported { server: ServerId, clock: Clock },
    /// A message left a worker.
    Spoke { worker: WorkerId, shard: ShardId, message: &'a WorkerMessage },
    /// A node at rest, or one that has just come back, and its shadow.
    ReplayPair { node: NodeId, replay_pair: &'a ReplayPair },
    /// A server heard that a worker begins anew.
    BegunAnew { server: ServerId, worker: WorkerId },
    /// A worker comes back without its state.
    LostState { worker: WorkerId },
    /// A server has come back.
    Recovered { server: ServerId },
    /// A server has come back, or joins late, with nothing, and takes the copy of a mirror.
    Lost { server: ServerId, source: DcId },
    /// A data center has left for good.
    Gone { dc: DcId },
    /// A server has met a mirror that knows nothing of it: what was cut for an earlier incarnation of it is gone.
    Reset { at: ServerId, from: DcId },
    /// The coordinator has workers stop at a clock, or after what they are at.
    Stops { last: Clock },
    /// The coordinator has the servers of a data center drain once workers are at these clocks.
    Drains { dc: DcId, clocks: &'a [Clock] },
    /// The coordinator has come back, knows of this, and is about to say it again.
    CoordinatorBack { stop: Option<Clock>, drains: &'a BTreeMap<DcId, Vec<Clock>> },
    /// The run is over and all is quiet.
    End,
}

/// What a crash has undone: it was not on disk.
#[derive(Clone, Debug)]
pub(super) enum Undone {
    Asked { server: ServerId, worker: WorkerId },
    Updated { server: ServerId, worker: WorkerId, deltas: ShardDeltas },
    Cut { from: ServerId, to: DcId, lane: Lane, frame: Bytes },
    Delivered { at: ServerId, from: DcId, lane: Lane, frame: Bytes },
}

/// What checkers may know beside.
pub(super) struct View<'a> {
    pub(super) now: Instant,
    pub(super) nodes: &'a Nodes<'a>,
    pub(super) network: &'a Network,
    pub(super) plan: &'a Plan,
    pub(super) overlay: &'a Overlay,
    /// Data centers that take no part.
    pub(super) inactive: &'a BTreeSet<DcId>,
    /// Whether nodes keep logs, and so may die.
    pub(super) logs: bool,
}

impl<'a> View<'a> {
    fn server(&self, id: ServerId) -> &'a Server {
        self.nodes.server(id)
    }

    /// Those of data centers that take part.
    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.nodes.servers().filter(|server| !self.inactive.contains(&server.id().dc))
    }

    /// The data centers that take part.
    fn present(&self) -> impl Iterator<Item = DcId> + use<'_> {
        self.plan.topology.dc_ids().filter(|dc| !self.inactive.contains(dc))
    }

    /// The time as a server has it.
    fn time_at(&self, id: ServerId) -> Instant {
        self.nodes.servers[&id].machine.now()
    }
}

/// One law.
pub(super) trait Checker {
    /// The law's name in reports.
    fn name(&self) -> &'static str;

    /// Takes note of what has happened, and says what is wrong with it.
    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken>;

    /// Takes back what it has noted of something that was undone; what came last is undone first.
    fn undo(&mut self, _undone: &Undone) {}
}

/// All laws.
pub(super) fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(delivery::Delivery::default()),
        Box::new(conservation::Conservation::default()),
        Box::new(divergence::Divergence),
        Box::new(barrier::Barrier::default()),
        Box::new(clock_bound::ClockBound::default()),
        Box::new(partition::Partition::default()),
        Box::new(durability::Durability::default()),
        Box::new(server_processes::ServerProcesses::default()),
        Box::new(orders::Orders::default()),
        Box::new(bandwidth::Bandwidth::default()),
        Box::new(memory::Memory),
    ]
}

/// The clock that a data center's workers have finished, as the server of a shard knows it.
fn clock_of(view: &View<'_>, like: ServerId, dc: DcId) -> Clock {
    view.server(ServerId { dc, shard: like.shard }).clock()
}
