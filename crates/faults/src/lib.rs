//! Deterministic fault-injection simulator: the shipped protocol over a faulty simulated network, in virtual time.
//!
//! This room decides which faults occur in a cluster and which invariants must hold. It does not know how the protocol keeps
//! its guarantees: it observes the inputs and outputs of nodes. Servers and workers are the recoverable ones of
//! `recovery/`, with their sessions. Only the network and the disks are simulated.
//!
//! A *schedule* is one run of a small cluster. A seed determines its nodes, links, synchronisation models and faults.
//! *Packet* faults affect single messages: loss, repetition, reordering, damage, delay, and arrival on a later
//! connection. *Structural* faults affect the cluster: partitions, resets, stragglers, slow links, crashes of nodes and
//! of the coordinator at any time and at each step of a write, full and lost disks, clock steps, updates whose changes are not
//! finite, data centers that join and leave. In the safety phase faults occur and no invariant may be broken. In the liveness phase after it no faults
//! occur, the run must end, and no message may remain.
//!
//! **Disks.** A node works in groups, as nodes of the real driver do. It handles its inputs, cuts frames, writes the
//! entries of these steps as records of the real log (`log/`), waits until they are synced, and then releases its
//! outputs. Records that were written and not synced survive a crash completely, in part or not at all, and the real
//! code reads what is left. Checkpoints are written at random times. Each node has a *shadow*, which replays the
//! records on the disk and nothing else. The node is compared with it, to the bit, at each checkpoint, at each restart
//! and at the end. The coordinator has a file instead, which it replaces as a whole before it gives an order. After a
//! restart of the coordinator, nodes send it again what the file does not contain.
//!
//! The invariants are in `checkers/`, one in each file. A crash undoes what was not on disk, and checkers undo it too. Each
//! checker has caught a planted bug ([`Bug`]). The bugs are in the adapters of this room around the core, so that the
//! core has no code for them.

#![warn(missing_docs)]

mod bugs;
mod campaign;
mod checkers;
mod cluster;
mod counts;
#[cfg(test)]
mod paused;
mod scenario;
mod schedule;

pub use bugs::Bug;
pub use campaign::{Campaign, Failure, Report, shrink};
pub use counts::Counts;
pub use scenario::{Fault, FaultKind, Moment, Packets, Scenario};
pub use schedule::{Run, Violation, run};
