//! The tables that the tensors of a script are, and models of their values.

use std::sync::Arc;

use gaia::{Model, ModelLayout};

pub(crate) use gaia::{TensorSpec as Tensor, tensor_layout as layout};

/// A model of these values.
pub(crate) fn model(layout: &Arc<ModelLayout>, values: &[f32]) -> Model {
    let mut model = Model::zeros(layout.clone());
    model.values.copy_from_slice(values);
    model
}
