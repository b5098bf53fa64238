//! The invariants that hold under all faults, one in each file.
//!
//! A checker observes the inputs and outputs of nodes and keeps its own record. It reads the state of nodes only if the
//! invariant is about that state.

mod bandwidth;
mod barrier;
mod catch_up;
mod clock_bound;
mod conservation;
mod delivery;
mod divergence;
mod durability;
mod memory;
mod mirror_clock;
mod orders;
mod partition;
mod pause;
pub(super) mod quiescence;
mod rejection;
mod server_processes;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::cluster::network::Network;
use crate::cluster::nodes::{Nodes, ReplayPair};
use crate::cluster::undone::Undone;
use gaia_config::Plan;
use gaia_core::node::{RowsRead, WorkerMessage};
use gaia_core::recovery::RequestSeq;
use gaia_core::server::{Divergence, Server};
use gaia_core::session::Message;
use gaia_core::store::{ShardDeltas, ShardRows};
use gaia_core::topology::Overlay;
use gaia_core::types::{Clock, DcId, Instant, Lane, NodeId, ServerId, ShardId, WorkerId};

/// A description of a broken invariant.
pub(super) type Broken = String;

/// An observed event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen<'a> {
    /// A server handled a worker's read.
    Asked { server: ServerId, worker: WorkerId, clock: Clock, rows: &'a ShardRows },
    /// A server output a reply to a worker.
    Answered { server: ServerId, worker: WorkerId, message: &'a RowsRead },
    /// A worker's deltas were added. With them it has finished the clock that starts at `at`.
    Updated { server: ServerId, worker: WorkerId, at: Clock, deltas: &'a ShardDeltas },
    /// A server handled a worker's update whose changes are not finite or too large. Also seen as an update without
    /// changes.
    Rejected { server: ServerId, worker: WorkerId, clock: Clock },
    /// A server reported to the coordinator that a worker's changes have diverged.
    Diverged { server: ServerId, found: &'a Divergence },
    /// A server cut a frame for a mirror.
    Cut { from: ServerId, to: DcId, lane: Lane, frame: &'a Bytes },
    /// The next frame of a lane, which the session passes on to the server.
    InTurn { at: ServerId, from: DcId, lane: Lane, frame: &'a Bytes },
    /// A session passed on a frame, which the server handles next.
    Delivered { at: ServerId, from: DcId, lane: Lane, frame: &'a Bytes },
    /// The server has handled the delivered frame.
    Taken { at: ServerId },
    /// A server was notified of the lost connection to a mirror.
    Disconnected { at: ServerId, from: DcId },
    /// A message was sent on a link, whose data lane has room again at `departs`.
    Carried { from: DcId, to: DcId, lane: Lane, bytes: u64, departs: Instant },
    /// The size of the data frames that a session holds.
    Held { at: ServerId, peer: DcId, bytes: usize },
    /// A server sent a message of a session.
    Left { from: ServerId, to: DcId, message: &'a Message },
    /// A session handled a message. `own` is the incarnation of its server.
    Received { at: ServerId, from: DcId, message: &'a Bytes, own: u64 },
    /// A server sent a reply.
    ReplySent { server: ServerId, worker: WorkerId, rows: &'a RowsRead },
    /// A server sent the sequence number of the next due request to a worker.
    Due { server: ServerId, worker: WorkerId, due: RequestSeq },
    /// A server reported a finished clock to the coordinator.
    Reported { server: ServerId, clock: Clock },
    /// A worker sent a message.
    WorkerSent { worker: WorkerId, shard: ShardId, message: &'a WorkerMessage },
    /// An idle or restarted node, and its shadow.
    ReplayPair { node: NodeId, replay_pair: &'a ReplayPair },
    /// A server handled the reset of a worker.
    WorkerReset { server: ServerId, worker: WorkerId },
    /// A worker restarts without its state.
    LostState { worker: WorkerId },
    /// A server has restarted.
    Recovered { server: ServerId },
    /// A server has restarted without its state, or joins late, and takes the copy of a mirror.
    Lost { server: ServerId, source: DcId },
    /// A data center joins late, or joins again.
    Joins { dc: DcId },
    /// A data center has left permanently.
    Gone { dc: DcId },
    /// A server received the hello of a mirror that has lost its state. Frames for the mirror's earlier incarnation are
    /// lost.
    Reset { at: ServerId, from: DcId },
    /// The coordinator orders workers to stop at a clock, or after the current iteration if that is later.
    Stops { last: Clock },
    /// A worker has received the order to stop at a clock. It had finished `finished` clocks.
    StopReceived { worker: WorkerId, last: Clock, finished: Clock },
    /// The coordinator orders the servers of a data center to drain once workers are at these clocks.
    Drains { dc: DcId, clocks: &'a [Clock] },
    /// The coordinator has restarted with these orders, and repeats them.
    CoordinatorBack { stop: Option<Clock>, drains: &'a BTreeMap<DcId, Vec<Clock>> },
    /// The run is over and no message remains.
    End,
}

/// The state that checkers may read.
pub(super) struct View<'a> {
    pub(super) now: Instant,
    pub(super) nodes: &'a Nodes<'a>,
    pub(super) network: &'a Network,
    pub(super) plan: &'a Plan,
    pub(super) overlay: &'a Overlay,
    /// Inactive data centers.
    pub(super) inactive: &'a BTreeSet<DcId>,
    /// Whether nodes keep logs. Only then may they crash.
    pub(super) logs: bool,
    /// Whether servers answer workers before their entries are on disk.
    pub(super) is_deferred: bool,
}

impl<'a> View<'a> {
    fn server(&self, id: ServerId) -> &'a Server {
        self.nodes.server(id)
    }

    /// The servers of active data centers.
    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.nodes.servers().filter(|server| !self.inactive.contains(&server.id().dc))
    }

    /// The active data centers.
    fn present(&self) -> impl Iterator<Item = DcId> + use<'_> {
        self.plan.topology.dc_ids().filter(|dc| !self.inactive.contains(dc))
    }

    /// The time on a server's clock.
    fn time_at(&self, id: ServerId) -> Instant {
        self.nodes.servers[&id].machine.now()
    }
}

/// One invariant.
pub(super) trait Checker {
    /// The invariant's name in reports.
    fn name(&self) -> &'static str;

    /// Records an event. Returns an error if the event violates the invariant.
    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken>;

    /// Reverts the record of an event that was undone. The last event is undone first.
    fn undo(&mut self, _undone: &Undone) {}
}

/// All invariants.
pub(super) fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(delivery::Delivery::default()),
        Box::new(conservation::Conservation::default()),
        Box::new(divergence::Divergence),
        Box::new(rejection::Rejection::default()),
        Box::new(barrier::Barrier::default()),
        Box::new(clock_bound::ClockBound::default()),
        Box::new(mirror_clock::MirrorClock::default()),
        Box::new(partition::Partition::default()),
        Box::new(catch_up::CatchUp::default()),
        Box::new(pause::Pause::default()),
        Box::new(durability::Durability::default()),
        Box::new(server_processes::ServerProcesses::default()),
        Box::new(orders::Orders::default()),
        Box::new(bandwidth::Bandwidth::default()),
        Box::new(memory::Memory),
    ]
}

/// The last reply of each server to each worker.
#[derive(Debug, Default)]
struct Replies(BTreeMap<(ServerId, WorkerId), Clock>);

impl Replies {
    /// Records a reply at a clock. Returns whether it is new: a worker that reconnects receives its last reply again,
    /// whatever has changed since.
    fn is_new(&mut self, server: ServerId, worker: WorkerId, clock: Clock) -> bool {
        self.0.insert((server, worker), clock).is_none_or(|before| before < clock)
    }
}

/// The clock that a data center's workers have finished, by the server of the same shard as `like`.
fn clock_of(view: &View<'_>, like: ServerId, dc: DcId) -> Clock {
    view.server(ServerId { dc, shard: like.shard }).clock()
}
