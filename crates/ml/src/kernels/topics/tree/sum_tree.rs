//! A tree of partial sums: the index of F+LDA.

use crate::kernels::vector::sum_by_halves;

/// Weights, the sums of every sixteen of them, the sums of every sixteen sums, and so on: a change touches one sum a
/// level, each in two cache lines, and a draw looks at sixteen.
#[derive(Clone, Debug)]
pub(super) struct SumTree {
    /// The weights first; each level but the last padded with zeros to whole groups.
    levels: Vec<Vec<[f64; FAN_OUT]>>,
}

impl SumTree {
    pub(super) fn new(weights: usize) -> Self {
        let mut levels = Vec::new();
        let mut width = weights;
        while levels.is_empty() || width > 1 {
            width = width.div_ceil(FAN_OUT);
            levels.push(vec![[0.0; FAN_OUT]; width]);
        }
        Self { levels }
    }

    /// Changes a weight; its sums follow with [`Self::add_up_to`] or [`Self::add_up`].
    #[inline(always)]
    pub(super) fn put(&mut self, at: usize, weight: f64) {
        self.levels[0][at / FAN_OUT][at % FAN_OUT] = weight;
    }

    /// Computes the sums above one weight again. Sums are never adjusted, so that rounding errors do not accumulate.
    #[inline(always)]
    pub(super) fn add_up_to(&mut self, mut at: usize) {
        for level in 1..self.levels.len() {
            at /= FAN_OUT;
            self.levels[level][at / FAN_OUT][at % FAN_OUT] =
                sum_by_halves(self.levels[level - 1][at]);
        }
    }

    #[inline(always)]
    pub(super) fn add_up(&mut self) {
        for level in 1..self.levels.len() {
            let (below, above) = self.levels.split_at_mut(level);
            let sums = above[0].as_flattened_mut().iter_mut();
            sums.zip(&below[level - 1]).for_each(|(above, below)| *above = sum_by_halves(*below));
        }
    }

    #[inline(always)]
    pub(super) fn weight(&self, at: usize) -> f64 {
        self.levels[0][at / FAN_OUT][at % FAN_OUT]
    }

    /// All weights, and zeros up to a whole group.
    #[inline(always)]
    pub(super) fn weights(&self) -> &[f64] {
        self.levels[0].as_flattened()
    }

    #[inline(always)]
    pub(super) fn total(&self) -> f64 {
        self.levels.last().map_or(0.0, |top| sum_by_halves(top[0]))
    }

    /// How many sums a change affects.
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Groups of weights.
    pub(super) fn groups(&self) -> usize {
        self.levels[0].len()
    }

    /// The weight in which a place falls, 0 to below the total, all weights laid end to end.
    pub(super) fn at(&self, mut place: f64) -> usize {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let mut child = 0;
            // A place at the very end may be rounded past it: what is padded stays out.
            for (index, &weight) in
                level[at].iter().enumerate().filter(|(_, weight)| **weight > 0.0)
            {
                child = index;
                if place < weight {
                    break;
                }
                place -= weight;
            }
            at = at * FAN_OUT + child;
        }
        at
    }
}

/// Weights in a group.
pub(super) const FAN_OUT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_at_the_very_end_is_no_padding() {
        for weights in [1, 2, 15, 16, 17, 100, 256, 257, 5000] {
            let mut tree = SumTree::new(weights);
            (0..weights).for_each(|at| tree.put(at, 0.1 + at as f64));
            tree.add_up();
            assert_eq!(tree.at(0.0), 0);
            assert!(tree.at(2.0 * tree.total()) < weights);
            assert_eq!(tree.at(tree.total() - 1e-3), weights - 1);
        }
    }
}
