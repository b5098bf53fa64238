//! The messages between nodes of one data center.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::store::{ShardDeltas, ShardRows};
use crate::sync::WaitReason;
use crate::types::limits::CLOCK_MAX;
use crate::types::{Clock, DcId, ShardLayout, SharedValues};

/// A message from a worker to a parameter server of its data center.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WorkerMessage {
    /// Requests the rows of an iteration.
    Read {
        /// The clock of the worker, at which the iteration starts.
        clock: Clock,
        /// The requested rows.
        rows: ShardRows,
    },
    /// The result of an iteration. With it the worker has finished the clock.
    Update {
        /// The clock of the read that the iteration started with.
        clock: Clock,
        /// The clock that the worker has finished with it, counted as `clock` is: the latest [`RowsRead::at`] of its
        /// servers. It is above `clock` if the data center went on without the worker.
        at: Clock,
        /// The changes.
        deltas: ShardDeltas,
        /// The measurements of copies that servers requested.
        probed: Vec<Probed>,
        /// The learning rate of the iteration, divided by the largest so far, 0 to 1, if only the task knows it
        /// ([`Task::learning_rate_factor`](crate::application::Task::learning_rate_factor)).
        learning_rate_factor: Option<f64>,
        /// Whether the worker keeps changes, which a later message has. Only of a worker in the process of its server: it
        /// is not sent over a network, and not kept on disk.
        #[serde(skip)]
        keeps: bool,
    },
    /// The changes that a worker has kept, of clocks that it has finished. The server discards a read of the worker that
    /// it holds back. Only of a worker in the process of its server.
    HandOver {
        /// The changes.
        deltas: ShardDeltas,
    },
    /// The worker has lost its state and restarts. The server discards a read of the worker that it holds back.
    Reset,
}

/// The reply of a parameter server to a worker's read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowsRead {
    /// The clock of the read.
    pub clock: Clock,
    /// The clock of the values: that of the read, or the data center's clock if it went on without the worker
    /// ([`LocalBspConfig::quorum`](crate::sync::LocalBspConfig::quorum)).
    pub at: Clock,
    /// The values of the requested rows, in the order of the request. Empty if the worker holds them.
    pub values: SharedValues,
    /// How long the read was held back for each reason, in order of time.
    pub held: Vec<(WaitReason, Duration)>,
    /// The copies that the worker measures in addition to its iteration.
    pub probes: Vec<ProbeRequest>,
    /// Whether the server lacked changes that the worker keeps. As the next field it is not sent over a network, and not
    /// kept on disk.
    #[serde(skip)]
    pub keeps: bool,
    /// How long the worker may keep its changes. `None` if the server needs those of each iteration.
    #[serde(skip)]
    pub stretch: Option<Stretch>,
}

/// Iterations of a data center's only worker whose changes its server needs together, and not one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// The clock of the iteration that hands over the changes of all.
    pub hands_over_at: Clock,
    /// How far the copy moves by a change of 1, whatever the parameter. A worker may keep changes only if the copy moves as
    /// its own values do.
    pub factor: f32,
}

/// One shard of another data center's copy, which a worker measures on its own examples beside the local copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// The data center of the copy.
    pub of: DcId,
    /// The clock of the copy.
    pub clock: Clock,
    /// The shard's values in that copy.
    #[serde(with = "crate::types::packed")]
    pub away: Vec<f32>,
    /// The shard's values in the local copy.
    #[serde(with = "crate::types::packed")]
    pub home: Vec<f32>,
}

/// A worker's measurement of another data center's copy. The losses are means over the same examples of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// The data center of the copy.
    pub of: DcId,
    /// The clock of the copy.
    pub clock: Clock,
    /// The loss of that copy.
    pub away: f64,
    /// The loss of the local copy.
    pub home: f64,
    /// The loss of the initial model.
    pub untrained: f64,
}

impl WorkerMessage {
    /// Whether the message is valid for a shard: its rows or deltas fit the layout.
    pub fn fits(&self, layout: &ShardLayout) -> bool {
        match self {
            Self::Read { clock, rows } => clock.0 <= CLOCK_MAX && rows.fits(layout),
            Self::HandOver { deltas } => deltas.fits(layout),
            Self::Update { clock, at, deltas, learning_rate_factor, .. } => {
                let is_share = |factor: &f64| (0.0..=1.0).contains(factor);
                deltas.fits(layout)
                    && learning_rate_factor.as_ref().is_none_or(is_share)
                    && skips(*clock, *at)
            }
            Self::Reset => true,
        }
    }

    /// The size of the message on the LAN in bytes. `layout` is that of the receiving server.
    pub fn lan_bytes(&self, layout: &ShardLayout) -> u64 {
        match self {
            Self::Read { rows, .. } => rows.lan_bytes(),
            Self::Update { deltas, probed, .. } => {
                deltas.lan_bytes(layout) + size_of_val(probed.as_slice()) as u64
            }
            Self::HandOver { deltas } => deltas.lan_bytes(layout),
            Self::Reset => crate::store::LAN_HEADER_BYTES,
        }
    }
}

impl RowsRead {
    /// Whether this can be a reply of the shard's server: it has at most as many values as the shard, each probe has as
    /// many, and its clock is not before the read's.
    pub fn fits(&self, layout: &ShardLayout) -> bool {
        let parameters = layout.parameters();
        skips(self.clock, self.at)
            && self.values.len() <= parameters
            && self
                .probes
                .iter()
                .all(|probe| probe.away.len() == parameters && probe.home.len() == parameters)
    }

    /// The size of the message on the LAN in bytes.
    pub fn lan_bytes(&self) -> u64 {
        let probed = self.probes.iter().map(|probe| probe.away.len() + probe.home.len());
        Self::lan_bytes_of(self.values.len() + probed.sum::<usize>())
    }

    /// The size of a message with so many values.
    pub(crate) fn lan_bytes_of(values: usize) -> u64 {
        crate::store::LAN_HEADER_BYTES + 4 * values as u64
    }
}

impl Probed {
    /// The loss of the copy minus that of the local copy, as a share of the initial model's loss. 1 if it is infinite
    /// or not a number, because the copy has diverged.
    pub fn lost(&self) -> f64 {
        let lost = (self.away - self.home) / self.untrained.max(f64::MIN_POSITIVE);
        if lost.is_finite() { lost } else { 1.0 }
    }
}

/// Whether a worker can go from a clock to another, with or without the clocks between.
pub(super) fn skips(from: Clock, to: Clock) -> bool {
    from <= to && to.0 <= CLOCK_MAX
}
