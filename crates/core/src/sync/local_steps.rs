//! Local steps between rounds: DiLoCo (Douillard et al., 2023) and its streaming form (Douillard et al., 2025), with a
//! parameter server in each data center.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BlockShares, GuardConfig, Overlap, ValueFormat, quorum_of};
use crate::types::{DurationSetting, ModelLayout};

/// The settings of remote local steps. Data centers train on their own copies and combine their changes periodically.
///
/// The defaults were chosen for eleven regions with networks, factorisation and topics, on even and on skewed data
/// (`docs/src/remote-models.md` has the table). Networks need as many clocks with a density of 0.1 or up to a fifth
/// more, for about half of the bytes, but factorisation can need twice as many. An outer momentum of 0.9 is faster at
/// small learning rates, and diverges at large ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalStepsConfig {
    /// Clocks between two rounds of a fragment, at least 1.
    pub steps: u64,
    /// The number of parts of the shard, at most `steps`. Each has its own rounds, evenly staggered.
    pub fragments: u64,
    /// How many clocks training continues while a round is in progress, below `steps`.
    pub overlap: Overlap,
    /// The share of the parameters that a data center sends in a round, above 0 and at most 1: those of which it owes
    /// the largest changes. What it does not send it owes to later rounds, apart from its copy (error feedback, as in
    /// SparseLoCo, Sarfi et al., 2025). Statistics are always sent. At 1 all changes are sent.
    ///
    /// The drain delivers what is owed, except that the mean of copies leaves it out with `combine = "mean"`.
    pub density: f64,
    /// The share of the parameters that the total of a round has, above 0 and at most 1: those of which the home of a
    /// block owes the largest steps. It owes the rest to later rounds (error feedback on both sides, as in DoubleSqueeze,
    /// Tang et al., ICML 2019), and the drain delivers it as it does `density`'s. Statistics are always in it. At 1 a
    /// total has as many parameters as its parts together.
    pub total_density: f64,
    /// The share of the data centers whose parts close a round, above 0 and at most 1. A part that comes later is added
    /// to the next round. A data center that receives a total of a round that it has not begun begins it at once. At 1
    /// a round waits for all. Below 1 there is no guard.
    pub quorum: f64,
    /// How long a round waits for the other parts once a quorum is in. Used by a `quorum` below 1.
    pub grace: DurationSetting,
    /// How the data centers' changes combine.
    pub combine: Combine,
    /// The outer optimiser, which applies a round's combined change.
    pub outer: Outer,
    /// The factor of a round's combined change, above 0.
    pub outer_learning_rate: f64,
    /// The share of the last outer step that is added to the next one, below 1. Used by `outer = "nesterov"`.
    pub outer_momentum: f64,
    /// The share of what others are expected to contribute to a round by which a copy is ahead when the round begins, from 0
    /// to 1 and 0 with [`Combine::Sum`]. The mean of the latest rounds says what is expected. It keeps a copy from drifting
    /// with the skew of its own data (client drift, Karimireddy et al., SCAFFOLD, ICML 2020). At 0 a copy begins a round
    /// at the agreed values.
    pub drift_correction: f64,
    /// The format of changes on the WAN, in both directions. The rounding error is added to the next round.
    pub values: ValueFormat,
    /// The sizes of the blocks of rounds and of the drain at the end.
    pub blocks: BlockShares,
    /// The guard against skew. Each of its steps divides `steps`, and with it the overlap, by four. It requires one
    /// fragment. `None` for no guard.
    pub guard: Option<GuardConfig>,
}

/// How the changes of data centers combine. A round adds them up in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// A data center applies its workers' changes to its own copy as they are. With one step, one fragment and no
    /// overlap this is BSP, and counts stay counts. Many steps at a large learning rate overshoot, because no data
    /// center sees the changes of the others between rounds.
    Sum,
    /// A data center scales its workers' changes in its own copy, as if all workers that change a parameter had made
    /// them. So the round agrees on the mean of the copies (local SGD).
    Mean,
}

/// How a round's combined change is applied to the agreed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outer {
    /// The change times the outer learning rate.
    Plain,
    /// With Nesterov momentum (Sutskever et al., ICML 2013). The home of each block keeps the momentum.
    Nesterov,
}

impl Default for LocalStepsConfig {
    fn default() -> Self {
        Self {
            steps: 5,
            fragments: 1,
            overlap: Overlap::Auto,
            density: 1.0,
            total_density: 1.0,
            quorum: 1.0,
            grace: DurationSetting(Duration::ZERO),
            combine: Combine::Mean,
            outer: Outer::Nesterov,
            outer_learning_rate: 0.7,
            outer_momentum: 0.5,
            drift_correction: 0.0,
            values: ValueFormat::Int4,
            blocks: BlockShares::default(),
            guard: None,
        }
    }
}

impl LocalStepsConfig {
    /// The most clocks that training continues while a round is in progress.
    pub fn most_overlap(&self) -> u64 {
        match self.overlap {
            Overlap::Auto => self.steps - 1,
            Overlap::Clocks(clocks) => clocks,
        }
    }

    /// The format of the changes of this model on the WAN. Where rows have different scales, values that share one would
    /// round the weight of a feature in thousandths to nothing beside that of one in thousands: such a model has
    /// [`ValueFormat::Bf16`] instead.
    pub fn values_for(&self, model: &ModelLayout) -> ValueFormat {
        if self.values.shares_scales() && model.has_unlike_rows() {
            ValueFormat::Bf16
        } else {
            self.values
        }
    }

    /// Whether a data center sends a part of what it owes in a round.
    pub fn is_sparse(&self) -> bool {
        self.density < 1.0
    }

    /// Whether the home of a block owes a part of the steps of its rounds to later ones.
    pub fn has_sparse_totals(&self) -> bool {
        self.is_sparse() || self.total_density < 1.0
    }

    /// Whether rounds close without the parts of all data centers.
    pub fn has_quorum(&self) -> bool {
        self.quorum < 1.0
    }

    /// The number of data centers, of this many, whose parts close a round.
    pub fn quorum_of(&self, data_centers: usize) -> usize {
        quorum_of(self.quorum, data_centers)
    }

    /// Whether a round adds the sum of all changes unscaled. An application whose deltas are counts requires it.
    pub fn adds_up(&self) -> bool {
        self.combine == Combine::Sum
            && self.outer == Outer::Plain
            && self.outer_learning_rate == 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{TableId, TableLayout};

    #[test]
    fn rows_of_different_scales_share_none() {
        let of = |values, model: &ModelLayout| {
            LocalStepsConfig { values, ..LocalStepsConfig::default() }.values_for(model)
        };
        let table = TableLayout { name: "weights".into(), rows: 2, width: 1 };
        let alike = ModelLayout::new(vec![table]);
        let unlike = alike.clone().with_unlike_rows([TableId(0)]);
        for values in ValueFormat::ALL {
            assert_eq!(of(values, &alike), values);
        }
        let of_unlike = ValueFormat::ALL.map(|values| of(values, &unlike));
        let [exact, bf16] = [ValueFormat::F32, ValueFormat::Bf16];
        assert_eq!(of_unlike, [exact, bf16, bf16, bf16, bf16]);
    }
}
