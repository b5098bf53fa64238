//! Reads the tensors of a script by its own names and shapes, as the state dict of a module has them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use half::{bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use super::error::{ModelError, plain, shown};
use super::read::{description, is_folder, unfit_shard};
use super::shards;
use gaia_core::types::{Model, ModelLayout};

/// The values of a script's tensors, from a file that another program may have written.
#[derive(Clone, Debug)]
pub struct StateDict {
    /// The values, in single precision.
    pub model: Model,
    /// The tensors of the file that the layout does not have, such as counters of batches and parameters that are not
    /// trained. In alphabetical order.
    pub others: Vec<String>,
}

impl StateDict {
    /// Reads the tensors of a layout from a safetensors file, by their names and the shapes that they have outside of a run.
    /// Numbers of 16, 32 and 64 bits are read. A folder with all shards of a model is read as well.
    ///
    /// # Errors
    /// [`ModelError::Unreadable`] where the file cannot be read. [`ModelError::Broken`] where it is not a safetensors file, or
    /// with the first tensor that is missing, of another shape, or holds something else than numbers.
    pub fn read(file: &Path, layout: &Arc<ModelLayout>) -> Result<Self, ModelError> {
        if is_folder(file)? {
            let model = shards::read(file)?.model(layout, &[].into())?;
            return Ok(Self { model, others: Vec::new() });
        }
        let bytes = std::fs::read(file);
        let bytes = bytes.map_err(|reason| ModelError::Unreadable { file: file.into(), reason })?;
        Self::parse(file, &bytes, layout)
    }

    fn parse(file: &Path, bytes: &[u8], layout: &Arc<ModelLayout>) -> Result<Self, ModelError> {
        let tensors =
            SafeTensors::deserialize(bytes).map_err(|error| unreadable(file, bytes, &error))?;
        let (_, header) =
            SafeTensors::read_metadata(bytes).map_err(|error| unreadable(file, bytes, &error))?;
        if let Some(shard) = description(file, &header)?.and_then(|found| found.shard) {
            return Err(unfit_shard(file, shard));
        }

        let mut model = Model::zeros(layout.clone());
        for id in layout.table_ids() {
            let (name, shape) = (layout.table(id).name.as_str(), layout.shape(id));
            let shown_name = plain(name);
            let expected = format!("`{shown_name}` with the shape {shape:?}, as the script has it");
            let broken = |found: String| ModelError::broken(file, found, expected.as_str());
            let tensor =
                tensors.tensor(name).map_err(|_| broken(missing(name, tensors.names())))?;
            if *tensor.shape() != *shape {
                return Err(broken(format!("`{shown_name}` with {}", in_words(tensor.shape()))));
            }
            read_values(&tensor, model.table_mut(id)).map_err(|found| {
                let found = format!("{found} in `{shown_name}`");
                ModelError::broken(file, found, "finite numbers of single precision")
            })?;
        }

        let own: BTreeSet<&str> = layout.tables().iter().map(|table| table.name.as_str()).collect();
        let found: BTreeSet<&str> = tensors.names().into_iter().collect();
        let others = found.difference(&own).map(|name| (*name).to_owned()).collect();
        Ok(Self { model, others })
    }
}

/// A shape from a file.
fn in_words(shape: &[usize]) -> String {
    match shape.len() {
        axes if axes > AXES_SHOWN => format!("{axes} axes"),
        _ => format!("the shape {shape:?}"),
    }
}

/// What was found in place of a tensor.
fn missing(name: &str, names: Vec<&str>) -> String {
    // Wrappers of modules put a name of their own before each.
    let wrapped = format!(".{name}");
    match names.into_iter().find(|other| other.ends_with(&wrapped)) {
        Some(other) => format!("{} and no `{}`", shown(other), plain(name)),
        None => format!("no `{}`", plain(name)),
    }
}

/// Why bytes are no safetensors file.
pub(super) fn unreadable(file: &Path, bytes: &[u8], error: &SafeTensorError) -> ModelError {
    let is_torch = TORCH.iter().any(|start| bytes.starts_with(start));
    if is_torch {
        let expected = "a safetensors file, which safetensors.torch.save_file(model.state_dict(), FILE) writes";
        return ModelError::broken(file, "a file of torch.save", expected);
    }
    // It may repeat what is in the file.
    let found = error.to_string().escape_debug().to_string();
    ModelError::broken(file, found, "a safetensors file")
}

/// Writes the numbers of a tensor to as many places.
///
/// # Errors
/// The first that is no finite number of single precision, or the type of the tensor if it has none.
pub(super) fn read_values(tensor: &TensorView<'_>, values: &mut [f32]) -> Result<(), String> {
    fn convert<const N: usize>(bytes: &[u8], values: &mut [f32], number: impl Fn([u8; N]) -> f32) {
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
            *value = number(*bytes);
        }
    }

    let bytes = tensor.data();
    match tensor.dtype() {
        Dtype::F64 => convert(bytes, values, |bytes| f64::from_le_bytes(bytes) as f32),
        Dtype::F32 => convert(bytes, values, f32::from_le_bytes),
        Dtype::F16 => convert(bytes, values, |bytes| f16::from_le_bytes(bytes).to_f32()),
        Dtype::BF16 => convert(bytes, values, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        other => return Err(format!("numbers of the type {other:?}")),
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(place) => Err(format!("{} at place {place}", values[place])),
    }
}

/// A shape of more axes is that of no tensor in use.
const AXES_SHOWN: usize = 8;

/// How the files of `torch.save` begin: a zip archive, or in old versions a pickle.
const TORCH: [&[u8]; 2] = [b"PK\x03\x04", b"\x80\x02"];

#[cfg(test)]
mod tests {
    use safetensors::serialize;

    use super::*;
    use crate::{TensorSpec, tensor_layout};

    const NAME: &str = "w.safetensors";

    fn layout() -> Arc<ModelLayout> {
        let spec = |name: &str, shape: &[usize]| TensorSpec {
            name: name.into(),
            shape: shape.into(),
            is_statistics: false,
            sparse: None,
        };
        tensor_layout(&[spec("fc.weight", &[2, 1, 2]), spec("fc.bias", &[2])], false)
    }

    /// A file with these tensors: name, type, shape and bytes.
    fn file(tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) -> Vec<u8> {
        let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
            (*name, TensorView::new(*dtype, shape.to_vec(), bytes).unwrap())
        });
        serialize(views, None).unwrap()
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn read(bytes: &[u8]) -> Result<StateDict, String> {
        StateDict::parse(Path::new(NAME), bytes, &layout()).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_of_every_width_are_read_by_name_and_shape() {
        let weight = [0.5, -2.0, 1.0, 0.25];
        let halves = weight.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
        let brains = weight.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect();
        let doubles = weight.iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect();
        let all = [
            (Dtype::F32, floats(&weight)),
            (Dtype::F16, halves),
            (Dtype::BF16, brains),
            (Dtype::F64, doubles),
        ];
        for (dtype, bytes) in all {
            let found = read(&file(&[
                ("bn.batches", Dtype::I64, &[], vec![0; 8]),
                ("fc.bias", Dtype::F32, &[2], floats(&[3.0, 4.0])),
                ("fc.weight", dtype, &[2, 1, 2], bytes),
                ("ab.frozen", Dtype::F32, &[1], floats(&[f32::NAN])),
            ]));
            let StateDict { model, others } = found.unwrap();
            assert_eq!(model.values[..], [0.5, -2.0, 1.0, 0.25, 3.0, 4.0], "{dtype:?}");
            assert_eq!(others, ["ab.frozen", "bn.batches"]);
        }
    }

    #[test]
    fn the_first_tensor_that_does_not_fit_is_named() {
        let refused = |tensors: &[(&str, Dtype, &[usize], Vec<u8>)], expect: &str| {
            assert_eq!(read(&file(tensors)).unwrap_err(), format!("{NAME}: {expect}"));
        };
        let weight = ("fc.weight", Dtype::F32, &[2_usize, 1, 2][..], floats(&[0.0; 4]));
        refused(
            &[("module.fc.weight", Dtype::F32, &[2, 1, 2], floats(&[0.0; 4]))],
            "found \"module.fc.weight\" and no `fc.weight`, expected `fc.weight` with the shape [2, 1, 2], as the \
             script has it",
        );
        refused(
            std::slice::from_ref(&weight),
            "found no `fc.bias`, expected `fc.bias` with the shape [2], as the script has it",
        );
        refused(
            &[weight.clone(), ("fc.bias", Dtype::F32, &[1, 2], floats(&[0.0; 2]))],
            "found `fc.bias` with the shape [1, 2], expected `fc.bias` with the shape [2], as the script has it",
        );
        refused(
            &[weight.clone(), ("fc.bias", Dtype::F32, &[1; 99], floats(&[0.0]))],
            "found `fc.bias` with 99 axes, expected `fc.bias` with the shape [2], as the script has it",
        );
        refused(
            &[weight.clone(), ("fc.bias", Dtype::I32, &[2], floats(&[0.0; 2]))],
            "found numbers of the type I32 in `fc.bias`, expected finite numbers of single precision",
        );
        let huge = [0.0, 1e300].into_iter().flat_map(f64::to_le_bytes).collect();
        refused(
            &[weight, ("fc.bias", Dtype::F64, &[2], huge)],
            "found inf at place 1 in `fc.bias`, expected finite numbers of single precision",
        );
    }

    #[test]
    fn files_of_torch_are_refused_with_how_to_convert_them() {
        for start in TORCH {
            let refused = read(start).unwrap_err();
            assert!(refused.contains("found a file of torch.save, expected a safetensors file"));
            assert!(refused.contains("save_file(model.state_dict(), FILE)"));
        }
        let refused = read(b"no tensors").unwrap_err();
        assert!(refused.ends_with("expected a safetensors file"), "{refused}");

        let whole = file(&[
            ("fc.bias", Dtype::F32, &[2], floats(&[3.0, 4.0])),
            ("fc.weight", Dtype::F32, &[2, 1, 2], floats(&[0.0; 4])),
        ]);
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err());
        }
    }
}
