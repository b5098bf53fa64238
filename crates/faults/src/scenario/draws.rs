//! Random numbers in a range.

use rand_core::Rng;

use gaia_core::types::Random;

/// A random integer from `least` to `most`, both included.
pub(crate) fn within(chance: &mut Random, least: u64, most: u64) -> u64 {
    least + chance.next_u64() % (most - least + 1)
}

/// A random number from 0 to below 1.
pub(crate) fn unit(chance: &mut Random) -> f64 {
    (chance.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
