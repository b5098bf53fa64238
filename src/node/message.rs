//! What the nodes of one data center say to each other.

use std::time::Duration;

use crate::store::{ShardDeltas, ShardRows};
use crate::sync::WaitReason;
use crate::types::{Clock, ShardLayout};

/// From a worker to a parameter server of its data center.
#[derive(Clone, Debug)]
pub enum WorkerMessage {
    /// The iteration that starts at `clock` wants these rows.
    Read { clock: Clock, rows: ShardRows },
    /// What the iteration that started at `clock` changed; with it the worker has finished that clock.
    Update { clock: Clock, deltas: ShardDeltas },
}

/// From a parameter server to a worker of its data center.
#[derive(Clone, Debug)]
pub struct RowsRead {
    pub clock: Clock,
    /// The values of the rows asked for, in the order asked.
    pub values: Vec<f32>,
    /// How long the read was held back, and why, in the order it happened.
    pub held: Vec<(WaitReason, Duration)>,
}

impl WorkerMessage {
    /// Bytes on the LAN.
    pub fn lan_bytes(&self, layout: &ShardLayout) -> u64 {
        match self {
            Self::Read { rows, .. } => rows.lan_bytes(),
            Self::Update { deltas, .. } => deltas.lan_bytes(layout),
        }
    }
}

impl RowsRead {
    /// Bytes on the LAN.
    pub fn lan_bytes(&self) -> u64 {
        crate::store::LAN_HEADER_BYTES + 4 * self.values.len() as u64
    }
}
