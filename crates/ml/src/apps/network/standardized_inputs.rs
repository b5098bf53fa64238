//! The first layer of a network whose inputs are standardised.

use crate::kernels::vector::axpy;
use crate::layers::{Stack, draw_weights};
use crate::optimizer::{InputStatistics, Inputs, STATISTICS, Standard, from_standard};
use gaia_core::types::{Model, Seed, TableDeltas, TableId, TableLayout};

/// A dense first layer whose weights are moved in the standard coordinates of its inputs.
///
/// Weights of one size for all inputs would let a few with large values decide what every unit of a hidden layer sees. So
/// such a layer begins with weights of one size in standard coordinates (data-dependent initialisation; Krähenbühl et al.,
/// ICLR 2016). They follow from the data of all workers, of which none sees all: the layer begins at zero, and in clock 0
/// each worker adds its share of them, by the statistics of its own examples.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandardizedInputs {
    /// The layer's weights, a row for each input.
    weights: TableId,
    bias: TableId,
    /// What the inputs of all workers amount to.
    statistics: TableId,
    /// Draws the initial weights. `None` where the layer is the only one: the problem is convex, and it begins at 0.
    initial: Option<Seed>,
}

impl StandardizedInputs {
    /// The first layer of a stack if it is dense. The statistics of its inputs are the table `statistics`.
    pub(super) fn of(stack: &Stack, statistics: TableId, seed: Seed) -> Option<Self> {
        let (weights, bias) = stack.dense_inputs()?;
        let initial = (!stack.is_linear()).then_some(seed);
        Some(Self { weights, bias, statistics, initial })
    }

    /// The table of the statistics; `layers` are the tables of the stack.
    pub(super) fn statistics_layout(&self, layers: &[TableLayout]) -> TableLayout {
        InputStatistics::layout(layers[self.weights.index()].rows)
    }

    /// The tables that begin at zero, although the stack draws their weights.
    pub(super) fn initialized_by_workers(&self) -> impl Iterator<Item = TableId> {
        let tables = self.initial.map(|_| [self.weights, self.bias]);
        tables.into_iter().flatten()
    }

    /// The values of the weights and of the bias in the deltas of all tables.
    pub(super) fn of_both<'a>(&self, deltas: &'a mut [TableDeltas]) -> [&'a mut [f32]; 2] {
        let (before, from) = deltas.split_at_mut(self.bias.index());
        [&mut before[self.weights.index()].values, &mut from[0].values]
    }

    /// The coordinate of each input, from what all workers have seen and one sees now. `curvature` is that of the
    /// regularisation.
    pub(super) fn standards(
        &self,
        model: &Model,
        own: Option<&[f32]>,
        curvature: f64,
    ) -> Vec<Standard> {
        let seen = model.table(self.statistics).to_vec();
        Standard::of_all(seen, own, Inputs::Dense, curvature)
    }

    /// The weights, whose rows have scales of their own.
    pub(super) fn unlike_rows(&self) -> TableId {
        self.weights
    }

    /// Whether a model is still without initial weights at clock 0. One that goes on from another run has them.
    pub(super) fn lacks_initial_weights(&self, model: &Model) -> bool {
        let seen = model.table(self.statistics);
        self.initial.is_some() && seen[seen.len() - STATISTICS] < SEEN_AT_START
    }

    /// Adds a worker's share of the initial weights to a step of weights and bias, by the standard coordinates of its own
    /// examples. Inputs that none of these has get none of it.
    pub(super) fn add_initial(
        &self,
        standards: &[Standard],
        share: f32,
        weights: &mut [f32],
        bias: &mut [f32],
    ) {
        let Some(seed) = self.initial else { return };
        let mut initial = vec![0.0; weights.len()];
        draw_weights(&mut initial, standards.len(), 1.0, seed);
        for (standard, row) in standards.iter().zip(initial.chunks_exact_mut(bias.len())) {
            if standard.presence == 0.0 {
                row.fill(0.0);
            }
        }
        let mut offset = vec![0.0; bias.len()];
        from_standard(standards, &mut initial, &mut offset);
        axpy(share, &initial, weights);
        axpy(share, &offset, bias);
    }
}

impl InputStatistics {
    /// What a batch of inputs, example by example, adds to the statistics of all features and to the last row.
    pub(super) fn of_dense(&self, inputs: &[f32], examples: usize) -> Vec<f32> {
        let features = inputs.len() / examples;
        let mut own = vec![0.0; (features + 1) * STATISTICS];
        for example in inputs.chunks_exact(features) {
            for (value, row) in example.iter().zip(own.chunks_exact_mut(STATISTICS)) {
                self.add(*value, row);
            }
        }
        own[features * STATISTICS] = self.share(examples);
        own
    }
}

/// The share of all examples that counts as seen when a worker begins. Other workers of its data center may be ahead of it.
const SEEN_AT_START: f32 = 0.5;
