//! The dense layer: every output is a weighted sum of all inputs.

use rand_distr::{Distribution, Normal};

use super::{Backward, Forward, Layer, Room};
use crate::examples::Shape;
use crate::kernels::dense::{Matrix, multiply};
use crate::kernels::vector::axpy;
use gaia_core::types::{Deltas, Model, Seed, TableId, TableLayout};

/// `input · weights + bias` of every example.
///
/// The weights have one row per input with a value for each output, which shards evenly however few the
/// outputs are; the bias has one row.
pub struct Dense {
    inputs: usize,
    outputs: usize,
    weights: TableId,
    bias: TableId,
}

impl Dense {
    /// Adds the layer's two tables, numbered `number`, to `tables`.
    pub fn new(
        inputs: usize,
        outputs: usize,
        number: usize,
        tables: &mut Vec<TableLayout>,
    ) -> Self {
        let weights = add_table(tables, format!("weights{number}"), inputs, outputs);
        let bias = add_table(tables, format!("bias{number}"), 1, outputs);
        Self { inputs, outputs, weights, bias }
    }

    fn matrix<'a>(&self, model: &'a Model) -> Matrix<'a> {
        Matrix::new(model.table(self.weights), self.inputs, self.outputs)
    }
}

impl Layer for Dense {
    fn output(&self) -> Shape {
        Shape::row(self.outputs)
    }

    fn forward(&self, model: &Model, pass: Forward<'_>, _room: &mut Room) {
        for row in pass.output.chunks_exact_mut(self.outputs) {
            row.copy_from_slice(model.table(self.bias));
        }
        let input = Matrix::new(pass.input, pass.examples, self.inputs);
        multiply(input, self.matrix(model), 1.0, 1.0, pass.output);
    }

    fn backward(&self, model: &Model, pass: Backward<'_>, _room: &mut Room, gradient: &mut Deltas) {
        let input = Matrix::new(pass.input, pass.examples, self.inputs);
        let slope = Matrix::new(pass.slope, pass.examples, self.outputs);
        let weights = &mut gradient.tables[self.weights.index()].values;
        multiply(input.transposed(), slope, 1.0, 0.0, weights);
        let bias = &mut gradient.tables[self.bias.index()].values;
        bias.fill(0.0);
        for row in pass.slope.chunks_exact(self.outputs) {
            axpy(1.0, row, bias);
        }
        if let Some(before) = pass.slope_before {
            multiply(slope, self.matrix(model).transposed(), 1.0, 0.0, before);
        }
    }

    fn weights(&self) -> Option<TableId> {
        Some(self.weights)
    }

    fn dense(&self) -> Option<(TableId, TableId)> {
        Some((self.weights, self.bias))
    }

    fn initialize(&self, model: &mut Model, scale: f64, seed: Seed) {
        draw_weights(model.table_mut(self.weights), self.inputs, scale, seed);
    }

    fn flops(&self) -> f64 {
        2.0 * (self.inputs * self.outputs) as f64
    }
}

/// Adds a table to a model's.
pub(super) fn add_table(
    tables: &mut Vec<TableLayout>,
    name: String,
    rows: usize,
    width: usize,
) -> TableId {
    tables.push(TableLayout { name, rows, width });
    TableId(tables.len() as u16 - 1)
}

/// Draws weights that keep the size of what passes through rectifiers (He et al., ICCV 2015): `inputs` go
/// into each output.
pub(crate) fn draw_weights(weights: &mut [f32], inputs: usize, scale: f64, seed: Seed) {
    if scale == 0.0 {
        return;
    }
    let deviation = scale * (2.0 / inputs as f64).sqrt();
    let normal = Normal::new(0.0, deviation).expect("a finite deviation");
    let mut random = seed.random();
    for weight in weights {
        *weight = normal.sample(&mut random) as f32;
    }
}
