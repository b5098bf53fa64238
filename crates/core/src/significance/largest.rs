//! The largest of a vector, by magnitude: what a sparse round sends.
//!
//! Magnitudes are ordered like their bits. Three counting passes over digits of 11, 10 and 10 bits find the bits of the
//! smallest magnitude that is taken, exactly, without a sort and without memory that grows with the vector. It is the
//! threshold search of MSTopK (Shi et al., MLSys 2021) with digits instead of a bisection.

/// Which values are the largest of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest {
    /// The bits of the smallest magnitude that is taken.
    least: u32,
    /// How many values of exactly this magnitude are taken, the first ones.
    ties: usize,
}

impl Largest {
    /// The `count` largest values of all `parts` that are not 0, or all of these if they are fewer.
    pub fn of<'v>(parts: impl Iterator<Item = &'v [f32]> + Clone, count: usize) -> Self {
        let (mut known, mut digits_known) = (0, 0);
        let mut left = count;

        for (shift, width) in [(20, 11), (10, 10), (0, 10)] {
            let digit = |bits: u32| (bits >> shift) as usize & ((1 << width) - 1);
            let mut histogram = [0_usize; 1 << 11];
            for part in parts.clone() {
                let alike = part.iter().map(magnitude).filter(|bits| bits & digits_known == known);
                alike.filter(|bits| *bits != 0).for_each(|bits| histogram[digit(bits)] += 1);
            }

            let mut at = (1 << width) - 1;
            while at > 0 && histogram[at] < left {
                left -= histogram[at];
                at -= 1;
            }
            known |= (at as u32) << shift;
            digits_known |= ((1 << width) - 1) << shift;
        }

        Self { least: known.max(1), ties: if known == 0 { usize::MAX } else { left } }
    }

    /// Whether the next value is taken. All values must be passed in their order, each once.
    pub fn takes(&mut self, value: f32) -> bool {
        let bits = magnitude(&value);
        let tie = bits == self.least;
        let taken = bits > self.least || (tie && self.ties > 0);
        self.ties -= usize::from(tie && taken);
        taken
    }
}

fn magnitude(value: &f32) -> u32 {
    value.to_bits() & !SIGN
}

/// The bit of the sign.
const SIGN: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(values: &[f32], count: usize) -> Vec<usize> {
        let mut largest = Largest::of(values.chunks(7), count);
        let places = values.iter().enumerate();
        places.filter(|(_, value)| largest.takes(**value)).map(|(place, _)| place).collect()
    }

    #[test]
    fn zeros_are_never_taken_and_of_equal_values_the_first_are() {
        assert_eq!(taken(&[0.0, -2.0, 2.0, -0.0, 2.0, 1.0], 2), [1, 2]);
        assert_eq!(taken(&[0.0, -2.0, 2.0, -0.0, 2.0, 1.0], 9), [1, 2, 4, 5]);
        assert_eq!(taken(&[0.0, -0.0], 1), []);
        assert_eq!(taken(&[1.0, f32::from_bits(1)], 2), [0, 1]);
        assert_eq!(taken(&[1.0, 2.0], 0), []);
        assert_eq!(taken(&[1.0, f32::NAN, f32::INFINITY], 2), [1, 2]);
    }

    proptest! {
        #[test]
        fn as_many_are_taken_as_asked_and_none_that_is_left_is_larger(
            values in prop::collection::vec(prop_oneof![-1.0_f32..1.0, Just(0.0), Just(0.5), -1e-6_f32..1e30], 0..300),
            count in 0_usize..320,
        ) {
            let taken = taken(&values, count);
            let nonzero = values.iter().filter(|value| **value != 0.0).count();
            prop_assert_eq!(taken.len(), count.min(nonzero));
            let size = |place: &usize| values[*place].abs();
            let least = taken.iter().map(size).fold(f32::INFINITY, f32::min);
            let left = (0..values.len()).filter(|place| !taken.contains(place));
            prop_assert!(left.map(|place| size(&place)).all(|size| size <= least));
        }
    }
}
