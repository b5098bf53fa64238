//! The protocol of Gaia: state machines that do no I/O, own no clock and draw no unseeded randomness.
//!
//! A driver moves their messages and tells them the time; three drivers run the same machines. This crate depends on no
//! runtime, no socket and no file, so the compiler holds what the design promises.
//!
//! Four layers, each of which may name those before it:
//!
//! - the vocabulary: [`types`];
//! - mechanisms, one idea each, pure functions and plain state: [`codec`], [`sync`], [`significance`], [`store`],
//!   [`outbox`], [`wire`], [`session`], [`mod@log`], [`topology`], [`link`], [`application`];
//! - machines, which meet only through messages: [`node`], [`server`], [`worker`], [`coordinator`];
//! - [`recovery`]: what a machine must have written down before it speaks, and how it goes on from that.

pub mod types;

pub mod application;
pub mod codec;
pub mod link;
pub mod log;
pub mod outbox;
pub mod session;
pub mod significance;
pub mod store;
pub mod sync;
pub mod topology;
pub mod wire;

pub mod coordinator;
pub mod node;
pub mod server;
pub mod worker;

pub mod recovery;
