//! Numbers that several holders share until one of them writes.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::packed;

/// A vector of `f32` that is copied when a holder writes to it and others hold it too (copy on write).
///
/// The messages of a worker and a server in one process carry such vectors, and each end keeps what it may have to send
/// again. So a clone is a count, and values are copied by whoever changes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedValues(Arc<Vec<f32>>);

impl SharedValues {
    /// Whether somebody else holds the vector, too.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Takes the vector out, if nobody else holds it. It keeps its capacity, so that its memory can be used again.
    pub fn reclaim(&mut self) -> Option<Vec<f32>> {
        self.reclaim_if(|_| true)
    }

    /// As [`Self::reclaim`], of a vector whose capacity fits.
    pub(super) fn reclaim_if(&mut self, fits: impl Fn(usize) -> bool) -> Option<Vec<f32>> {
        let values = Arc::get_mut(&mut self.0)?;
        fits(values.capacity()).then(|| std::mem::take(values))
    }
}

impl From<Vec<f32>> for SharedValues {
    fn from(values: Vec<f32>) -> Self {
        Self(Arc::new(values))
    }
}

impl From<SharedValues> for Vec<f32> {
    fn from(values: SharedValues) -> Self {
        Arc::unwrap_or_clone(values.0)
    }
}

impl Deref for SharedValues {
    type Target = [f32];

    #[inline]
    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl DerefMut for SharedValues {
    #[inline]
    fn deref_mut(&mut self) -> &mut [f32] {
        Arc::make_mut(&mut self.0).as_mut_slice()
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
        *self.0 == *other
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
    fn memory_is_reclaimed_by_its_last_holder() {
        let mut held = SharedValues::from(vec![1.0]);
        let other = held.clone();
        assert_eq!((held.is_shared(), held.reclaim()), (true, None));
        drop(other);
        assert!(!held.is_shared());
        assert_eq!(held.reclaim(), Some(vec![1.0]));
    }
}
