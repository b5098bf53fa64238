//! The layers of networks, which pass a batch forward and gradients back, and the stack of them.
//!
//! A layer owns no parameters: they are tables of the model, so that servers shard, filter and mirror them
//! like any others. It receives the model, its input and its output, and a workspace for the values that the backward pass
//! needs. Nothing is allocated once the workspace has grown to the size of a batch.
//!
//! Between layers the values of a batch lie channel by channel: `channels × examples × height × width`. A
//! plane of one channel is contiguous over the whole batch, so that a convolution is one long product and its
//! shifts are long copies. Values that lie in no plane are one channel, and so one row for each example.

mod convolution;
mod dense;
mod flatten;
mod loss;
mod normalization;
mod pooling;
mod rectifier;
mod stack;

pub use convolution::Convolution;
pub use dense::Dense;
pub(crate) use dense::draw_weights;
pub use flatten::Flatten;
pub use loss::{Score, score, slope_of_loss};
pub use normalization::GroupNormalization;
pub use pooling::MaxPooling;
pub use rectifier::Rectifier;
pub use stack::{Activations, Builder, Stack};

use crate::examples::Shape;
use gaia_core::types::{Deltas, Model, Seed, TableId};

/// One step of a network on a batch of examples.
pub trait Layer: Send + Sync {
    /// The shape of the output for each example.
    fn output(&self) -> Shape;

    /// Computes `output` from `input`, and keeps in `room` what [`Self::backward`] needs.
    fn forward(&self, model: &Model, pass: Forward<'_>, room: &mut Room);

    /// Carries the gradient of the loss with respect to what came out back to what came in, and writes that
    /// with respect to the layer's own parameters to its tables of `gradient`, which are dense.
    ///
    /// `room` is as the last [`Self::forward`] left it; it may be used up.
    fn backward(&self, model: &Model, pass: Backward<'_>, room: &mut Room, gradient: &mut Deltas);

    /// The table that weight decay pulls towards zero.
    fn weights(&self) -> Option<TableId> {
        None
    }

    /// The weights and the bias of a layer that has a row of weights for each input.
    fn dense(&self) -> Option<(TableId, TableId)> {
        None
    }

    /// Writes the values that training starts from into the layer's tables, which are zero; weights are
    /// drawn at `scale` times their usual deviation.
    fn initialize(&self, _model: &mut Model, _scale: f64, _seed: Seed) {}

    /// Operations of the layer's matrix products for one example on the way forward; the gradient takes as
    /// many, and so does the way back. What is no product is left out: it waits for memory.
    fn flops(&self) -> f64 {
        0.0
    }

    /// Values in the room that one example takes.
    fn room(&self) -> usize {
        0
    }
}

/// A batch in the forward pass.
pub struct Forward<'a> {
    /// How many examples the batch has.
    pub examples: usize,
    /// The values that enter the layer.
    pub input: &'a [f32],
    /// The values that leave the layer, to be written.
    pub output: &'a mut [f32],
}

/// A batch in the backward pass.
pub struct Backward<'a> {
    /// How many examples the batch has.
    pub examples: usize,
    /// The values that entered the layer.
    pub input: &'a [f32],
    /// The values that left the layer.
    pub output: &'a [f32],
    /// The gradient with respect to `output`.
    pub slope: &'a [f32],
    /// The gradient with respect to `input`, to be written. `None` in the first layer, which needs none.
    pub slope_before: Option<&'a mut [f32]>,
}

/// The workspace of a layer: what it keeps between the forward and the backward pass.
#[derive(Default)]
pub struct Room {
    /// Values that the layer keeps.
    pub values: Vec<f32>,
    /// Positions among the values that came in.
    pub places: Vec<u32>,
}
