//! Encoding of parameter changes.
//!
//! This room decides in how few bytes a set of changes is encoded, and which bytes are valid. It does not know who
//! sends the changes, when, and what they mean. Parameters are positions in one shard's flat vector. Indexes and values
//! are in sections of their own, because they compress differently: indexes by their gaps, values by lower precision.
//! The released code of the paper's first author sends each index and value unencoded, eight bytes an update.
//!
//! Sparse changes use the smallest of four index forms. Where it is smaller, they are encoded as a dense span without
//! indexes, with zeros in the holes. Adding a zero changes nothing, so only additive changes may be encoded here.

mod blocks;
mod error;
mod gaps;
mod indexes;
mod numbers;
mod reader;
mod rice;
mod runs;
mod values;
mod words;

pub use error::{DecodeError, Section};
pub use indexes::{decode_indexes, encode_indexes};
pub use values::{ValueFormat, decode_values, encode_values, quantise};

use crate::simd::{PLACES_AHEAD, prefetch_at};
use indexes::{DENSE, Plan};
use reader::{Reader, varint_len, write_varint};

/// Additive changes to the parameters of one shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Changes<'a> {
    /// A change to each of `values.len()` consecutive parameters.
    Dense {
        /// The first parameter.
        start: u32,
        /// The change of each parameter.
        values: &'a [f32],
    },
    /// A change to each listed parameter.
    Sparse {
        /// Strictly ascending parameters.
        indexes: &'a [u32],
        /// The change of each parameter, as many as indexes.
        values: &'a [f32],
    },
}

/// Memory for decoded changes, reused from frame to frame.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    indexes: Vec<u32>,
    values: Vec<f32>,
}

/// The sizes of what [`encode`] appended: an index section, then a value section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The number of values, including zeros between sparse changes.
    pub count: u32,
    /// The size of the index section.
    pub index_bytes: u32,
    /// The size of the value section.
    pub value_bytes: u32,
}

impl Changes<'_> {
    /// The number of parameters that change.
    pub fn len(&self) -> usize {
        match self {
            Self::Dense { values, .. } | Self::Sparse { values, .. } => values.len(),
        }
    }

    /// Whether no parameter changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The change of each parameter, in ascending order of the parameters.
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Dense { values, .. } | Self::Sparse { values, .. } => values,
        }
    }

    /// Calls `visit` with the parameter and the change of each, in ascending order of the parameters.
    pub fn for_each(&self, mut visit: impl FnMut(usize, f32)) {
        match *self {
            Self::Dense { start, values } => {
                let places = start as usize..;
                places.zip(values).for_each(|(index, value)| visit(index, *value));
            }
            Self::Sparse { indexes, values } => {
                indexes
                    .iter()
                    .zip(values)
                    .for_each(|(index, value)| visit(*index as usize, *value));
            }
        }
    }

    /// Adds each change to its parameter in `values`.
    ///
    /// # Panics
    /// If a parameter is beyond `values`. Decoded changes are within the shard for which they were decoded.
    pub fn add_to(&self, values: &mut [f32]) {
        match *self {
            Self::Dense { start, values: added } => {
                let start = start as usize;
                for (value, added) in values[start..start + added.len()].iter_mut().zip(added) {
                    *value += added;
                }
            }
            Self::Sparse { indexes, values: added } => {
                for (at, (index, added)) in indexes.iter().zip(added).enumerate() {
                    if let Some(later) = indexes.get(at + PLACES_AHEAD) {
                        prefetch_at(values, *later as usize);
                    }
                    values[*index as usize] += added;
                }
            }
        }
    }
}

impl Encoded {
    /// The size of both sections.
    pub fn bytes(&self) -> usize {
        self.index_bytes as usize + self.value_bytes as usize
    }
}

/// Appends the changes to `out` in their smallest form.
///
/// # Panics
/// If sparse changes have not as many values as indexes.
pub fn encode(changes: Changes<'_>, format: ValueFormat, out: &mut Vec<u8>) -> Encoded {
    let before = out.len();
    let (count, index_bytes) = match changes {
        Changes::Dense { start, values } => {
            write_dense(start, values.len(), out);
            let index_bytes = out.len() - before;
            values::write(values, format, out);
            (values.len(), index_bytes)
        }
        Changes::Sparse { indexes, values } => {
            assert_eq!(indexes.len(), values.len(), "every index has a value");
            let plan = Plan::of(indexes);
            match plan.dense_span(indexes, format) {
                Some(span) => {
                    write_dense(indexes[0], span, out);
                    let index_bytes = out.len() - before;
                    values::write_spread(indexes, values, format, out);
                    (span, index_bytes)
                }
                None => {
                    plan.write(indexes, out);
                    let index_bytes = out.len() - before;
                    values::write(values, format, out);
                    (values.len(), index_bytes)
                }
            }
        }
    };

    Encoded {
        count: count as u32,
        index_bytes: index_bytes as u32,
        value_bytes: format.bytes(count) as u32,
    }
}

/// The exact number of bytes that [`encode`] appends.
pub fn encoded_len(changes: Changes<'_>, format: ValueFormat) -> usize {
    match changes {
        Changes::Dense { start, values } => dense_len(start, values.len(), format),
        Changes::Sparse { indexes, .. } => sparse_len(indexes, format),
    }
}

/// Whether a dense span from the first to the last of these strictly ascending indexes is smaller than the indexes.
///
/// Then [`encode`] fills the holes with zeros, unless values of the format share scales. In that case the sender must
/// fill them before it quantises.
pub fn fills_holes(indexes: &[u32], format: ValueFormat) -> bool {
    Plan::may_span(indexes, format)
        && Plan::of(indexes).smallest_span(indexes, format).is_some_and(|span| span > indexes.len())
}

/// The number of leading entries of a sparse change that encode to at most `room` bytes.
///
/// The result always fits. If not all entries fit, it is within about 2 % of the largest number that would.
pub fn fit(indexes: &[u32], format: ValueFormat, room: usize) -> usize {
    let whole = sparse_len(indexes, format);
    if whole <= room {
        return indexes.len();
    }
    let (mut fits, mut fits_bytes) = (0, 0);
    let (mut too_many, mut too_many_bytes) = (indexes.len(), whole);

    for _ in 0..FIT_PROBES {
        if too_many - fits <= 1 + too_many / FIT_PRECISION {
            break;
        }
        let share = (room - fits_bytes) as f64 / (too_many_bytes - fits_bytes).max(1) as f64;
        let guess = fits + ((too_many - fits) as f64 * share * 0.995) as usize;
        let probe = guess.clamp(fits + 1, too_many - 1);
        let bytes = sparse_len(&indexes[..probe], format);
        if bytes <= room {
            (fits, fits_bytes) = (probe, bytes);
        } else {
            (too_many, too_many_bytes) = (probe, bytes);
        }
    }

    fits
}

/// Decodes what [`encode`] wrote for a shard of `parameters`. The changes are in `buffers`.
///
/// Counts are checked against the bytes present and against the shard before memory is allocated.
///
/// # Errors
/// If the bytes are no valid encoding, or name parameters beyond the shard.
pub fn decode<'b>(
    index_section: &[u8],
    value_section: &[u8],
    format: ValueFormat,
    parameters: usize,
    buffers: &'b mut Buffers,
) -> Result<Changes<'b>, DecodeError> {
    let mut reader = Reader::new(index_section, Section::Indexes);
    let form = reader.byte()?;
    let count = indexes::read_count(&mut reader, parameters)?;
    // Before the indexes, which take memory by their count.
    values::check_bytes(value_section, count, format)?;
    let start = if form == DENSE {
        let start = reader.varint()?;
        if u64::from(start) + count as u64 > parameters as u64 {
            let index = u64::from(start) + count as u64 - 1;
            return Err(DecodeError::IndexOutOfRange { index, parameters });
        }
        Some(start)
    } else {
        indexes::read_form(form, &mut reader, count, parameters, &mut buffers.indexes)?;
        None
    };

    reader.finish()?;
    values::read(value_section, count, format, &mut buffers.values)?;
    Ok(match start {
        Some(start) => Changes::Dense { start, values: &buffers.values },
        None => Changes::Sparse { indexes: &buffers.indexes, values: &buffers.values },
    })
}

fn write_dense(start: u32, count: usize, out: &mut Vec<u8>) {
    out.push(DENSE);
    write_varint(count as u32, out);
    write_varint(start, out);
}

fn dense_len(start: u32, count: usize, format: ValueFormat) -> usize {
    1 + varint_len(count as u32) + varint_len(start) + format.bytes(count)
}

fn sparse_len(indexes: &[u32], format: ValueFormat) -> usize {
    let plan = Plan::of(indexes);
    match plan.dense_span(indexes, format) {
        Some(span) => dense_len(indexes[0], span, format),
        None => plan.bytes() + format.bytes(indexes.len()),
    }
}

/// A fit is accepted within one part in this many.
const FIT_PRECISION: usize = 50;
const FIT_PROBES: usize = 12;

#[cfg(test)]
mod tests;
