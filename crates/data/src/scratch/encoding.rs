//! How examples are written to a scratch file: their arrays one after the other, as they are in memory.
//!
//! Only the process that has written a file reads it, so the order of bytes is the machine's own.

use bytemuck::Pod;

use gaia_ml::divided::Examples;
use gaia_ml::examples::{DenseExamples, Documents, Features, Ratings, SparseExamples};

/// Examples that can be in a scratch file.
pub(crate) trait Encoded: Examples + Clone + 'static {
    /// Adds all examples to `bytes`.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Adds the examples in `bytes` to examples of their shape. `None` where they are not what [`Self::encode`] has written.
    fn decode(&mut self, bytes: &[u8]) -> Option<()>;

    /// Makes room for more examples that take so many bytes in a file, so that their memory is no larger than they are.
    fn reserve(&mut self, examples: usize, bytes: usize);

    /// The bytes that they take, in memory or in a file.
    fn bytes(&self) -> usize;

    /// No examples of the same shape.
    #[must_use]
    fn none(&self) -> Self {
        self.select(&[])
    }
}

impl Encoded for Ratings {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, &self.user);
        put(bytes, &self.item);
        put(bytes, &self.value);
    }

    fn decode(&mut self, mut bytes: &[u8]) -> Option<()> {
        take(&mut bytes, &mut self.user)?;
        take(&mut bytes, &mut self.item)?;
        take(&mut bytes, &mut self.value)
    }

    fn reserve(&mut self, examples: usize, _bytes: usize) {
        self.user.reserve_exact(examples);
        self.item.reserve_exact(examples);
        self.value.reserve_exact(examples);
    }

    fn bytes(&self) -> usize {
        12 * self.value.len()
    }
}

impl Encoded for DenseExamples {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, &self.labels);
        match &self.features {
            Features::Bytes(values) => {
                bytes.push(0);
                put(bytes, values);
            }
            Features::Floats(values) => {
                bytes.push(1);
                put(bytes, values);
            }
        }
    }

    fn decode(&mut self, mut bytes: &[u8]) -> Option<()> {
        take(&mut bytes, &mut self.labels)?;
        let (kind, mut bytes) = bytes.split_first()?;
        match (kind, &mut self.features) {
            (0, Features::Bytes(values)) => take(&mut bytes, values),
            (1, Features::Floats(values)) => take(&mut bytes, values),
            _ => None,
        }
    }

    fn reserve(&mut self, examples: usize, _bytes: usize) {
        let values = examples * self.width();
        self.labels.reserve_exact(examples);
        match &mut self.features {
            Features::Bytes(all) => all.reserve_exact(values),
            Features::Floats(all) => all.reserve_exact(values),
        }
    }

    fn bytes(&self) -> usize {
        let features = match &self.features {
            Features::Bytes(values) => values.len(),
            Features::Floats(values) => 4 * values.len(),
        };
        features + 4 * self.labels.len()
    }
}

impl Encoded for SparseExamples {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, &lengths(&self.offsets));
        put(bytes, &self.columns);
        put(bytes, &self.values);
        put(bytes, &self.labels);
    }

    fn decode(&mut self, mut bytes: &[u8]) -> Option<()> {
        let mut lengths: Vec<u32> = Vec::new();
        take(&mut bytes, &mut lengths)?;
        add_lengths(&mut self.offsets, &lengths);
        take(&mut bytes, &mut self.columns)?;
        take(&mut bytes, &mut self.values)?;
        take(&mut bytes, &mut self.labels)
    }

    fn reserve(&mut self, examples: usize, bytes: usize) {
        let entries = bytes.saturating_sub(8 * examples) / 8;
        self.offsets.reserve_exact(examples);
        self.labels.reserve_exact(examples);
        self.columns.reserve_exact(entries);
        self.values.reserve_exact(entries);
    }

    fn bytes(&self) -> usize {
        8 * self.columns.len() + 12 * self.labels.len()
    }
}

impl Encoded for Documents {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, &lengths(&self.offsets));
        put(bytes, &self.words);
        put(bytes, &self.counts);
    }

    fn decode(&mut self, mut bytes: &[u8]) -> Option<()> {
        let mut lengths: Vec<u32> = Vec::new();
        take(&mut bytes, &mut lengths)?;
        add_lengths(&mut self.offsets, &lengths);
        take(&mut bytes, &mut self.words)?;
        take(&mut bytes, &mut self.counts)
    }

    fn reserve(&mut self, examples: usize, bytes: usize) {
        let words = bytes.saturating_sub(4 * examples) / 8;
        self.offsets.reserve_exact(examples);
        self.words.reserve_exact(words);
        self.counts.reserve_exact(words);
    }

    fn bytes(&self) -> usize {
        8 * (self.words.len() + self.offsets.len())
    }
}

/// Adds an array: how many values, and the values.
fn put<T: Pod>(bytes: &mut Vec<u8>, values: &[T]) {
    bytes.extend_from_slice(&(values.len() as u64).to_ne_bytes());
    bytes.extend_from_slice(bytemuck::cast_slice(values));
}

/// Takes an array from the start of the bytes, and adds its values to others.
fn take<T: Pod>(bytes: &mut &[u8], values: &mut Vec<T>) -> Option<()> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_ne_bytes(*length)).ok()?;
    let (array, rest) = rest.split_at_checked(length.checked_mul(size_of::<T>())?)?;
    let start = values.len();
    values.resize(start + length, T::zeroed());
    bytemuck::cast_slice_mut::<T, u8>(&mut values[start..]).copy_from_slice(array);
    *bytes = rest;
    Some(())
}

/// The lengths of examples that begin at some offsets.
fn lengths(offsets: &[usize]) -> Vec<u32> {
    offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect()
}

/// Adds the offsets of examples of some lengths.
fn add_lengths(offsets: &mut Vec<usize>, lengths: &[u32]) {
    let mut end = offsets.last().copied().unwrap_or(0);
    offsets.extend(lengths.iter().map(|length| {
        end += *length as usize;
        end
    }));
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use gaia_ml::examples::Shape;

    fn check<E: Encoded + PartialEq + Debug>(examples: &E) {
        let mut bytes = Vec::new();
        examples.encode(&mut bytes);
        let mut twice = examples.none();
        twice.decode(&bytes).unwrap();
        assert_eq!(&twice, examples);
        twice.decode(&bytes).unwrap();
        let all: Vec<u32> = (0..examples.len() as u32).collect();
        assert_eq!(twice, examples.select(&[all.clone(), all].concat()));
        for cut in 0..bytes.len() {
            assert!(examples.none().decode(&bytes[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn examples_come_back_as_they_were_and_cut_ones_do_not() {
        let (user, item, value) = (vec![0, 2], vec![1, 0], vec![0.5, -3.0]);
        check(&Ratings { users: 3, items: 2, user, item, value });

        for features in
            [Features::Bytes(vec![0, 255, 3, 4]), Features::Floats(vec![0.5, f32::MAX, -0.0, 1.0])]
        {
            let (shape, classes, class_names) = (Shape::row(2), 7, None);
            check(&DenseExamples { shape, classes, class_names, features, labels: vec![6, 0] });
        }

        let mut sparse = SparseExamples::empty(9);
        sparse.push(&[0, 8], &[0.5, 2.0], -1.0);
        sparse.push(&[], &[], 1.0);
        check(&sparse);

        let mut documents = Documents::empty(4);
        documents.push(&[1, 3], &[2, 1]);
        documents.push(&[0], &[7]);
        check(&documents);
    }
}
