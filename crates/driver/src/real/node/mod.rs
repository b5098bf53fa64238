//! What every node has, whatever its part: its plan and identity, its line to the coordinator, its log, its counts.

pub(super) mod context;
pub(super) mod coordinator_client;
pub(super) mod measure;
pub(super) mod node_log;
pub(super) mod peers;
