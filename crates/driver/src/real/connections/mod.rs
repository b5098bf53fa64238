//! Connections over TCP between nodes and to the coordinator: who may open one, and what is said on it.
//!
//! This room decides which callers are heard, how long they have to prove who they are, and how a message lies on a
//! connection. It does not know what a message makes its receiver do.

pub(super) mod acceptor;
pub(super) mod channel;
pub(super) mod incoming;
pub(super) mod message;
pub(super) mod throttle;
