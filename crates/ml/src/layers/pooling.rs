//! Max pooling: of each window, the largest value.

use super::{Backward, Forward, Layer, Room};
use crate::examples::Shape;
use crate::kernels::images::{Planes, largest_of_windows};
use gaia_core::types::{Deltas, Model};

/// The largest value of windows that lie side by side; rows and columns that fill no window are left out.
pub struct MaxPooling {
    input: Shape,
    side: usize,
}

impl MaxPooling {
    /// # Panics
    ///
    /// Where images hold no window.
    pub fn new(input: Shape, side: usize) -> Self {
        assert!(side > 0 && side <= input.height && side <= input.width);
        Self { input, side }
    }
}

impl Layer for MaxPooling {
    fn output(&self) -> Shape {
        let Shape { channels, height, width } = self.input;
        Shape { channels, height: height / self.side, width: width / self.side }
    }

    fn forward(&self, _model: &Model, pass: Forward<'_>, room: &mut Room) {
        room.places.resize(pass.output.len(), 0);
        let planes = Planes { height: self.input.height, width: self.input.width };
        largest_of_windows(pass.input, planes, self.side, pass.output, &mut room.places);
    }

    fn backward(&self, _model: &Model, pass: Backward<'_>, room: &mut Room, _: &mut Deltas) {
        let Some(before) = pass.slope_before else { return };
        before.fill(0.0);
        let pooled = self.output().plane();
        let slopes = pass.slope.chunks_exact(pooled).zip(room.places.chunks_exact(pooled));
        for (before, (slopes, places)) in before.chunks_exact_mut(self.input.plane()).zip(slopes) {
            for (slope, &place) in slopes.iter().zip(places) {
                before[place as usize] = *slope;
            }
        }
    }

    fn room(&self) -> usize {
        self.output().values()
    }
}
