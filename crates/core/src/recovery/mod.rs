//! Recovery: what a node must have on disk before it sends, and how it continues from its log.
//!
//! A node is a deterministic state machine. Each of its steps follows from its state, its input and the time. So its
//! log is its inputs, in order. A node that has crashed is made again from the plan. It restores the state of its last
//! checkpoint and replays the inputs that came after it. It is then equal to the node that crashed, to the bit, and the
//! same frames wait for an acknowledgement under the same numbers. So it contradicts nothing that it has sent.
//!
//! This room decides what an input is, and that nothing leaves a node before the inputs behind it are on disk: no
//! frame, no acknowledgement, no answer to a worker, no report to the coordinator. It does not know files, connections
//! and the time. The servers of the paper have neither log nor checkpoint.
//!
//! A dense model's updates and reads are as large as the model. With [`Logging::Deferred`] the other nodes of the data center
//! wait for none of those: nothing leaves the *data center* before they are on disk, or a checkpoint in their place. A node
//! that crashes then goes back to what was on its disk. The others notice, by the request that is due, and repeat the clocks
//! since. This is optimistic logging, with output commit at the border of the data center (terms of Elnozahy et al., "A survey
//! of rollback-recovery protocols", ACM Computing Surveys 34(3), 2002).
//!
//! A node has three types here. [`RecoveringServer`] restores and replays. [`RecoverableServer`] is live. Both change
//! the same state by the same function, which is `apply` of `DurableServer`; its file describes it. Workers have the
//! same three.
//!
//! A driver works in groups, so that one sync of the disk serves all inputs that have arrived:
//!
//! 1. It passes in all inputs that have arrived, and cuts frames for links that have room.
//! 2. It takes the entries of these ([`RecoverableServer::take_entries`]), writes and syncs them, and reports that
//!    ([`RecoverableServer::handle_synced`]).
//! 3. It sends the messages that `poll_*` methods then return.
//!
//! **Between mirrors** a [`crate::session::Session`] delivers frames exactly once and in order.
//!
//! **Between worker and server** the clock does so. A worker reads at a clock, and then sends the update of that
//! iteration. So a [`RequestSeq`] identifies the requests that a server has taken. A server keeps its answer to a read
//! until it has received the update that follows from it.
//!
//! **At the end of a run** the [`Ledger`]s of both ends of a link are compared. They survive restarts.

mod durable_server;
mod durable_worker;
mod entry;
mod error;
mod ledger;
mod log_buffer;
mod recovering_server;
mod recovering_worker;
mod server;
mod worker;
mod worker_session;

pub use durable_server::Output;
pub use entry::{Entry, Input, WorkerEntry};
pub use error::{MessageError, RecoveryError};
pub use ledger::{Account, Ledger};
pub use log_buffer::{ENTRY_BYTES_MAX, Logging};
pub use recovering_server::RecoveringServer;
pub use recovering_worker::RecoveringWorker;
pub use server::RecoverableServer;
pub use worker::RecoverableWorker;
pub use worker_session::{RequestOrder, RequestSeq};
