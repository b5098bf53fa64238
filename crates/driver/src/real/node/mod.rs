//! What all kinds of node have: the plan and identity, the connection to the coordinator, the groups of events, the
//! log, and the metrics.

pub(super) mod context;
pub(super) mod coordinator_client;
pub(super) mod event_group;
pub(super) mod measure;
pub(super) mod node_log;
pub(super) mod peers;
pub(super) mod reminder;
