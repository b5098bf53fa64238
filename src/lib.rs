//! Gaia trains one machine-learning model over data that stays in many data centers.

pub mod codec;
pub mod data;
pub mod link;
pub mod ml;
pub mod types;
pub mod wire;
