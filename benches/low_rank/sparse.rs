//! A sparse round, as local steps with a `density` have it.

use std::ops::Range;
use std::slice::from_ref;

use gaia_core::codec::{Changes, ValueFormat, encoded_len, fills_holes, quantise};
use gaia_core::significance::largest;

use super::Exchange;
use super::outer::Outer;
use super::training::DATA_CENTERS;

pub(super) struct Sparse {
    density: f64,
    values: ValueFormat,
    /// What each data center has not sent.
    owed: Vec<Vec<f32>>,
    outer: Outer,
    /// What the homes' steps have not sent.
    lost: Vec<f32>,
}

impl Sparse {
    pub(super) fn new(density: f64, values: ValueFormat, parameters: usize) -> Self {
        let nothing = vec![0.0; parameters];
        Self {
            density,
            values,
            owed: vec![nothing.clone(); DATA_CENTERS],
            outer: Outer::new(parameters),
            lost: nothing,
        }
    }

    /// Moves the `count` largest changes of a block of `from` to `to`. Returns their bytes.
    fn send_largest(
        &self,
        from: &mut [f32],
        to: &mut [f32],
        block: Range<usize>,
        count: usize,
    ) -> usize {
        let mut indexes = largest(from, from_ref(&block), count);
        if fills_holes(&indexes, self.values) {
            indexes = (indexes[0]..=indexes[indexes.len() - 1]).collect();
        }

        let mut values: Vec<f32> = indexes.iter().map(|place| from[*place as usize]).collect();
        quantise(&mut values, self.values);
        for (place, value) in indexes.iter().zip(&values) {
            from[*place as usize] -= value;
            to[*place as usize] += value;
        }
        encoded_len(Changes::Sparse { indexes: &indexes, values: &values }, self.values)
    }
}

impl Exchange for Sparse {
    fn exchange(&mut self, own: &mut [Vec<f32>]) -> (Vec<f32>, f64) {
        let parameters = self.lost.len();
        let blocks = (0..DATA_CENTERS)
            .map(|home| home * parameters / DATA_CENTERS..(home + 1) * parameters / DATA_CENTERS);
        let blocks: Vec<Range<usize>> = blocks.collect();

        let (mut change, mut sent) = (vec![0.0; parameters], 0);
        let mut owed = std::mem::take(&mut self.owed);
        for (dc, (owed, own)) in owed.iter_mut().zip(own).enumerate() {
            owed.iter_mut().zip(own).for_each(|(owed, own)| *owed += *own);
            for (home, block) in blocks.iter().enumerate() {
                let count = (self.density * block.len() as f64).ceil() as usize;
                let bytes = self.send_largest(owed, &mut change, block.clone(), count);
                sent += if home == dc { 0 } else { bytes };
            }
        }
        self.owed = owed;

        let mut lost = std::mem::take(&mut self.lost);
        self.outer.add_step(&change, &mut lost);
        let mut step = vec![0.0; parameters];
        for block in blocks {
            let count = change[block.clone()].iter().filter(|change| **change != 0.0).count();
            sent += (DATA_CENTERS - 1) * self.send_largest(&mut lost, &mut step, block, count);
        }
        self.lost = lost;

        (step, sent as f64 / DATA_CENTERS as f64)
    }
}
