//! From planes to rows: what a dense layer needs after convolutions.

use super::{Backward, Forward, Layer, Room};
use crate::examples::Shape;
use gaia_core::types::{Deltas, Model};

/// Gathers all planes of an example into one row, channel by channel.
pub struct Flatten {
    input: Shape,
}

impl Flatten {
    /// The layer for inputs of some shape.
    pub const fn new(input: Shape) -> Self {
        Self { input }
    }

    /// Calls `copy` with where each plane of each example lies: among planes, and among rows.
    fn planes(
        &self,
        examples: usize,
        mut copy: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>),
    ) {
        let plane = self.input.plane();
        for example in 0..examples {
            for channel in 0..self.input.channels {
                let planes = (channel * examples + example) * plane;
                let rows = example * self.input.values() + channel * plane;
                copy(planes..planes + plane, rows..rows + plane);
            }
        }
    }
}

impl Layer for Flatten {
    fn output(&self) -> Shape {
        Shape::row(self.input.values())
    }

    fn forward(&self, _model: &Model, pass: Forward<'_>, _room: &mut Room) {
        let Forward { examples, input, output } = pass;
        self.planes(examples, |planes, rows| output[rows].copy_from_slice(&input[planes]));
    }

    fn backward(&self, _model: &Model, pass: Backward<'_>, _room: &mut Room, _: &mut Deltas) {
        let Some(before) = pass.slope_before else { return };
        self.planes(pass.examples, |planes, rows| {
            before[planes].copy_from_slice(&pass.slope[rows]);
        });
    }
}
