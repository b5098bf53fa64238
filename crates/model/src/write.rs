//! Writes a model, whose file can be checked before there are values to write.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use safetensors::Dtype;
use safetensors::tensor::View;

use super::description::DESCRIPTION;
use super::header::{HeaderTooLong, check_header, header_of};
use gaia_core::application::Attachment;
use gaia_core::types::{Model, ModelLayout, ShardLayout};

/// The bytes of the file of a model, which are the same for the same arguments. Each table has the shape that it has outside of
/// a run ([`ModelLayout::shape`](gaia_core::types::ModelLayout::shape)).
///
/// `description` is the only key of the metadata: the format leaves the order of keys open.
///
/// # Errors
/// As [`check_model`].
pub fn model_bytes(
    model: &Model,
    attachments: &BTreeMap<String, Attachment>,
    description: Option<&str>,
) -> Result<Vec<u8>, HeaderTooLong> {
    let layout = model.layout();
    let tables = layout.table_ids().map(|id| {
        let values = Values::F32(model.table(id));
        (layout.table(id).name.as_str(), layout.shape(id).into_owned(), values)
    });
    serialized(tables, attachments, description)
}

/// The bytes of the file with one shard of a model: of each table every row that the shard owns, in their order, also where
/// the table has another shape outside of a run. The description names the shard ([`ModelDescription::shard`](super::ModelDescription::shard)).
///
/// # Errors
/// As [`check_shard`].
///
/// # Panics
/// If `values` are not those of the shard.
pub fn shard_bytes(
    layout: &ShardLayout,
    values: &[f32],
    attachments: &BTreeMap<String, Attachment>,
    description: &str,
) -> Result<Vec<u8>, HeaderTooLong> {
    assert_eq!(values.len(), layout.parameters());
    let tables = layout.model().table_ids().map(|id| {
        let shape = vec![layout.rows_of(id), layout.width_of(id)];
        let values = Values::F32(&values[layout.table_range(id)]);
        (layout.model().table(id).name.as_str(), shape, values)
    });
    serialized(tables, attachments, Some(description))
}

fn serialized<'v>(
    tables: impl Iterator<Item = (&'v str, Vec<usize>, Values<'v>)>,
    attachments: &'v BTreeMap<String, Attachment>,
    description: Option<&str>,
) -> Result<Vec<u8>, HeaderTooLong> {
    let attached = attachments.iter().map(|(name, attachment)| {
        let values = attached_values(attachment);
        (name.as_str(), vec![values.len()], values)
    });
    tensors_with(tables.chain(attached), description.map(|text| (DESCRIPTION, text)))
}

/// A row of numbers that is to be written.
#[derive(Clone, Debug)]
pub enum Row<'v> {
    /// Numbers of four bytes.
    F32(Cow<'v, [f32]>),
    /// The upper halves of numbers of four bytes, in little-endian order.
    Bf16(Vec<[u8; 2]>),
    /// Small whole numbers.
    U8(Vec<u8>),
}

/// A safetensors file in parts, so that nobody has to copy values that are large: what is before the values, and the values of
/// each tensor in little-endian order, by the order of types and names. Each tensor is a row of numbers. `metadata` is a key of the
/// metadata with its text.
///
/// # Errors
/// [`HeaderTooLong`] if names, lengths and the text are more than the header of such a file has room for.
pub fn rows_in_parts<'v>(
    rows: BTreeMap<&str, Row<'v>>,
    metadata: Option<(&str, &str)>,
) -> Result<Vec<Cow<'v, [u8]>>, HeaderTooLong> {
    let shapes = rows.iter().map(|(name, row)| (*name, row.dtype(), vec![row.len()]));
    let header = header_of(shapes, metadata)?;
    let mut rows: Vec<Row<'v>> = rows.into_values().collect();
    rows.sort_by_key(|row| Reverse(row.dtype()));
    Ok([Cow::Owned(header)].into_iter().chain(rows.into_iter().map(Row::into_bytes)).collect())
}

/// The bytes of a safetensors file: of each tensor its name, its shape and as many values, in little-endian order; and a key
/// of the metadata with its text, if there is one.
///
/// # Errors
/// [`HeaderTooLong`] if names, shapes and the text are more than the header of such a file has room for.
pub(super) fn tensors_with<'v>(
    tensors: impl Iterator<Item = (&'v str, Vec<usize>, Values<'v>)>,
    metadata: Option<(&str, &str)>,
) -> Result<Vec<u8>, HeaderTooLong> {
    let tensors = tensors.map(|(name, shape, values)| (name, Tensor { shape, values }));
    let tensors: Vec<_> = tensors.collect();
    let header = tensors.iter().map(|(name, tensor)| (*name, tensor.dtype(), tensor.shape.clone()));
    check_header(header, metadata)?;

    let metadata = metadata.map(|(key, text)| [(key.to_owned(), text.to_owned())].into());
    Ok(safetensors::serialize(tensors, metadata).expect("its header was checked"))
}

/// Checks that a model of this layout has a file ([`model_bytes`]), before there are values.
///
/// # Errors
/// [`HeaderTooLong`] if names, shapes and the description are more than the header of such a file has room for.
pub fn check_model(
    layout: &ModelLayout,
    attachments: &BTreeMap<String, Attachment>,
    description: &str,
) -> Result<(), HeaderTooLong> {
    let tables = layout.table_ids();
    let tables = tables.map(|id| (layout.table(id).name.as_str(), layout.shape(id).into_owned()));
    check(tables, attachments, description)
}

/// Checks that a shard of a model has a file ([`shard_bytes`]), before there are values.
///
/// # Errors
/// As [`check_model`].
pub fn check_shard(
    layout: &ShardLayout,
    attachments: &BTreeMap<String, Attachment>,
    description: &str,
) -> Result<(), HeaderTooLong> {
    let tables = layout.model().table_ids().map(|id| {
        let shape = vec![layout.rows_of(id), layout.width_of(id)];
        (layout.model().table(id).name.as_str(), shape)
    });
    check(tables, attachments, description)
}

fn check<'n>(
    tables: impl Iterator<Item = (&'n str, Vec<usize>)>,
    attachments: &'n BTreeMap<String, Attachment>,
    description: &str,
) -> Result<(), HeaderTooLong> {
    let tables = tables.map(|(name, shape)| (name, Dtype::F32, shape));
    let attached = attachments.iter().map(|(name, attachment)| {
        let values = attached_values(attachment);
        (name.as_str(), values.dtype(), vec![values.len()])
    });
    check_header(tables.chain(attached), Some((DESCRIPTION, description)))
}

/// A tensor that is to be written.
struct Tensor<'v> {
    shape: Vec<usize>,
    values: Values<'v>,
}

/// The values of a tensor that is to be written.
pub(super) enum Values<'v> {
    /// Numbers of four bytes.
    F32(&'v [f32]),
    /// Whole numbers of eight bytes.
    U64(&'v [u64]),
    /// Bytes.
    U8(Vec<u8>),
}

fn attached_values(attachment: &Attachment) -> Values<'_> {
    match attachment {
        Attachment::Floats(numbers) => Values::F32(numbers),
        Attachment::Integers(numbers) => Values::U64(numbers),
        Attachment::Texts(texts) => {
            Values::U8(serde_json::to_vec(texts).expect("text can be written as JSON"))
        }
    }
}

impl Values<'_> {
    fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::U64(_) => Dtype::U64,
            Self::U8(_) => Dtype::U8,
        }
    }

    /// The number of values.
    fn len(&self) -> usize {
        match self {
            Self::F32(numbers) => numbers.len(),
            Self::U64(numbers) => numbers.len(),
            Self::U8(bytes) => bytes.len(),
        }
    }
}

impl View for Tensor<'_> {
    fn dtype(&self) -> Dtype {
        self.values.dtype()
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match &self.values {
            Values::F32(numbers) => little_endian(numbers),
            Values::U64(numbers) if cfg!(target_endian = "little") => {
                Cow::Borrowed(bytemuck::cast_slice(numbers))
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

impl<'v> Row<'v> {
    fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::Bf16(_) => Dtype::BF16,
            Self::U8(_) => Dtype::U8,
        }
    }

    /// The number of numbers.
    fn len(&self) -> usize {
        match self {
            Self::F32(numbers) => numbers.len(),
            Self::Bf16(halves) => halves.len(),
            Self::U8(bytes) => bytes.len(),
        }
    }

    fn into_bytes(self) -> Cow<'v, [u8]> {
        match self {
            Self::F32(Cow::Borrowed(numbers)) => little_endian(numbers),
            Self::F32(Cow::Owned(numbers)) => Cow::Owned(little_endian(&numbers).into_owned()),
            Self::Bf16(halves) => Cow::Owned(halves.into_flattened()),
            Self::U8(bytes) => Cow::Owned(bytes),
        }
    }
}

/// The bytes in little-endian order, which is the order in memory on most machines.
fn little_endian(numbers: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(numbers))
    } else {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use safetensors::SafeTensors;

    use super::*;

    #[test]
    fn the_parts_of_a_file_are_its_bytes() {
        let [none, some, more] = [&[][..], &[1.0, f32::NAN], &[0.5; 7]];
        for rows in [&[][..], &[("b", some)], &[("b", some), ("a", none), ("long name", more)]] {
            let shaped =
                rows.iter().map(|(name, values)| (*name, vec![values.len()], Values::F32(values)));
            for metadata in [None, Some(("key", "text"))] {
                let row = |values| Row::F32(Cow::Borrowed(values));
                let rows = rows.iter().map(|(name, values)| (*name, row(*values)));
                let parts = rows_in_parts(rows.collect(), metadata).unwrap();
                assert_eq!(parts.concat(), tensors_with(shaped.clone(), metadata).unwrap());
            }
        }
    }

    #[test]
    fn rows_of_small_numbers_come_behind_the_others() {
        let rows = [
            ("a", Row::Bf16([0x3f80_u16, 0x8000, 0x7fc1].map(u16::to_le_bytes).into())),
            ("b", Row::F32(Cow::Borrowed(&[0.5]))),
            ("c", Row::U8(vec![7, 255])),
        ];
        let file = rows_in_parts(rows.into(), None).unwrap().concat();
        let read = SafeTensors::deserialize(&file).unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| read.tensor(name).unwrap());
        assert_eq!(
            (a.dtype(), a.shape(), a.data()),
            (Dtype::BF16, &[3][..], &[0x80, 0x3f, 0, 0x80, 0xc1, 0x7f][..])
        );
        assert_eq!((b.dtype(), b.data()), (Dtype::F32, &0.5_f32.to_le_bytes()[..]));
        assert_eq!((c.dtype(), c.shape(), c.data()), (Dtype::U8, &[2][..], &[7, 255][..]));
        assert!(file.ends_with(&[a.data(), c.data()].concat()));
    }
}
