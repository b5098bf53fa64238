//! Arrays of parameter changes to bytes and back.
//!
//! This room decides how few bytes a set of changes can take, and what bytes it believes. Parameters are
//! positions in one shard's flat vector; indexes and values lie in sections of their own, because they compress
//! for different reasons: indexes by their gaps, values by giving up precision. It refuses to know who sends the
//! changes, when, and what they mean. The released code of the paper's first author sends an index and a value as they
//! are, eight bytes an update.
//!
//! Sparse changes take the smallest of four index forms, or none at all where filling the holes between them with
//! zeros is smaller still. A zero changes nothing when it is added, so only additive changes may be coded here.

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
pub use values::{ValueFormat, quantise};

use indexes::{DENSE, Plan};
use reader::{Reader, varint_len, write_varint};

/// Additive changes to the parameters of one shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Changes<'a> {
    /// A change to every parameter from `start` on.
    Dense { start: u32, values: &'a [f32] },
    /// One value for each index; indexes strictly ascend.
    Sparse { indexes: &'a [u32], values: &'a [f32] },
}

/// Where decoded changes are put, so that one allocation serves many frames.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    indexes: Vec<u32>,
    values: Vec<f32>,
}

/// What [`encode`] appended: an index section, then a section of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Values, zeros between sparse changes included.
    pub count: u32,
    pub index_bytes: u32,
    pub value_bytes: u32,
}

impl Changes<'_> {
    /// How many parameters change.
    pub fn len(&self) -> usize {
        match self {
            Self::Dense { values, .. } | Self::Sparse { values, .. } => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn values(&self) -> &[f32] {
        match self {
            Self::Dense { values, .. } | Self::Sparse { values, .. } => values,
        }
    }

    /// Visits every change, with its place.
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

    /// Adds every change to its place.
    ///
    /// # Panics
    /// Where a place is not in `values`: decoded changes lie within the shard they were decoded for.
    pub fn add_to(&self, values: &mut [f32]) {
        match *self {
            Self::Dense { start, values: added } => {
                let start = start as usize;
                for (value, added) in values[start..start + added.len()].iter_mut().zip(added) {
                    *value += added;
                }
            }
            Self::Sparse { indexes, values: added } => {
                for (index, added) in indexes.iter().zip(added) {
                    values[*index as usize] += added;
                }
            }
        }
    }
}

impl Encoded {
    pub fn bytes(&self) -> usize {
        self.index_bytes as usize + self.value_bytes as usize
    }
}

/// Appends the changes to `out` in their smallest form.
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

/// How many bytes [`encode`] appends, exactly.
pub fn encoded_len(changes: Changes<'_>, format: ValueFormat) -> usize {
    match changes {
        Changes::Dense { start, values } => dense_len(start, values.len(), format),
        Changes::Sparse { indexes, .. } => sparse_len(indexes, format),
    }
}

/// Whether these strictly ascending indexes are smaller with the holes between them filled.
///
/// [`encode`] then fills them with zeros, but not where values share scales: there the sender must, before it
/// quantises.
pub fn fills_holes(indexes: &[u32], format: ValueFormat) -> bool {
    Plan::of(indexes).smallest_span(indexes, format).is_some_and(|span| span > indexes.len())
}

/// How many leading entries of a sparse change encode to at most `room` bytes.
///
/// The answer always fits; where not all entries do, it comes within about 2 % of the most that would.
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

/// Reads what [`encode`] wrote into `buffers`, for a shard of `parameters`.
///
/// Counts are checked against the bytes present and against the shard before anything is allocated.
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
    let expected = format.bytes(count);

    if value_section.len() != expected {
        return Err(DecodeError::ValueBytes { bytes: value_section.len(), expected });
    }
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

/// A fit is good enough within one part in this many.
const FIT_PRECISION: usize = 50;
const FIT_PROBES: usize = 12;

#[cfg(test)]
mod tests;
