//! The source of all randomness in a run.

use rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

/// The random number generator of the project. Equal seeds give equal numbers on every machine.
pub type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// The seed of a run, or of a named part of it.
///
/// Each part draws from a child of its own. So a part that draws more or fewer numbers does not change what others
/// draw.
///
/// ```
/// use gaia_core::types::Seed;
/// let run = Seed(42);
/// assert_eq!(run.child("data"), Seed(42).child("data"));
/// assert_ne!(run.child("data"), run.child("jitter"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of a named part. Different names give independent seeds.
    #[must_use]
    pub fn child(self, name: &str) -> Self {
        let mut hash = FNV_OFFSET ^ self.0;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        Self(mix(hash ^ self.0.rotate_left(32)))
    }

    /// The seed of the `index`-th of several parts of one kind, such as workers.
    #[must_use]
    pub fn nth(self, index: usize) -> Self {
        Self(mix(self.0 ^ mix(index as u64 ^ GOLDEN)))
    }

    /// A generator that starts from this seed. Two generators of one seed draw the same numbers.
    pub fn random(self) -> Random {
        Random::seed_from_u64(self.0)
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(GOLDEN);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;

    #[test]
    fn draws_are_the_same_on_every_machine() {
        let mut random = Seed(42).child("golden").random();
        let draws: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        let mut again = Seed(42).child("golden").random();
        assert_eq!(draws, (0..3).map(|_| again.next_u64()).collect::<Vec<_>>());
        assert_ne!(Seed(1).nth(0), Seed(1).nth(1));
    }
}
