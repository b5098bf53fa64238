//! What the nodes of one data center say to each other.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::store::{ShardDeltas, ShardRows};
use crate::sync::WaitReason;
use crate::types::{Clock, DcId, ShardLayout};

/// From a worker to a parameter server of its data center.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkerMessage {
    /// The iteration that starts at `clock` wants these rows.
    Read { clock: Clock, rows: ShardRows },
    /// What the iteration that started at `clock` changed; with it the worker has finished that clock, and measured
    /// what it was asked to.
    Update { clock: Clock, deltas: ShardDeltas, probed: Vec<Probed> },
    /// The worker has nothing of what it did before, and is about to begin anew: a read that waits is not to be
    /// answered.
    Reset,
}

/// From a parameter server to a worker of its data center.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowsRead {
    pub clock: Clock,
    /// The values of the rows asked for, in the order asked.
    #[serde(with = "crate::types::packed")]
    pub values: Vec<f32>,
    /// How long the read was held back, and why, in the order it happened.
    pub held: Vec<(WaitReason, Duration)>,
    /// What the worker is to measure beside its iteration.
    pub probes: Vec<ProbeRequest>,
}

/// One shard of another data center's copy, to be measured on a worker's own examples beside the copy at home.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// Whose copy it is.
    pub of: DcId,
    /// The clock that it was taken at.
    pub clock: Clock,
    /// The shard's values in that copy.
    #[serde(with = "crate::types::packed")]
    pub away: Vec<f32>,
    /// The shard's values at home.
    #[serde(with = "crate::types::packed")]
    pub home: Vec<f32>,
}

/// What a worker found of another data center's copy: mean losses over the same examples of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    pub of: DcId,
    pub clock: Clock,
    /// Of that copy, away from its home.
    pub away: f64,
    /// Of the copy that is at home.
    pub home: f64,
    /// Of the model before training.
    pub untrained: f64,
}

impl WorkerMessage {
    /// Whether this is about rows of the shard.
    pub fn fits(&self, layout: &ShardLayout) -> bool {
        match self {
            Self::Read { rows, .. } => rows.fits(layout),
            Self::Update { deltas, .. } => deltas.fits(layout),
            Self::Reset => true,
        }
    }

    /// Bytes on the LAN.
    pub fn lan_bytes(&self, layout: &ShardLayout) -> u64 {
        match self {
            Self::Read { rows, .. } => rows.lan_bytes(),
            Self::Update { deltas, probed, .. } => {
                deltas.lan_bytes(layout) + size_of_val(probed.as_slice()) as u64
            }
            Self::Reset => crate::store::LAN_HEADER_BYTES,
        }
    }
}

impl RowsRead {
    /// Whether this can be an answer of the shard's server: no more values than the shard has, and probes of all of
    /// them.
    pub fn fits(&self, layout: &ShardLayout) -> bool {
        let parameters = layout.parameters();
        self.values.len() <= parameters
            && self
                .probes
                .iter()
                .all(|probe| probe.away.len() == parameters && probe.home.len() == parameters)
    }

    /// Bytes on the LAN.
    pub fn lan_bytes(&self) -> u64 {
        let probed = self.probes.iter().map(|probe| probe.away.len() + probe.home.len());
        let values = self.values.len() + probed.sum::<usize>();
        crate::store::LAN_HEADER_BYTES + 4 * values as u64
    }
}

impl Probed {
    /// What the copy lost away from home, as a share of what the model lost before training. Not a number or infinite
    /// counts as all of it: the copy has diverged.
    pub fn lost(&self) -> f64 {
        let lost = (self.away - self.home) / self.untrained.max(f64::MIN_POSITIVE);
        if lost.is_finite() { lost } else { 1.0 }
    }
}
