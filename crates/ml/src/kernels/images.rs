//! Loops over planes: shifts for convolutions, maxima of windows, rectifiers, and scaled sums.
//!
//! Planes of one channel follow one another for a whole batch, so that a shift of all of them is one long copy
//! and only what came over an edge has to be taken out again.

use std::ops::Range;

use super::vector::LANES;
use super::{Kernel, vectorized};

/// The size of each of several planes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    /// Rows of each plane.
    pub height: usize,
    /// Values of each row.
    pub width: usize,
}

impl Planes {
    /// Values of each plane.
    pub const fn values(self) -> usize {
        self.height * self.width
    }
}

/// `patches ← input` under a window of `side × side`, `side` odd: one row per channel, window row and window
/// column, with a value for each pixel, 0 where the window reaches over the edge.
///
/// `input` holds all planes of one channel, then all of the next; `patches` is `side²` times as long.
///
/// # Panics
///
/// Where the lengths do not fit.
pub fn unfold(input: &[f32], channels: usize, planes: Planes, side: usize, patches: &mut [f32]) {
    assert_eq!(patches.len(), input.len() * side * side);
    let run = (input.len() / channels).max(1);
    let windows = patches.chunks_exact_mut(run * side * side);
    for (channel, windows) in input.chunks_exact(run).zip(windows) {
        for (at, row) in windows.chunks_exact_mut(run).enumerate() {
            let shift = Shift::new(at, side);
            let (from, to) = shift.overlap(run, planes.width);
            row[to].copy_from_slice(&channel[from]);
            shift.clear_edges(row, planes);
        }
    }
}

/// The way back from [`unfold`]: `output ←` the sum of all that the pixel went into. Uses `patches` up.
///
/// # Panics
///
/// Where the lengths do not fit.
pub fn fold(patches: &mut [f32], channels: usize, planes: Planes, side: usize, output: &mut [f32]) {
    assert_eq!(patches.len(), output.len() * side * side);
    output.fill(0.0);
    let run = (output.len() / channels).max(1);
    let windows = patches.chunks_exact_mut(run * side * side);
    for (channel, windows) in output.chunks_exact_mut(run).zip(windows) {
        for (at, row) in windows.chunks_exact_mut(run).enumerate() {
            let shift = Shift::new(at, side);
            shift.clear_edges(row, planes);
            let (from, to) = shift.overlap(run, planes.width);
            super::vector::axpy(1.0, &row[to], &mut channel[from]);
        }
    }
}

/// Writes the largest value of each window of `side × side` to `output`, and its position in its plane to
/// `places`; of equal ones the first, and NaN where there is one. Rows and columns that fill no window are left out.
///
/// # Panics
///
/// Where the lengths do not fit.
pub fn largest_of_windows(
    input: &[f32],
    planes: Planes,
    side: usize,
    output: &mut [f32],
    places: &mut [u32],
) {
    let pooled = Planes { height: planes.height / side, width: planes.width / side };
    assert_eq!(input.len() / planes.values(), output.len() / pooled.values());
    assert_eq!(output.len(), places.len());
    vectorized(LargestOfLines, ((planes, pooled, side), input, output, places));
}

/// Two sizes of planes, before and after, and the side of the windows between them.
type Pooling = (Planes, Planes, usize);

struct LargestOfLines;

impl<'a> Kernel<(Pooling, &'a [f32], &'a mut [f32], &'a mut [u32])> for LargestOfLines {
    type Output = ();

    #[inline(always)]
    fn run(
        ((planes, pooled, side), input, output, places): (
            Pooling,
            &'a [f32],
            &'a mut [f32],
            &'a mut [u32],
        ),
    ) {
        let outputs = output.chunks_exact_mut(pooled.width);
        let outputs = outputs.zip(places.chunks_exact_mut(pooled.width)).enumerate();

        for (at, (output, places)) in outputs {
            let (plane, row) = (at / pooled.height, at % pooled.height * side * planes.width);
            let lines = &input[plane * planes.values() + row..][..side * planes.width];
            match (side, pooled.width) {
                (2, 8..) => largest_of_fours::<8>(lines, row as u32, output, places),
                (2, 4..) => largest_of_fours::<4>(lines, row as u32, output, places),
                _ => largest_of_each(lines, side, row as u32, output, places),
            }
        }
    }
}

/// Whether a value is the largest so far. What is no number goes on to the objective, where it is noticed.
#[inline(always)]
fn wins(value: f32, best: f32) -> bool {
    value > best || value.is_nan()
}

/// One row of windows: `lines` holds the rows that they cover, of which the first begins at `start`.
#[inline(always)]
fn largest_of_each(lines: &[f32], side: usize, start: u32, output: &mut [f32], places: &mut [u32]) {
    let width = lines.len() / side;
    for (at, (best, best_place)) in output.iter_mut().zip(places).enumerate() {
        let first = at * side;
        (*best, *best_place) = (lines[first], start + first as u32);
        for (down, right) in (0..side).flat_map(|down| (0..side).map(move |right| (down, right))) {
            let place = first + down * width + right;
            if wins(lines[place], *best) {
                (*best, *best_place) = (lines[place], start + place as u32);
            }
        }
    }
}

/// The same for windows of two by two, so many at once; those at the end are done twice where they do not
/// fill the lanes.
#[inline(always)]
fn largest_of_fours<const LANES: usize>(
    lines: &[f32],
    start: u32,
    output: &mut [f32],
    places: &mut [u32],
) {
    let width = lines.len() / 2;
    let (above, below) = lines.split_at(width);
    let windows = output.len();

    for first in (0..windows).step_by(LANES) {
        let first = first.min(windows - LANES);
        let above = &above[2 * first..2 * (first + LANES)];
        let below = &below[2 * first..2 * (first + LANES)];
        let output = &mut output[first..first + LANES];
        let places = &mut places[first..first + LANES];

        for lane in 0..LANES {
            let mut best = above[2 * lane];
            let mut place = 0;
            let others = [
                (above[2 * lane + 1], 1),
                (below[2 * lane], width as u32),
                (below[2 * lane + 1], width as u32 + 1),
            ];

            for (value, at) in others {
                let wins = wins(value, best);
                place = if wins { at } else { place };
                best = if wins { value } else { best };
            }

            output[lane] = best;
            places[lane] = start + 2 * (first + lane) as u32 + place;
        }
    }
}

/// `output ← max(input, 0)`, and NaN where the input is.
pub fn rectify(input: &[f32], output: &mut [f32]) {
    vectorized(RectifyEach, (input, output));
}

struct RectifyEach;

impl<'a> Kernel<(&'a [f32], &'a mut [f32])> for RectifyEach {
    type Output = ();

    #[inline(always)]
    fn run((input, output): (&'a [f32], &'a mut [f32])) {
        for (input, output) in input.iter().zip(output) {
            *output = if *input <= 0.0 { 0.0 } else { *input };
        }
    }
}

/// `before ← slope` where `output` is above 0, else 0.
pub fn rectify_slope(output: &[f32], slope: &[f32], before: &mut [f32]) {
    vectorized(SlopeOfEach, (output, slope, before));
}

struct SlopeOfEach;

impl<'a> Kernel<(&'a [f32], &'a [f32], &'a mut [f32])> for SlopeOfEach {
    type Output = ();

    #[inline(always)]
    fn run((output, slope, before): (&'a [f32], &'a [f32], &'a mut [f32])) {
        for ((output, slope), before) in output.iter().zip(slope).zip(before) {
            *before = if *output <= 0.0 { 0.0 } else { *slope };
        }
    }
}

/// `output ← scale · input + shift`.
pub fn scale_and_shift(input: &[f32], scale: f32, shift: f32, output: &mut [f32]) {
    vectorized(ScaleAndShiftEach, (input, scale, shift, output));
}

struct ScaleAndShiftEach;

impl<'a> Kernel<(&'a [f32], f32, f32, &'a mut [f32])> for ScaleAndShiftEach {
    type Output = ();

    #[inline(always)]
    fn run((input, scale, shift, output): (&'a [f32], f32, f32, &'a mut [f32])) {
        for (input, output) in input.iter().zip(output) {
            *output = scale * input + shift;
        }
    }
}

/// `output ← left_scale · left + right_scale · right + shift`.
pub fn combine(left: (f32, &[f32]), right: (f32, &[f32]), shift: f32, output: &mut [f32]) {
    vectorized(CombineEach, (left, right, shift, output));
}

struct CombineEach;

impl<'a> Kernel<(Scaled<'a>, Scaled<'a>, f32, &'a mut [f32])> for CombineEach {
    type Output = ();

    #[inline(always)]
    fn run((left, right, shift, output): (Scaled<'a>, Scaled<'a>, f32, &'a mut [f32])) {
        let ((left_scale, left), (right_scale, right)) = (left, right);
        for ((left, right), output) in left.iter().zip(right).zip(output) {
            *output = left_scale * left + right_scale * right + shift;
        }
    }
}

/// A factor, and values.
type Scaled<'a> = (f32, &'a [f32]);

/// The sum of the squared distances from `center`.
pub fn square_distance(values: &[f32], center: f32) -> f64 {
    vectorized(SquareDistanceOf, (values, center))
}

struct SquareDistanceOf;

impl<'a> Kernel<(&'a [f32], f32)> for SquareDistanceOf {
    type Output = f64;

    #[inline(always)]
    fn run((values, center): (&'a [f32], f32)) -> f64 {
        let mut sums = [0.0_f32; LANES];
        let (chunks, rest) = values.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                let distance = chunk[lane] - center;
                sums[lane] += distance * distance;
            }
        }
        let rest: f64 =
            rest.iter().map(|value| f64::from((value - center) * (value - center))).sum();
        sums.iter().map(|&sum| f64::from(sum)).sum::<f64>() + rest
    }
}

/// Where a window's place looks from its middle: so many rows down and columns to the right.
#[derive(Clone, Copy)]
struct Shift {
    down: isize,
    right: isize,
}

impl Shift {
    /// Place `at` of a window, counted row by row.
    fn new(at: usize, side: usize) -> Self {
        let middle = (side / 2) as isize;
        Self { down: (at / side) as isize - middle, right: (at % side) as isize - middle }
    }

    /// The part of a run of planes that is looked at, and that it is seen from.
    fn overlap(self, run: usize, width: usize) -> (Range<usize>, Range<usize>) {
        let by = self.down * width as isize + self.right;
        let skipped = by.unsigned_abs().min(run);
        let (ahead, behind) = (skipped..run, 0..run - skipped);
        if by < 0 { (behind, ahead) } else { (ahead, behind) }
    }

    /// Zeroes what is seen from pixels whose window place lies outside their own plane.
    fn clear_edges(self, row: &mut [f32], planes: Planes) {
        let rows = outside(self.down, planes.height);
        let columns = outside(self.right, planes.width);
        for plane in row.chunks_exact_mut(planes.values()) {
            plane[rows.start * planes.width..rows.end * planes.width].fill(0.0);
            if !columns.is_empty() {
                for line in plane.chunks_exact_mut(planes.width) {
                    line[columns.clone()].fill(0.0);
                }
            }
        }
    }
}

/// The positions of `0..length` that are outside of it once `by` is added.
fn outside(by: isize, length: usize) -> Range<usize> {
    let most = by.unsigned_abs().min(length);
    if by < 0 { 0..most } else { length - most..length }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, from: f32) -> Vec<f32> {
        (0..count).map(|index| ((index as f32 + from) * 0.37).sin()).collect()
    }

    fn shapes() -> impl Iterator<Item = (usize, usize, Planes, usize)> {
        let sizes = [(1, 1), (3, 5), (4, 4), (1, 7), (6, 2)];
        sizes.into_iter().flat_map(|(height, width)| {
            [1, 3, 5].map(|side| (2, 3, Planes { height, width }, side))
        })
    }

    #[test]
    fn patches_hold_what_each_window_sees_and_nothing_of_other_images() {
        for (channels, examples, planes, side) in shapes() {
            let Planes { height, width } = planes;
            let input = numbers(channels * examples * planes.values(), 1.0);
            let mut patches = vec![f32::NAN; input.len() * side * side];

            unfold(&input, channels, planes, side, &mut patches);

            let mut patches = patches.into_iter();
            for channel in 0..channels {
                for (down, right) in (0..side).flat_map(|d| (0..side).map(move |r| (d, r))) {
                    for (example, y, x) in (0..examples)
                        .flat_map(|n| (0..height).map(move |y| (n, y)))
                        .flat_map(|(n, y)| (0..width).map(move |x| (n, y, x)))
                    {
                        let seen = (y + down).checked_sub(side / 2).filter(|&y| y < height);
                        let seen = seen.zip((x + right).checked_sub(side / 2));
                        let expected = seen.filter(|&(_, x)| x < width).map_or(0.0, |(y, x)| {
                            input[((channel * examples + example) * height + y) * width + x]
                        });
                        assert_eq!(patches.next(), Some(expected));
                    }
                }
            }
        }
    }

    /// ⟨unfold(a), b⟩ = ⟨a, fold(b)⟩ is what makes one the way back of the other.
    #[test]
    fn folding_is_the_transpose_of_unfolding() {
        for (channels, examples, planes, side) in shapes() {
            let input = numbers(channels * examples * planes.values(), 1.0);
            let mut slope = numbers(input.len() * side * side, 2.0);
            let mut patches = vec![0.0; slope.len()];
            unfold(&input, channels, planes, side, &mut patches);
            let forth: f32 = patches.iter().zip(&slope).map(|(a, b)| a * b).sum();
            let mut folded = vec![f32::NAN; input.len()];
            fold(&mut slope, channels, planes, side, &mut folded);
            let back: f32 = input.iter().zip(&folded).map(|(a, b)| a * b).sum();
            assert!((forth - back).abs() < 1e-3 * (1.0 + forth.abs()), "{forth} {back}");
        }
    }

    /// Else a network of several layers that has overflowed would look like one that has learnt nothing.
    #[test]
    fn what_is_no_number_stays_so() {
        let mut rectified = [0.0; 3];
        rectify(&[f32::NAN, -1.0, 2.0], &mut rectified);
        assert!(rectified[0].is_nan());
        assert_eq!(rectified[1..], [0.0, 2.0]);

        for width in [2, 6, 8, 16, 18] {
            let planes = Planes { height: 2, width };
            for place in 0..planes.values() {
                let mut values = numbers(planes.values(), 0.0);
                values[place] = f32::NAN;
                let (mut output, mut places) = (vec![0.0; width / 2], vec![0; width / 2]);

                largest_of_windows(&values, planes, 2, &mut output, &mut places);

                let of_window = place % width / 2;
                assert_eq!(output.iter().position(|value| value.is_nan()), Some(of_window));
                assert_eq!(places[of_window] as usize, place);
            }
        }
    }

    #[test]
    fn windows_keep_their_first_largest_value() {
        let input = [1.0, 3.0, 9.0, 3.0, 2.0, 9.0, 7.0, 7.0, 7.0];
        let check = |side, output: &[f32], places: &[u32]| {
            let mut found = (vec![f32::NAN; output.len()], vec![u32::MAX; output.len()]);
            let planes = Planes { height: 3, width: 3 };
            largest_of_windows(&input, planes, side, &mut found.0, &mut found.1);
            assert_eq!(found, (output.to_vec(), places.to_vec()));
        };

        check(2, &[3.0], &[1]);
        check(3, &[9.0], &[2]);
        check(1, &input, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);

        for width in 2..40 {
            let planes = Planes { height: 5, width };
            let values: Vec<f32> = numbers(3 * planes.values(), 0.0)
                .iter()
                .map(|value| (4.0 * value).round())
                .collect();
            let count = 3 * 2 * (width / 2);
            let (mut output, mut places) = (vec![0.0; count], vec![0; count]);

            largest_of_windows(&values, planes, 2, &mut output, &mut places);

            for at in 0..count {
                let (row, column) = (at / (width / 2) % 2, at % (width / 2));
                let plane = &values[at / (width / 2) / 2 * planes.values()..];
                let corner = 2 * row * width + 2 * column;
                let window = [corner, corner + 1, corner + width, corner + width + 1];
                let largest = window.iter().fold(f32::MIN, |most, &place| most.max(plane[place]));
                let first = window.into_iter().find(|&place| plane[place] == largest);
                assert_eq!((output[at], Some(places[at] as usize)), (largest, first));
            }
        }
    }

    #[test]
    fn distances_agree_with_the_definition_at_every_length() {
        for length in 0..70 {
            let values = numbers(length, 3.0);
            let expected: f64 = values.iter().map(|&v| (f64::from(v) - 0.5).powi(2)).sum();
            assert!((square_distance(&values, 0.5) - expected).abs() < 1e-4);
        }
    }
}
