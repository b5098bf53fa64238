//! Memory of received messages, for those that follow.

use std::sync::{Arc, Mutex, MutexGuard};

use gaia_core::types::packed::numbers_of;
use gaia_core::types::{ReusedValues, SharedValues};

/// The memory of messages of several connections. A message of a whole model has as many bytes, and fresh memory is given by
/// the system page by page.
#[derive(Clone, Debug, Default)]
pub(in crate::real) struct MessageMemory(Arc<Mutex<Spare>>);

#[derive(Debug, Default)]
struct Spare {
    bodies: Vec<Vec<u8>>,
    values: ReusedValues,
}

impl MessageMemory {
    /// Memory for the body of a message.
    pub(super) fn body(&self) -> Vec<u8> {
        self.spare().bodies.pop().unwrap_or_default()
    }

    /// Decodes the body of a message, whose values are to be made of their numbers by the function that `decode` is given.
    pub(in crate::real) fn decode<T>(
        &self,
        body: Vec<u8>,
        decode: impl FnOnce(&[u8], &mut dyn FnMut(&[[u8; 4]]) -> SharedValues) -> T,
    ) -> T {
        let decoded = decode(&body, &mut |numbers| self.values(numbers));
        self.recycle(body);
        decoded
    }

    fn recycle(&self, body: Vec<u8>) {
        let mut spare = self.spare();
        if spare.bodies.len() < BODIES_MAX {
            spare.bodies.push(body);
        } else if let Some(least) = spare.bodies.iter_mut().min_by_key(|body| body.capacity())
            && least.capacity() < body.capacity()
        {
            *least = body;
        }
    }

    fn values(&self, numbers: &[[u8; 4]]) -> SharedValues {
        let mut values = self.spare().values.take(numbers.len());
        values.extend(numbers_of(numbers));
        self.spare().values.give(values)
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.0.lock().expect("memory is never left half changed")
    }
}

/// Messages of so many connections are put together at a time without fresh memory.
const BODIES_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_bodies_are_kept() {
        let memory = MessageMemory::default();
        for bytes in [10, 3, 20] {
            memory.recycle(Vec::with_capacity(bytes));
        }
        let mut found = [memory.body(), memory.body(), memory.body()].map(|body| body.capacity());
        found.sort_unstable();
        assert_eq!(found, [0, 10, 20]);
    }

    #[test]
    fn values_are_in_memory_that_nobody_holds_any_more() {
        let memory = MessageMemory::default();
        let numbers = [1.5_f32, -2.0].map(f32::to_le_bytes);
        let first = memory.values(&numbers);
        let second = memory.values(&numbers);
        assert_eq!((&first[..], &second[..]), (&[1.5, -2.0][..], &[1.5, -2.0][..]));
        let address = first.as_ptr();
        drop(first);
        assert_eq!(memory.values(&numbers).as_ptr(), address);
    }
}
