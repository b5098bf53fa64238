//! The initial values of a sparse table: a rule that gives each row by itself.

use std::fmt;

use rand_core::Rng;
use serde::{Deserialize, Serialize};

use super::Seed;

/// The rule of a sparse table's initial values. Whoever holds a row makes it from the rule and the row's number, so that no
/// process needs the whole table for it.
///
/// A value is `mean + std · n`, where `n` is the sum of twelve uniform numbers less 6: nearly normal, with a variance of 1 and
/// no value beyond 6. Unlike logarithms and cosines, sums are equal to the bit on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitialRows {
    seed: u64,
    mean: f32,
    std: f32,
}

/// No field is NaN.
impl Eq for InitialRows {}

impl InitialRows {
    /// The rule with this seed, mean and standard deviation. `None` unless both are finite, and the latter is at least 0.
    pub fn new(seed: u64, mean: f32, std: f32) -> Option<Self> {
        let rule = Self { seed, mean, std };
        rule.is_valid().then_some(rule)
    }

    /// Whether the numbers are those of a rule. A file may have others.
    pub fn is_valid(&self) -> bool {
        self.mean.is_finite() && self.std.is_finite() && self.std >= 0.0
    }

    /// Writes the values of a row.
    pub fn write(&self, row: usize, values: &mut [f32]) {
        let mut random = Seed(self.seed).nth(row).random();
        for value in values {
            let mut sum = 0.0;
            for _ in 0..DRAWS {
                let drawn = random.next_u64();
                sum += f64::from(drawn as u32) + f64::from((drawn >> 32) as u32);
            }
            // Whole numbers below 2³² have a mean of half a step less.
            let normal = (sum + DRAWS as f64) / TWO_TO_32 - DRAWS as f64;
            *value = self.mean + self.std * normal as f32;
        }
    }
}

impl fmt::Display for InitialRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, mean, std } = self;
        write!(f, "seed {seed}, mean {mean}, deviation {std}")
    }
}

/// Draws of two uniform numbers each.
const DRAWS: usize = 6;

const TWO_TO_32: f64 = 4_294_967_296.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rule: InitialRows, rows: std::ops::Range<usize>, width: usize) -> Vec<f32> {
        let mut values = vec![0.0; rows.len() * width];
        for (row, values) in rows.zip(values.chunks_exact_mut(width)) {
            rule.write(row, values);
        }
        values
    }

    #[test]
    fn a_row_does_not_depend_on_the_rows_before_it() {
        let rule = InitialRows::new(7, 0.0, 1.0).unwrap();
        assert_eq!(rows(rule, 0..9, 3)[12..], rows(rule, 4..9, 3));
        assert_ne!(rows(rule, 4..5, 3), rows(rule, 5..6, 3));
        let other = InitialRows::new(8, 0.0, 1.0).unwrap();
        assert_ne!(rows(rule, 4..5, 3), rows(other, 4..5, 3));
    }

    #[test]
    fn values_are_the_same_on_every_machine() {
        let bits = rows(InitialRows::new(1, 0.5, 2.0).unwrap(), 3..4, 2);
        let bits: Vec<u32> = bits.iter().map(|value| value.to_bits()).collect();
        assert_eq!(bits, [1_056_552_915, 1_071_795_887]);
    }

    #[test]
    fn values_have_the_mean_and_the_deviation_of_the_rule() {
        let values = rows(InitialRows::new(3, 0.2, 0.1).unwrap(), 0..5_000, 20);
        let count = values.len() as f64;
        let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
        let squares = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>();
        assert!((mean - 0.2).abs() < 0.002, "{mean}");
        assert!(((squares / count).sqrt() - 0.1).abs() < 0.001);
        let constant = InitialRows::new(3, 0.5, 0.0).unwrap();
        assert!(rows(constant, 0..4, 2).iter().all(|value| *value == 0.5));
    }

    #[test]
    fn numbers_that_make_no_values_are_no_rule() {
        for (mean, std) in [(f32::NAN, 1.0), (0.0, f32::INFINITY), (0.0, -1.0)] {
            assert_eq!(InitialRows::new(0, mean, std), None);
        }
    }
}
