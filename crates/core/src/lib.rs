//! The protocol of Gaia: state machines that do no I/O, own no clock and draw no unseeded random numbers.
//!
//! A driver moves their messages and passes in the time. Three drivers run the same machines. This crate depends on no
//! runtime, no socket and no file, so that the compiler enforces this.
//!
//! The crate has four layers. A room may use the rooms of the layers before its own:
//!
//! - the vocabulary, [`types`], and the choice of vector instructions;
//! - mechanisms, one idea each, pure functions and plain state: [`codec`], [`sync`], [`significance`], [`store`],
//!   [`outbox`], [`wire`], [`session`], [`mod@log`], [`topology`], [`link`], [`application`];
//! - machines, which communicate only by messages: [`node`], [`server`], [`worker`], [`coordinator`];
//! - [`recovery`]: what a machine must have logged before it sends, and how it continues from the log.

#![warn(missing_docs)]

mod simd;
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
