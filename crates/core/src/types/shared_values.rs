//! Numbers that several holders share until one of them writes.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::packed;

/// A vector of `f32`, or a part of one, that is copied when a holder writes to it and others hold it too (copy on write).
///
/// The messages of a worker and a server in one process carry such vectors, and each end keeps what it may have to send
/// again. So a clone is a count, and values are copied by whoever changes them. The values of a message that has arrived are
/// parts of the memory that it was received in.
#[derive(Clone, Default)]
pub struct SharedValues {
    vector: Arc<Vec<f32>>,
    /// Which numbers of the vector these values are.
    range: Range<usize>,
}

impl SharedValues {
    /// A part of the values, which holds the whole vector, too.
    ///
    /// # Panics
    /// If there are not as many values.
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "a part of the values");
        let start = self.range.start;
        Self { vector: self.vector.clone(), range: start + range.start..start + range.end }
    }

    /// Whether somebody else holds the vector, too.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.vector) > 1
    }

    /// Takes the whole vector out, if nobody else holds it. It keeps its capacity, so that its memory can be used again.
    pub fn reclaim(&mut self) -> Option<Vec<f32>> {
        self.reclaim_if(|_| true)
    }

    /// As [`Self::reclaim`], of a vector whose capacity fits.
    pub(super) fn reclaim_if(&mut self, fits: impl Fn(usize) -> bool) -> Option<Vec<f32>> {
        let vector = Arc::get_mut(&mut self.vector)?;
        fits(vector.capacity()).then(|| {
            self.range = 0..0;
            std::mem::take(vector)
        })
    }
}

impl From<Vec<f32>> for SharedValues {
    fn from(values: Vec<f32>) -> Self {
        let range = 0..values.len();
        Self { vector: Arc::new(values), range }
    }
}

impl From<SharedValues> for Vec<f32> {
    fn from(values: SharedValues) -> Self {
        let SharedValues { mut vector, range } = values;
        match Arc::get_mut(&mut vector) {
            Some(whole) if range == (0..whole.len()) => std::mem::take(whole),
            _ => vector[range].to_vec(),
        }
    }
}

impl fmt::Debug for SharedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

impl PartialEq for SharedValues {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Deref for SharedValues {
    type Target = [f32];

    #[inline]
    fn deref(&self) -> &[f32] {
        &self.vector[self.range.clone()]
    }
}

impl DerefMut for SharedValues {
    #[inline]
    fn deref_mut(&mut self) -> &mut [f32] {
        if self.is_shared() {
            *self = self.to_vec().into();
        }
        &mut Arc::make_mut(&mut self.vector)[self.range.clone()]
    }
}

impl<'a> IntoIterator for &'a SharedValues {
    type Item = &'a f32;
    type IntoIter = std::slice::Iter<'a, f32>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut SharedValues {
    type Item = &'a mut f32;
    type IntoIter = std::slice::IterMut<'a, f32>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl PartialEq<Vec<f32>> for SharedValues {
    fn eq(&self, other: &Vec<f32>) -> bool {
        self[..] == other[..]
    }
}

impl Serialize for SharedValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        packed::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for SharedValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        packed::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_does_not_change_what_others_hold() {
        let held = SharedValues::from(vec![1.0, 2.0]);
        let mut written = held.clone();
        assert_eq!(held.as_ptr(), written.as_ptr());

        written[0] = 5.0;
        assert_eq!((&held[..], &written[..]), (&[1.0, 2.0][..], &[5.0, 2.0][..]));
    }

    #[test]
    fn a_part_is_copied_alone_when_it_is_written_to() {
        let whole = SharedValues::from(vec![1.0, 2.0, 3.0, 4.0]);
        let middle = whole.part(1..3);
        let mut last = middle.part(1..2);
        assert_eq!((&middle[..], &last[..]), (&[2.0, 3.0][..], &[3.0][..]));
        assert_eq!(middle, SharedValues::from(vec![2.0, 3.0]));

        last[0] = 5.0;
        assert!(!last.is_shared());
        assert_eq!((&whole[..], Vec::from(last)), (&[1.0, 2.0, 3.0, 4.0][..], vec![5.0]));
        drop(whole);
        let mut middle = middle;
        let address = middle.as_ptr();
        middle[1] = 6.0;
        assert_eq!(middle.as_ptr(), address, "nobody else holds it");
        assert_eq!(Vec::from(middle.clone()), [2.0, 6.0]);
        assert_eq!(middle.reclaim(), Some(vec![1.0, 2.0, 6.0, 4.0]));
        assert!(middle.is_empty());
    }

    #[test]
    fn memory_is_reclaimed_by_its_last_holder() {
        let mut held = SharedValues::from(vec![1.0]);
        let other = held.clone();
        assert_eq!((held.is_shared(), held.reclaim()), (true, None));
        drop(other);
        assert!(!held.is_shared());
        assert_eq!(held.reclaim(), Some(vec![1.0]));
    }
}
