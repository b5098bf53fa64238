//! What the other data centers are expected to contribute to a round, by which a copy is ahead from its beginning.
//!
//! Between two rounds a copy moves by the changes of its own data center alone. Where data is skewed it drifts from where all
//! data centers move together, the further the more steps a round has (client drift, Karimireddy et al., SCAFFOLD, ICML
//! 2020). SCAFFOLD corrects each gradient by the difference of the mean gradient and the own one. Here the copy is corrected
//! once a round, from totals and parts that the server has in any case, so that workers and the WAN do no more.

use std::ops::Range;

use crate::codec::Changes;
use crate::persist;
use crate::types::{Content, DcId, ShardLayout};

/// The correction of one data center's copy.
///
/// With `s` the steps of a round and `p` this data center's own part, `e ← m·e + (1 - m)·(s - p)` is the mean of what others
/// have contributed to the latest rounds. The copy begins a round at the agreed values plus `share · e`. Others move by `e` in
/// the course of a round, so that with a share of a half the copy is where it would be, on average, if it saw their steps.
#[derive(Debug)]
pub(super) struct DriftCorrection {
    share: f32,
    /// `e` divided by the scale of its block, for each parameter of the shard. So a round changes what its part and its steps
    /// change, and no other parameter.
    scaled: Vec<f32>,
    /// The scales of blocks, by fragment and home.
    scales: Vec<Vec<f32>>,
    /// The parameters of which nothing is expected, since their changes are no steps: statistics, and those to which workers add
    /// initial values.
    exempt: Vec<Range<usize>>,
}

impl DriftCorrection {
    pub(super) fn new(
        share: f64,
        layout: &ShardLayout,
        fragments: usize,
        data_centers: usize,
    ) -> Self {
        let model = layout.model();
        let is_exempt =
            |table| model.is_statistics(table) || model.is_initialized_by_workers(table);
        let exempt = model.table_ids().filter(|table| is_exempt(*table));
        Self {
            share: share as f32,
            scaled: vec![0.0; layout.parameters()],
            scales: vec![vec![1.0; data_centers]; fragments],
            exempt: exempt.map(|table| layout.table_range(table)).collect(),
        }
    }

    /// A round of the block of a fragment and a home has begun with this own part.
    pub(super) fn on_part(&mut self, of: (usize, DcId), block: Range<usize>, part: Changes<'_>) {
        let scale = self.scale(of);
        *scale *= MEMORY;
        if *scale < SCALE_LEAST {
            let whole = std::mem::replace(scale, 1.0);
            self.scaled[block].iter_mut().for_each(|expected| *expected *= whole);
        }
        self.add(of, -1.0, part);
    }

    /// Changes of the step of a round of that block were added to the agreed values.
    pub(super) fn on_step(&mut self, of: (usize, DcId), step: Changes<'_>) {
        self.add(of, 1.0, step);
    }

    /// Moves the copy of parameters `range` of the block ahead.
    pub(super) fn correct(&self, of: (usize, DcId), range: Range<usize>, copy: &mut [f32]) {
        let (fragment, home) = of;
        let factor = self.share * self.scales[fragment][home.index()];
        let places = copy.iter_mut().zip(&self.scaled[range]);
        places.for_each(|(copy, expected)| *copy += factor * expected);
    }

    fn add(&mut self, of: (usize, DcId), sign: f32, changes: Changes<'_>) {
        let factor = sign * (1.0 - MEMORY) / *self.scale(of);
        changes.for_each(|index, change| self.scaled[index] += factor * change);
        for exempt in &self.exempt {
            self.scaled[exempt.clone()].fill(0.0);
        }
    }

    fn scale(&mut self, (fragment, home): (usize, DcId)) -> &mut f32 {
        &mut self.scales[fragment][home.index()]
    }
}

persist! {
    impl Persist<()> for DriftCorrection {
        fn walk(Self { share: _, scaled, scales, exempt: _ }, walk, ()) {
            walk.tensor("scaled", Content::Optimizer, scaled)?;
            walk.record_that("scales", scales, |found, made| {
                found.iter().map(Vec::len).eq(made.iter().map(Vec::len))
            })
        }
    }
}

/// The share of the mean that a round leaves. A sparse round shows the largest contributions alone, so that the mean must be of
/// several.
const MEMORY: f32 = 0.9;
/// The smallest scale of a block, which a bit more than a hundred rounds come to.
const SCALE_LEAST: f32 = 1e-5;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{ModelLayout, ShardId, TableId, TableLayout};

    const HOME: (usize, DcId) = (0, DcId(0));
    const OTHER: (usize, DcId) = (0, DcId(1));

    fn dense(start: u32, values: &[f32]) -> Changes<'_> {
        Changes::Dense { start, values }
    }

    /// Two weights, a statistic, and a parameter to which workers add an initial value.
    fn drift_correction(share: f64) -> DriftCorrection {
        let table = |name: &str, rows| TableLayout { name: name.into(), rows, width: 1 };
        let tables = vec![table("weights", 2), table("variance", 1), table("unit", 1)];
        let model = ModelLayout::new(tables).with_statistics([TableId(1)]);
        let model = Arc::new(model.with_initialized_by_workers([TableId(2)]));
        DriftCorrection::new(share, &ShardLayout::new(model, ShardId(0), 1), 1, 2)
    }

    fn ahead<const N: usize>(of: &DriftCorrection, block: (usize, DcId), from: usize) -> [f32; N] {
        let mut copy = [0.0; N];
        of.correct(block, from..from + N, &mut copy);
        copy
    }

    #[test]
    fn a_copy_is_ahead_by_a_share_of_what_others_contribute_in_a_round() {
        let mut drift = drift_correction(0.5);
        for round in 0..400 {
            drift.on_part(HOME, 1..4, dense(1, &[1.0, 1.0, 1.0]));
            drift.on_step(HOME, dense(1, &[4.0, 4.0, 4.0]));
            let expected = 1.5 * (1.0 - MEMORY.powi(round + 1));
            let [weight, statistic, unit] = ahead(&drift, HOME, 1);
            assert!((weight - expected).abs() < 1e-5, "{round}: {weight} is not {expected}");
            assert_eq!([statistic, unit], [0.0; 2], "nothing is expected of them");
        }
    }

    #[test]
    fn nothing_is_expected_of_a_block_before_its_rounds_and_less_after_rounds_without_changes() {
        let mut drift = drift_correction(1.0);
        drift.on_part(HOME, 0..1, dense(0, &[1.0]));
        drift.on_step(HOME, dense(0, &[3.0]));
        assert_eq!(ahead(&drift, OTHER, 1), [0.0]);
        drift.on_part(HOME, 0..1, dense(0, &[]));
        let [later] = ahead(&drift, HOME, 0);
        assert!((later - 2.0 * (1.0 - MEMORY) * MEMORY).abs() < 1e-6, "{later}");
    }
}
