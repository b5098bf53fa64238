//! Numbers as safetensors files: read by `safetensors.numpy.load_file` and the like.

use std::collections::BTreeMap;
use std::path::Path;

use rayon::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::error::CheckpointError;
use crate::types::{Content, Model, State, Tensor};

/// The file of each kind of tensor.
pub(super) const FILES: [(Content, &str); 3] = [
    (Content::Values, "values.safetensors"),
    (Content::Changes, "residuals.safetensors"),
    (Content::Optimizer, "optimizer.safetensors"),
];

/// A tensor that is to be written: its name, its shape and its bytes.
type Written = (String, Vec<usize>, Vec<u8>);

/// A model's tables, each as rows × width.
pub(super) fn model_file(model: &Model) -> Vec<u8> {
    let layout = model.layout();
    let tables = layout.table_ids().map(|id| {
        let table = layout.table(id);
        (table.name.clone(), vec![table.rows, table.width], bytes(model.table(id)))
    });
    file(tables.collect())
}

/// All tensors of one kind, each as one row of numbers.
pub(super) fn state_file(state: &State, content: Content) -> Vec<u8> {
    let tensors = state.tensors.iter().filter(|(_, tensor)| tensor.content == content);
    let written = tensors
        .map(|(name, tensor)| (name.clone(), vec![tensor.values.len()], bytes(&tensor.values)));
    file(written.collect())
}

/// Reads a file of tensors of one kind; `path` is for errors.
pub(super) fn read(
    path: &Path,
    content: Content,
    file: &[u8],
    tensors: &mut BTreeMap<String, Tensor>,
) -> Result<(), CheckpointError> {
    let unreadable = |problem: String| CheckpointError::unreadable(path, problem);
    let file = SafeTensors::deserialize(file).map_err(|error| unreadable(error.to_string()))?;
    for (name, view) in file.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(unreadable(format!("`{name}` is {:?}, not F32", view.dtype())));
        }
        let (numbers, rest) = view.data().as_chunks();
        if !rest.is_empty() {
            return Err(unreadable(format!("`{name}` ends within a number")));
        }
        let values = numbers.par_iter().map(|number| f32::from_le_bytes(*number)).collect();
        tensors.insert(name.to_owned(), Tensor { content, values });
    }
    Ok(())
}

fn file(written: Vec<Written>) -> Vec<u8> {
    let views = written.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        (name.as_str(), view.expect("a shape that has as many numbers"))
    });
    safetensors::serialize(views, None).expect("names and shapes are text and numbers")
}

fn bytes(values: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; 4 * values.len()];
    let (numbers, _) = bytes.as_chunks_mut();
    numbers.par_iter_mut().zip(values).for_each(|(number, value)| *number = value.to_le_bytes());
    bytes
}
