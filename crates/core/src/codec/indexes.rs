//! The choice of the index form: the smallest one, by its exact size.

use super::reader::{Reader, varint_len, write_varint};
use super::{DecodeError, Section, ValueFormat, dense_len, gaps, rice, runs, words};
use crate::simd::{self, Level, Work};

/// The form of a set of indexes, and the size of its section, including form and count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    form: Form,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Gaps,
    Rice,
    Runs,
    Words { log2: u8 },
}

impl Plan {
    /// The smallest form of strictly ascending indexes.
    pub(super) fn of(indexes: &[u32]) -> Self {
        Self::at(Level::best(), indexes)
    }

    pub(super) fn at(level: Level, indexes: &[u32]) -> Self {
        debug_assert!(indexes.windows(2).all(|pair| pair[0] < pair[1]), "indexes ascend");
        simd::run(level, Smallest(indexes))
    }

    /// Whether a value for each parameter from the first to the last index can be smaller than all index forms. Costs no
    /// pass over the indexes.
    pub(super) fn may_span(indexes: &[u32], format: ValueFormat) -> bool {
        let (Some(first), Some(last)) = (indexes.first(), indexes.last()) else { return false };
        let (count, span) = (indexes.len(), (last - first) as usize + 1);
        let sparse_max = 1 + varint_len(count as u32) + rice::len_max(count, span);
        format.bytes(span) < sparse_max + format.bytes(count)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The span from the first to the last index, if a value for each parameter of it is smaller than all index forms.
    pub(super) fn smallest_span(&self, indexes: &[u32], format: ValueFormat) -> Option<usize> {
        let (first, last) = (*indexes.first()?, *indexes.last()?);
        let span = (last - first) as usize + 1;
        let sparse = self.bytes + format.bytes(indexes.len());
        (dense_len(first, span, format) < sparse).then_some(span)
    }

    /// The span that is encoded without indexes, if any.
    ///
    /// Zeros between values that share scales would move the values to other blocks and change their rounding. So only
    /// the sender can insert zeros there.
    pub(super) fn dense_span(&self, indexes: &[u32], format: ValueFormat) -> Option<usize> {
        let span = self.smallest_span(indexes, format)?;
        (span == indexes.len() || !format.shares_scales()).then_some(span)
    }

    pub(super) fn write(&self, indexes: &[u32], out: &mut Vec<u8>) {
        let before = out.len();
        out.push(match self.form {
            Form::Gaps => GAPS,
            Form::Rice => RICE,
            Form::Runs => RUNS,
            Form::Words { .. } => WORDS,
        });
        write_varint(indexes.len() as u32, out);
        match self.form {
            Form::Gaps => gaps::write(indexes, out),
            Form::Rice => rice::write(indexes, out),
            Form::Runs => runs::write(indexes, out),
            Form::Words { log2 } => words::write(indexes, log2, out),
        }
        debug_assert_eq!(out.len() - before, self.bytes);
    }
}

/// The choice of the smallest form. All sizes but that of runs are sums over blocks that vector instructions compute.
struct Smallest<'a>(&'a [u32]);

impl Work for Smallest<'_> {
    type Output = Plan;

    #[inline(always)]
    fn run(self) -> Plan {
        let Self(indexes) = self;
        let mut best = best_of((gaps::len(indexes), Form::Gaps), (rice::len(indexes), Form::Rice));
        let runs = runs::count(indexes);
        // If every run has length 1, runs are gaps plus lengths and never smaller.
        if runs < indexes.len() {
            best = best_of(best, (runs::len(indexes, runs), Form::Runs));
        }
        if let Some((log2, bytes)) = words::best(indexes, best.0) {
            best = (bytes, Form::Words { log2 });
        }
        Plan { form: best.1, bytes: 1 + varint_len(indexes.len() as u32) + best.0 }
    }
}

/// Appends strictly ascending indexes without values, in their smallest form.
pub fn encode_indexes(indexes: &[u32], out: &mut Vec<u8>) {
    Plan::of(indexes).write(indexes, out);
}

/// Decodes what [`encode_indexes`] wrote for a shard of `parameters`. The indexes replace the contents of `out`.
///
/// # Errors
/// If the bytes are no valid encoding, or an index is beyond the shard.
pub fn decode_indexes(
    bytes: &[u8],
    parameters: usize,
    out: &mut Vec<u32>,
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes, Section::Indexes);
    let form = reader.byte()?;
    let count = read_count(&mut reader, parameters)?;
    read_form(form, &mut reader, count, parameters, out)?;
    reader.finish()
}

/// Reads a number of changes, at most `parameters`.
pub(super) fn read_count(reader: &mut Reader<'_>, parameters: usize) -> Result<usize, DecodeError> {
    let count = reader.varint()?;
    if count as usize > parameters {
        return Err(DecodeError::TooMany { count, parameters });
    }
    Ok(count as usize)
}

pub(super) fn read_form(
    form: u8,
    reader: &mut Reader<'_>,
    count: usize,
    parameters: usize,
    out: &mut Vec<u32>,
) -> Result<(), DecodeError> {
    out.clear();
    match form {
        GAPS => gaps::read(reader, count, parameters, out),
        RUNS => runs::read(reader, count, parameters, out),
        WORDS => words::read(reader, count, parameters, out),
        RICE => rice::read(reader, count, parameters, out),
        form => Err(DecodeError::UnknownForm { form }),
    }
}

fn best_of(a: (usize, Form), b: (usize, Form)) -> (usize, Form) {
    if b.0 < a.0 { b } else { a }
}

/// The first byte of an index section.
pub(super) const DENSE: u8 = 0;
const GAPS: u8 = 1;
const RUNS: u8 = 2;
const WORDS: u8 = 3;
const RICE: u8 = 4;
