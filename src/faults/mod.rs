//! Looks for trouble: the true protocol, over a network that means harm, in virtual time.
//!
//! This room decides which faults befall a cluster and what must hold in spite of them. It refuses to know how the
//! protocol keeps its promises: it sees what goes into nodes and what comes out. Servers, workers and the coordinator are
//! those of every driver, and the frames between data centers go through `session/`; only the network is made up.
//!
//! A *schedule* is one run of a small cluster that a seed has drawn: nodes, links, synchronisation models, and faults of
//! two sorts. *Packet* faults befall single messages: loss, repetition, reordering, damage, delay. *Structural* faults
//! befall the cluster: partitions, resets, stragglers, slow links. First comes a safety phase, in which faults happen and
//! nothing wrong may; then a liveness phase, in which none happen, everything must come to its end, and all must be
//! quiet after it.
//!
//! What must hold is written in `checkers/`, one law a file. Each is trusted since it has caught a planted bug
//! ([`Bug`]); the bugs sit in the adapters of this room, around the core, so that the core has no place for them.

mod application;
mod bugs;
mod campaign;
mod checkers;
mod counts;
mod disk;
mod ends;
mod envelopes;
mod fault;
mod network;
mod nodes;
mod saboteur;
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
