//! The largest of many changes, exactly as many as asked for.

use std::ops::Range;

use crate::simd::{self, Above, Level, Work};

/// The places, ascending, of the `count` largest magnitudes in some `ranges` of `values`, or of all that are not 0 if they are
/// fewer. Of equal ones the first are taken. What is not a number is larger than all numbers.
///
/// A sample tells above which bound a few more lie than are asked for. One pass finds these, and which of them are the largest
/// is then decided among them.
///
/// # Panics
/// If the ranges are not in order, or exceed the values.
pub fn largest(values: &[f32], ranges: &[Range<usize>], count: usize) -> Vec<u32> {
    largest_at(Level::best(), values, ranges, count)
}

fn largest_at(level: Level, values: &[f32], ranges: &[Range<usize>], count: usize) -> Vec<u32> {
    assert!(ranges.is_sorted_by(|one, next| one.end <= next.start), "ranges ascend");
    let search = Search { values, ranges };
    let count = count.min(ranges.iter().map(Range::len).sum());
    let mut found = search.by_sample(level, count);
    if found.places.len() < count && found.least > 1 {
        found = simd::run(level, Find { search, level, least: search.bound(1, count), count });
    }
    found.cut(count)
}

/// What is searched.
#[derive(Clone, Copy)]
struct Search<'a> {
    values: &'a [f32],
    ranges: &'a [Range<usize>],
}

/// The pass that finds all magnitudes whose bits are `least` or more.
struct Find<'a> {
    search: Search<'a>,
    level: Level,
    least: u32,
    /// About how many there are.
    count: usize,
}

/// All magnitudes that are large enough.
struct Found {
    least: u32,
    places: Vec<u32>,
    /// The bits of each.
    sizes: Vec<u32>,
}

impl Search<'_> {
    /// Finds what a sample says are enough.
    fn by_sample(self, level: Level, count: usize) -> Found {
        let sampled = count / SAMPLE_STRIDE;
        let least = match sampled < SAMPLED_LEAST {
            true => self.bound(1, count),
            false => self.bound(SAMPLE_STRIDE, sampled + sampled / 4),
        };
        simd::run(level, Find { search: self, level, least, count })
    }

    /// A bound, of bits, above which `count` magnitudes lie in one of `stride` blocks, and not many more. At least 1.
    fn bound(self, stride: usize, count: usize) -> u32 {
        // Increments of one counter wait for each other, so that each of consecutive ones has its own.
        let mut histogram = vec![[0_u32; LANES]; BUCKETS];
        for block in self.blocks().step_by(stride) {
            for (at, value) in self.values[block].iter().enumerate() {
                histogram[(bits_of(*value) >> BUCKET_SHIFT) as usize][at % LANES] += 1;
            }
        }

        let mut larger = 0;
        let enough = histogram.iter().rposition(|counts| {
            larger += counts.iter().map(|count| *count as usize).sum::<usize>();
            larger >= count
        });
        ((enough.unwrap_or(0) as u32) << BUCKET_SHIFT).max(1)
    }

    fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        let blocks_of = |range: &Range<usize>| {
            let end = range.end;
            range.clone().step_by(BLOCK).map(move |first| first..end.min(first + BLOCK))
        };
        self.ranges.iter().flat_map(blocks_of)
    }
}

impl Work for Find<'_> {
    type Output = Found;

    #[inline(always)]
    fn run(self) -> Found {
        let Self { search, level, least, count } = self;
        let mut above = Above::default();
        above.make_room(BLOCK);
        let mut sizes = [0.0; BLOCK];
        let room = count + count / 2;
        let (places, sizes_found) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let mut found = Found { least, places, sizes: sizes_found };
        for block in search.blocks() {
            let (first, sizes) = (block.start as u32, &mut sizes[..block.len()]);
            for (size, value) in sizes.iter_mut().zip(&search.values[block]) {
                *size = value.abs();
            }
            above.keep(level, sizes, least as i32 - 1, first);
            found.places.extend_from_slice(above.indexes());
            found.sizes.extend(above.ratios().iter().map(|size| size.to_bits()));
        }
        found
    }
}

impl Found {
    /// The places of the `count` largest.
    fn cut(self, count: usize) -> Vec<u32> {
        let Self { mut places, sizes, .. } = self;
        if places.len() <= count {
            return places;
        }
        let Some(last) = count.checked_sub(1) else { return Vec::new() };

        let mut descending = sizes.clone();
        let (larger, least, _) = descending.select_nth_unstable_by(last, |one, next| next.cmp(one));
        let least = *least;
        let mut ties = count - larger.iter().filter(|size| **size > least).count();
        let mut kept = 0;
        for (at, size) in sizes.into_iter().enumerate() {
            let is_tie = size == least && ties > 0;
            ties -= usize::from(is_tie);
            places[kept] = places[at];
            kept += usize::from(size > least || is_tie);
        }
        places.truncate(kept);
        places
    }
}

/// The bits of a magnitude, which are in the order of magnitudes.
fn bits_of(value: f32) -> u32 {
    value.abs().to_bits()
}

/// Magnitudes are counted by exponent and the three bits that follow: eight buckets for each doubling.
const BUCKET_SHIFT: u32 = 20;
const BUCKETS: usize = 1 << (31 - BUCKET_SHIFT);
const LANES: usize = 4;
/// The number of values that are looked at together: they stay in the first-level cache.
const BLOCK: usize = 512;
/// One of this many blocks is sampled.
const SAMPLE_STRIDE: usize = 16;
/// The smallest sample that gives a good estimate.
const SAMPLED_LEAST: usize = 256;

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use proptest::prelude::*;

    use super::*;

    fn taken(values: &[f32], count: usize) -> Vec<u32> {
        largest(values, from_ref(&(0..values.len())), count)
    }

    #[test]
    fn zeros_are_never_taken_and_of_equal_values_the_first_are() {
        assert_eq!(taken(&[0.0, -2.0, 2.0, -0.0, 2.0, 1.0], 2), [1, 2]);
        assert_eq!(taken(&[0.0, -2.0, 2.0, -0.0, 2.0, 1.0], 9), [1, 2, 4, 5]);
        assert_eq!(taken(&[0.0, -0.0], 1), []);
        assert_eq!(taken(&[1.0, f32::from_bits(1)], 2), [0, 1]);
        assert_eq!(taken(&[1.0, 2.0], 0), []);
        assert_eq!(taken(&[1.0, -f32::NAN, f32::INFINITY], 2), [1, 2]);
        assert_eq!(taken(&[], 3), []);
    }

    /// As many as asked for, by sorting.
    fn expected(values: &[f32], ranges: &[Range<usize>], count: usize) -> Vec<u32> {
        let places = ranges.iter().cloned().flatten().filter(|place| values[*place] != 0.0);
        let mut places: Vec<usize> = places.collect();
        places.sort_by_key(|place| std::cmp::Reverse(bits_of(values[*place])));
        places.truncate(count);
        places.sort_unstable();
        places.into_iter().map(|place| place as u32).collect()
    }

    fn check(values: &[f32], ranges: &[Range<usize>], count: usize) {
        for level in Level::available() {
            let found = largest_at(level, values, ranges, count);
            assert!(found == expected(values, ranges, count), "{level:?}, {count} of {ranges:?}");
        }
    }

    #[test]
    fn a_sample_that_says_too_much_or_too_little_changes_nothing() {
        // The blocks of the sample are larger or smaller than the others.
        let is_sampled = |at: usize| (at / BLOCK).is_multiple_of(SAMPLE_STRIDE);
        let wave = |at: usize| (at as f32 * 0.37).sin() * (1.0 + (at % 97) as f32);
        for scale in [1.0, 0.01, 100.0] {
            let scale_at = |at: usize| if is_sampled(at) { scale } else { 1.0 };
            let values: Vec<f32> = (0..100_000).map(|at| wave(at) * scale_at(at)).collect();
            for count in [1, 4_095, 4_096, 10_000, 50_000, 99_999, 200_000] {
                check(&values, from_ref(&(0..values.len())), count);
                check(&values, &[3..1_000, 1_000..1_000, 2_007..70_001], count);
            }
        }
        check(&[0.5; 70_000], from_ref(&(0..70_000)), 5_000);
    }

    proptest! {
        #[test]
        fn the_largest_are_those_that_sorting_finds(
            values in prop::collection::vec(prop_oneof![-1.0_f32..1.0, Just(0.0), Just(0.5), -1e-6_f32..1e30], 0..300),
            count in 0_usize..320,
            cut in 0_usize..300,
        ) {
            let cut = cut.min(values.len());
            check(&values, &[0..cut, cut..values.len()], count);
        }
    }
}
