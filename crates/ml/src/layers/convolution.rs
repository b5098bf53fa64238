//! The convolution: every output pixel is a weighted sum of the window around it.

use super::dense::{add_table, draw_weights};
use super::{Backward, Forward, Layer, Room};
use crate::examples::Shape;
use crate::kernels::dense::{Matrix, inner_products, multiply};
use crate::kernels::images::{Planes, fold, unfold};
use crate::kernels::vector::sum;
use gaia_core::types::{Deltas, Model, Seed, TableId, TableLayout};

/// A convolution at every pixel, with zeros beyond the edges, so that images keep their size.
///
/// The weights have one row per input channel, window row and window column, with a value for each filter;
/// the bias, where there is one, has one row. The windows of the whole batch become the columns of one
/// matrix, and the layer three products with it.
pub struct Convolution {
    input: Shape,
    filters: usize,
    /// Of the window: odd.
    side: usize,
    weights: TableId,
    bias: Option<TableId>,
}

impl Convolution {
    /// Adds the layer's tables, numbered `number`, to `tables`: weights, and where asked for a bias, which a
    /// normalisation that follows would undo.
    ///
    /// # Panics
    ///
    /// Where `side` is even.
    pub fn new(
        input: Shape,
        (filters, side): (usize, usize),
        with_bias: bool,
        number: usize,
        tables: &mut Vec<TableLayout>,
    ) -> Self {
        assert!(side % 2 == 1);
        let rows = input.channels * side * side;
        let weights = add_table(tables, format!("weights{number}"), rows, filters);
        let bias = with_bias.then(|| add_table(tables, format!("bias{number}"), 1, filters));
        Self { input, filters, side, weights, bias }
    }

    /// Values that go into each output.
    fn inputs(&self) -> usize {
        self.input.channels * self.side * self.side
    }

    fn planes(&self) -> Planes {
        Planes { height: self.input.height, width: self.input.width }
    }

    fn matrix<'a>(&self, model: &'a Model) -> Matrix<'a> {
        Matrix::new(model.table(self.weights), self.inputs(), self.filters)
    }
}

impl Layer for Convolution {
    fn output(&self) -> Shape {
        Shape { channels: self.filters, ..self.input }
    }

    fn forward(&self, model: &Model, pass: Forward<'_>, room: &mut Room) {
        let pixels = pass.examples * self.input.plane();
        room.values.resize(self.inputs() * pixels, 0.0);
        let patches = &mut room.values;
        unfold(pass.input, self.input.channels, self.planes(), self.side, patches);
        if let Some(bias) = self.bias {
            for (plane, bias) in pass.output.chunks_exact_mut(pixels).zip(model.table(bias)) {
                plane.fill(*bias);
            }
        }
        let keep = if self.bias.is_some() { 1.0 } else { 0.0 };
        let patches = Matrix::new(patches, self.inputs(), pixels);
        multiply(self.matrix(model).transposed(), patches, 1.0, keep, pass.output);
    }

    fn backward(&self, model: &Model, pass: Backward<'_>, room: &mut Room, gradient: &mut Deltas) {
        let pixels = pass.examples * self.input.plane();
        let weights = &mut gradient.tables[self.weights.index()].values;
        inner_products(&room.values, pass.slope, pixels, weights);
        if let Some(bias) = self.bias {
            let bias = &mut gradient.tables[bias.index()].values;
            for (plane, bias) in pass.slope.chunks_exact(pixels).zip(bias) {
                *bias = sum(plane);
            }
        }
        if let Some(before) = pass.slope_before {
            let slope = Matrix::new(pass.slope, self.filters, pixels);
            multiply(self.matrix(model), slope, 1.0, 0.0, &mut room.values);
            fold(&mut room.values, self.input.channels, self.planes(), self.side, before);
        }
    }

    fn weights(&self) -> Option<TableId> {
        Some(self.weights)
    }

    fn initialize(&self, model: &mut Model, scale: f64, seed: Seed) {
        draw_weights(model.table_mut(self.weights), self.inputs(), scale, seed);
    }

    fn flops(&self) -> f64 {
        2.0 * (self.inputs() * self.output().values()) as f64
    }

    fn room(&self) -> usize {
        self.inputs() * self.input.plane()
    }
}
