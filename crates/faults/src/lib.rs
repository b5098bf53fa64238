//! Looks for trouble: the true protocol, over a network that means harm, in virtual time.
//!
//! This room decides which faults befall a cluster and what must hold in spite of them. It refuses to know how the
//! protocol keeps its promises: it sees what goes into nodes and what comes out. Servers and workers are those that can
//! come back (`recovery/`), with their sessions; only the network and the disks are made up.
//!
//! A *schedule* is one run of a small cluster that a seed has drawn: nodes, links, synchronisation models, and faults of
//! two sorts. *Packet* faults befall single messages: loss, repetition, reordering, damage, delay, and coming on the next
//! connection. *Structural* faults befall the cluster: partitions and dead links, resets, stragglers, slow links, crashes of nodes and
//! of the coordinator at any time and at each step of a write, full and lost disks, clocks that jump, data centers that
//! come and go. First comes a safety phase, in which faults happen and nothing wrong may; then a liveness phase, in which
//! none happen, everything must come to its end, and all must be quiet after it.
//!
//! **Disks.** A node goes round in groups, as real ones do: it takes what has come, has frames cut, writes the entries
//! behind all that as records of the true log (`log/`), waits until they are synced, and lets out what waited. What was
//! written and not synced survives a crash whole, torn or not at all; the true code tells what it finds. Checkpoints are
//! written at drawn times. Each node has a *shadow*, which hears what is on the disk and nothing else: the node is
//! compared with it, to the bit, at each checkpoint, at each restart and in the end.
//! The coordinator has a file instead, replaced whole before it gives an order; what else it knew nodes say again.
//!
//! What must hold is written in `checkers/`, one law a file. What a crash undoes, since it was not on disk, checkers
//! forget. Each is trusted since it has caught a planted bug ([`Bug`]); the bugs sit in the adapters of this room, around
//! the core, so that the core has no place for them.

mod application;
mod bugs;
mod campaign;
mod checkers;
mod counts;
mod disk;
mod draws;
mod ends;
mod envelopes;
mod fault;
mod fault_injector;
mod network;
mod nodes;
#[cfg(test)]
mod paused;
mod scenario;
mod schedule;
mod shrink;

pub use bugs::Bug;
pub use campaign::{Campaign, Failure, Report};
pub use counts::Counts;
pub use fault::{Fault, FaultKind, Moment};
pub use scenario::{Packets, Scenario};
pub use schedule::{Run, Violation, run};
pub use shrink::shrink;
