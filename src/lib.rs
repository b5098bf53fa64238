//! Gaia trains one machine-learning model over data that stays in many data centers.

pub mod codec;
pub mod config;
pub mod coordinator;
pub mod data;
pub mod driver;
pub mod link;
pub mod ml;
pub mod node;
pub mod outbox;
pub mod report;
pub mod server;
pub mod significance;
pub mod store;
pub mod sync;
pub mod telemetry;
pub mod topology;
pub mod types;
pub mod wire;
pub mod worker;
