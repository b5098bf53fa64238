//! A set of parameters of one shard, as a bitmap.

use std::ops::Range;

use crate::persist;

/// A set of parameters of a shard, with one bit for each. Methods may panic for a parameter beyond the shard.
#[derive(Clone, Debug)]
pub struct Touched {
    words: Vec<u64>,
    count: usize,
}

impl Touched {
    /// The empty set over `parameters` parameters.
    pub fn none(parameters: usize) -> Self {
        Self { words: vec![0; parameters.div_ceil(64)], count: 0 }
    }

    /// Adds a parameter. Returns whether it was absent.
    pub fn insert(&mut self, parameter: usize) -> bool {
        let bit = 1 << (parameter % 64);
        let word = &mut self.words[parameter / 64];
        let new = *word & bit == 0;
        *word |= bit;
        self.count += usize::from(new);
        new
    }

    /// Adds all parameters of a range.
    pub fn insert_range(&mut self, range: Range<usize>) {
        for (at, mask) in masks(range) {
            let word = &mut self.words[at];
            self.count += (mask & !*word).count_ones() as usize;
            *word |= mask;
        }
    }

    /// Adds the parameters from `start` on of which `values` holds another value than 0.
    pub fn insert_nonzero(&mut self, start: usize, values: &[f32]) {
        let mut rest = values;
        for (at, mask) in masks(start..start + values.len()) {
            let (values, after) = rest.split_at(mask.count_ones() as usize);
            let has_zero = values.iter().fold(false, |any, value| any | (*value == 0.0));
            let bits = match has_zero {
                // Bit by bit takes longer, and dense changes rarely have zeros.
                true => {
                    let bits = values.iter().rev();
                    let bits = bits.fold(0, |bits, value| bits << 1 | u64::from(*value != 0.0));
                    bits << mask.trailing_zeros()
                }
                false => mask,
            };
            let word = &mut self.words[at];
            self.count += (bits & !*word).count_ones() as usize;
            *word |= bits;
            rest = after;
        }
    }

    /// Removes a parameter. Returns whether it was present.
    pub fn remove(&mut self, parameter: usize) -> bool {
        let bit = 1 << (parameter % 64);
        let word = &mut self.words[parameter / 64];
        let present = *word & bit != 0;
        *word &= !bit;
        self.count -= usize::from(present);
        present
    }

    /// Adds all parameters of another set over the same shard.
    pub fn union(&mut self, other: &Self) {
        self.count = 0;
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
            self.count += word.count_ones() as usize;
        }
    }

    /// Removes all parameters.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }

    /// Whether a parameter is in the set.
    pub fn contains(&self, parameter: usize) -> bool {
        self.words[parameter / 64] & (1 << (parameter % 64)) != 0
    }

    /// The number of parameters in the set.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the set has no parameter.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The parameters of the set in a range, ascending.
    pub fn iter_range(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let first = range.start / 64;
        let last = range.end.div_ceil(64).max(first);
        (first..last)
            .flat_map(move |word| Bits(self.words[word]).map(move |bit| word * 64 + bit))
            .filter(move |parameter| range.contains(parameter))
    }

    /// The longest ranges of parameters that are all in the set, within a range, ascending.
    pub fn runs(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut next = range.start;
        std::iter::from_fn(move || {
            let start = self.seek(next, range.end, true);
            if start >= range.end {
                return None;
            }
            next = self.seek(start, range.end, false);
            Some(start..next)
        })
    }

    /// The first parameter from `at` on that is in the set, or is not, as `present` says. `end` if there is none before.
    fn seek(&self, at: usize, end: usize, present: bool) -> usize {
        let mut at = at;
        while at < end {
            let word = self.words[at / 64];
            let wanted = (if present { word } else { !word }) >> (at % 64);
            if wanted != 0 {
                return (at + wanted.trailing_zeros() as usize).min(end);
            }
            at = (at / 64 + 1) * 64;
        }
        end
    }

    /// The number of parameters of the set in a range.
    pub fn count_range(&self, range: Range<usize>) -> usize {
        masks(range).map(|(at, mask)| (self.words[at] & mask).count_ones() as usize).sum()
    }
}

persist! {
    /// Under a name, of so many parameters.
    impl Persist<(&str, usize)> for Touched {
        fn walk(Self { words, count: _ }, walk, (name, parameters)) {
            walk.record_that(name, words, |found, made| {
                let past = parameters % 64;
                let beyond = |last: &u64| past > 0 && last >> past != 0;
                found.len() == made.len() && !found.last().is_some_and(beyond)
            })
        }

        fn restored(touched, _, _) {
            touched.count = touched.words.iter().map(|word| word.count_ones() as usize).sum();
            Ok(())
        }
    }
}

/// The words that a range of parameters lies in, and the bits of the range in each.
fn masks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let words = if range.is_empty() { 0..0 } else { range.start / 64..(range.end - 1) / 64 + 1 };
    words.map(move |at| {
        let from = range.start.saturating_sub(at * 64);
        let past = (at * 64 + 64).saturating_sub(range.end);
        (at, (u64::MAX << from) & (u64::MAX >> past))
    })
}

/// The positions of the set bits of a word, ascending.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(inserted in prop::collection::vec(0_usize..300, 0..200), range in (0_usize..300, 0_usize..300)) {
            let mut touched = Touched::none(300);
            let mut model = BTreeSet::new();
            for parameter in inserted {
                assert_eq!(touched.insert(parameter), model.insert(parameter));
            }
            let range = range.0.min(range.1)..range.0.max(range.1);
            let expected: Vec<usize> = model.range(range.clone()).copied().collect();
            assert_eq!(touched.count_range(range.clone()), expected.len());
            assert_eq!(touched.iter_range(range.clone()).collect::<Vec<_>>(), expected);
            assert_eq!(touched.len(), model.len());

            let runs: Vec<Range<usize>> = touched.runs(range.clone()).collect();
            assert_eq!(runs.iter().cloned().flatten().collect::<Vec<_>>(), expected);
            assert!(runs.is_sorted_by(|one, next| one.end < next.start));

            let values: Vec<f32> = range.clone().map(|at| (at % 3) as f32).collect();
            touched.insert_nonzero(range.start, &values);
            model.extend(range.clone().filter(|at| at % 3 != 0));
            assert_eq!(touched.iter_range(0..300).collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            assert_eq!(touched.len(), model.len());

            touched.insert_range(range.clone());
            model.extend(range);
            assert_eq!(touched.iter_range(0..300).collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
