//! The rectifier: values below zero become zero.

use super::{Backward, Forward, Layer, Room};
use crate::examples::Shape;
use crate::kernels::images::{rectify, rectify_slope};
use gaia_core::types::{Deltas, Model};

/// `max(x, 0)` of every value; its slope at 0 is 0.
pub struct Rectifier {
    shape: Shape,
}

impl Rectifier {
    /// The layer for inputs of some shape.
    pub const fn new(shape: Shape) -> Self {
        Self { shape }
    }
}

impl Layer for Rectifier {
    fn output(&self) -> Shape {
        self.shape
    }

    fn forward(&self, _model: &Model, pass: Forward<'_>, _room: &mut Room) {
        rectify(pass.input, pass.output);
    }

    fn backward(&self, _model: &Model, pass: Backward<'_>, _room: &mut Room, _: &mut Deltas) {
        if let Some(before) = pass.slope_before {
            rectify_slope(pass.output, pass.slope, before);
        }
    }
}
