//! Writes a model.

use std::borrow::Cow;
use std::collections::BTreeMap;

use safetensors::Dtype;
use safetensors::tensor::View;

use super::description::DESCRIPTION;
use gaia_core::application::Attachment;
use gaia_core::types::{Model, ShardLayout};

/// The bytes of the file of a model, which are the same for the same arguments.
///
/// `description` is the only key of the metadata: the format leaves the order of keys open.
pub fn model_bytes(
    model: &Model,
    attachments: &BTreeMap<String, Attachment>,
    description: Option<&str>,
) -> Vec<u8> {
    let layout = model.layout();
    let tables = layout.table_ids().map(|id| {
        let table = layout.table(id);
        let shape = vec![table.rows, table.width];
        (table.name.as_str(), Tensor { shape, values: Values::F32(model.table(id)) })
    });
    serialized(tables, attachments, description)
}

/// The bytes of the file with one shard of a model: of each table every row that the shard owns, in their order. The
/// description names the shard ([`ModelDescription::shard`](super::ModelDescription::shard)).
///
/// # Panics
/// If `values` are not those of the shard.
pub fn shard_bytes(
    layout: &ShardLayout,
    values: &[f32],
    attachments: &BTreeMap<String, Attachment>,
    description: &str,
) -> Vec<u8> {
    assert_eq!(values.len(), layout.parameters());
    let tables = layout.model().table_ids().map(|id| {
        let shape = vec![layout.rows_of(id), layout.width_of(id)];
        let values = Values::F32(&values[layout.table_range(id)]);
        (layout.model().table(id).name.as_str(), Tensor { shape, values })
    });
    serialized(tables, attachments, Some(description))
}

fn serialized<'v>(
    tables: impl Iterator<Item = (&'v str, Tensor<'v>)>,
    attachments: &'v BTreeMap<String, Attachment>,
    description: Option<&str>,
) -> Vec<u8> {
    let attached = attachments.iter();
    let attached = attached.map(|(name, attachment)| (name.as_str(), attached_tensor(attachment)));
    let metadata = description.map(|text| [(DESCRIPTION.to_owned(), text.to_owned())].into());
    safetensors::serialize(tables.chain(attached), metadata)
        .expect("names and shapes are text and numbers")
}

/// A tensor that is to be written.
struct Tensor<'v> {
    shape: Vec<usize>,
    values: Values<'v>,
}

enum Values<'v> {
    F32(&'v [f32]),
    U64(&'v [u64]),
    U8(Vec<u8>),
}

fn attached_tensor(attachment: &Attachment) -> Tensor<'_> {
    let values = match attachment {
        Attachment::Floats(numbers) => Values::F32(numbers),
        Attachment::Integers(numbers) => Values::U64(numbers),
        Attachment::Texts(texts) => {
            Values::U8(serde_json::to_vec(texts).expect("text can be written as JSON"))
        }
    };
    let length = match &values {
        Values::F32(numbers) => numbers.len(),
        Values::U64(numbers) => numbers.len(),
        Values::U8(bytes) => bytes.len(),
    };
    Tensor { shape: vec![length], values }
}

impl View for Tensor<'_> {
    fn dtype(&self) -> Dtype {
        match self.values {
            Values::F32(_) => Dtype::F32,
            Values::U64(_) => Dtype::U64,
            Values::U8(_) => Dtype::U8,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The bytes in little-endian order, which is the order in memory on most machines.
    fn data(&self) -> Cow<'_, [u8]> {
        let is_native = cfg!(target_endian = "little");
        match &self.values {
            Values::F32(numbers) if is_native => Cow::Borrowed(bytemuck::cast_slice(numbers)),
            Values::U64(numbers) if is_native => Cow::Borrowed(bytemuck::cast_slice(numbers)),
            Values::F32(numbers) => {
                numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
            }
            Values::U64(numbers) => {
                numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
            }
            Values::U8(bytes) => Cow::Borrowed(bytes),
        }
    }

    fn data_len(&self) -> usize {
        match &self.values {
            Values::F32(numbers) => size_of_val(*numbers),
            Values::U64(numbers) => size_of_val(*numbers),
            Values::U8(bytes) => bytes.len(),
        }
    }
}
