//! Nodes that come back: what must be written down before a node speaks, and how it goes on from that.
//!
//! A node is a machine whose every step follows from its state, its inputs and the time it is told. So its inputs,
//! in order, are all that has to be kept: a node that died is made anew from the plan, takes the state of its last
//! checkpoint, and hears again what came after. It then is to the bit the node that died, with the same frames waiting
//! to be acknowledged under the same numbers; nothing that it ever said turns out untrue.
//!
//! This room decides what an input is, and that nothing leaves a node before the inputs behind it are on disk: no frame,
//! no acknowledgement, no answer, no news for the coordinator. It refuses to know files, connections and the time. The
//! paper's servers have neither log nor checkpoint.
//!
//! A driver goes round in groups, so that one sync serves all that has come: it hands in whatever has arrived, has
//! frames cut where links have room, takes the [`Entry`]s that this gave ([`RecoverableServer::take_entries`]), writes
//! and syncs them, says so ([`RecoverableServer::handle_synced`]), and then lets out whatever wants to leave.
//!
//! **Between mirrors** a [`crate::session::Session`] makes frames arrive once and in order. **Between worker and
//! server** the clock does: a worker reads at a clock, then sends what that iteration changed, so that a [`RequestSeq`] says
//! what has been heard. An answer is kept until the update that it led to has come.
//!
//! **To be proven in the end**, servers keep a [`Ledger`] of each mirror, which outlives restarts.

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
pub use recovering_server::RecoveringServer;
pub use recovering_worker::RecoveringWorker;
pub use server::RecoverableServer;
pub use worker::RecoverableWorker;
pub use worker_session::{Due, RequestSeq};
