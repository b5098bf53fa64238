//! A digest of values, by which copies and initial models are compared.

/// A digest that depends on all values and their order.
pub(crate) fn digest(values: &[f32]) -> u64 {
    values.iter().fold(0, |digest: u64, value| {
        (digest.rotate_left(5) ^ u64::from(value.to_bits())).wrapping_mul(DIGEST_FACTOR)
    })
}

/// Odd, so that multiplication loses no information.
const DIGEST_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_values_that_differ_in_one_place_have_another_digest() {
        let values = [1.0, -2.0, 0.0, 4.0];
        let changed = [[1.0, -2.0, 0.0, 4.5], [-2.0, 1.0, 0.0, 4.0], [1.0, -2.0, -0.0, 4.0]];
        for other in changed {
            assert_ne!(digest(&values), digest(&other));
        }
    }
}
