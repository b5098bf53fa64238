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
        for parameter in range {
            self.insert(parameter);
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

    /// The number of parameters of the set in a range.
    pub fn count_range(&self, range: Range<usize>) -> usize {
        let (first, last) = (range.start.div_ceil(64), range.end / 64);
        if first >= last {
            return self.iter_range(range).count();
        }
        let whole: u32 = self.words[first..last].iter().map(|word| word.count_ones()).sum();
        self.iter_range(range.start..first * 64).count()
            + whole as usize
            + self.iter_range(last * 64..range.end).count()
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
            assert_eq!(touched.iter_range(range).collect::<Vec<_>>(), expected);
            assert_eq!(touched.len(), model.len());
        }
    }
}
