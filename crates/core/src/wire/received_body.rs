//! The body of a LAN message as it was received.

use std::ops::Deref;

use crate::types::SharedValues;
use crate::types::packed::numbers_of;

/// The bytes of a message, in the memory of numbers: values that begin at a multiple of four bytes stay where they are.
#[derive(Clone, Debug, Default)]
pub struct ReceivedBody {
    numbers: SharedValues,
    bytes: usize,
}

impl ReceivedBody {
    /// The first bytes of these numbers.
    pub(super) fn new(numbers: Vec<f32>, bytes: usize) -> Self {
        assert!(bytes <= size_of_val(&numbers[..]), "the numbers have the bytes");
        Self { numbers: numbers.into(), bytes }
    }

    /// The memory of the body. Others may use it once nobody holds it any more.
    pub fn memory(&self) -> &SharedValues {
        &self.numbers
    }

    /// The `count` values that begin at byte `at`, four little-endian bytes each. They hold the memory of the body, unless they
    /// are few.
    ///
    /// # Panics
    /// If the body ends before.
    pub(crate) fn values(&self, at: usize, count: usize) -> SharedValues {
        let bytes = &self[at..at + size_of::<f32>() * count];
        let can_stay = cfg!(target_endian = "little") && at.is_multiple_of(size_of::<f32>());
        if can_stay && count >= FEW_VALUES {
            let first = at / size_of::<f32>();
            return self.numbers.part(first..first + count);
        }
        numbers_of(bytes.as_chunks().0).collect::<Vec<f32>>().into()
    }
}

impl Deref for ReceivedBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice::<f32, u8>(&self.numbers)[..self.bytes]
    }
}

impl From<Vec<u8>> for ReceivedBody {
    fn from(bytes: Vec<u8>) -> Self {
        let mut numbers = vec![0.0; bytes.len().div_ceil(size_of::<f32>())];
        bytemuck::cast_slice_mut::<f32, u8>(&mut numbers)[..bytes.len()].copy_from_slice(&bytes);
        Self::new(numbers, bytes.len())
    }
}

/// So few values are copied: who keeps them does not keep the memory of a message that may be large.
const FEW_VALUES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::packed::bytes_of;

    #[test]
    fn many_values_that_numbers_can_begin_at_stay_where_they_are() {
        let expect: Vec<f32> = (0..300).map(|value| value as f32).collect();
        for (at, count) in [(4, 300), (4, 256), (4, 255), (5, 300), (4, 0)] {
            let bytes = [&vec![7; at][..], &bytes_of(&expect), &[8]].concat();
            let body = ReceivedBody::from(bytes.clone());
            assert_eq!(body[..], bytes);

            let values = body.values(at, count);
            assert_eq!(values[..], expect[..count]);
            let stays = values.as_ptr().cast() == body[at..].as_ptr();
            assert_eq!(stays, at == 4 && count >= FEW_VALUES, "{count} at {at}");
            assert_eq!(values.is_shared(), stays);
        }
    }
}
