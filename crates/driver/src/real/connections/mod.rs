//! TCP connections between nodes and to the coordinator: who may open one, and the messages on it.
//!
//! This room decides which callers are accepted, how long they have to authenticate, and how messages are framed.
//! It does not know the effect of a message on its receiver.

pub(super) mod acceptor;
pub(super) mod channel;
pub(super) mod incoming;
pub(super) mod message;
pub(super) mod message_memory;
pub(super) mod throttle;
