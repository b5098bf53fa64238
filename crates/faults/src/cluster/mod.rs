//! The simulated cluster: nodes with their disks, connections and links, and the adapters that carry one planted bug.
//!
//! This room decides what happens to a message on a link, to records on a disk and to a node that crashes. It does not know
//! when faults occur, and which invariants hold.

pub(crate) mod application;
pub(crate) mod disk;
pub(crate) mod ends;
pub(crate) mod envelopes;
pub(crate) mod exchange_bugs;
pub(crate) mod fault_injector;
pub(crate) mod network;
pub(crate) mod nodes;
pub(crate) mod undone;
