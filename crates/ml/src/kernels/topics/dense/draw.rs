//! One draw from the weights of all topics.

use pulp::Simd;

use super::lanes::{LANES, Lanes};

/// The topic at `place`, 0 to below 1, of the distribution in proportion to `(document + α) · weights`.
///
/// Weights lie end to end in the order of lanes: all rows of lane 0, then all rows of lane 1, and so on. Sums up to each
/// weight run down the lanes, in groups of rows that do not wait for each other; across lanes only the ends are added
/// up. A place has passed the weights whose sum is at most the place, so their number says which weight it is in,
/// without a branch to guess.
///
/// Sums at the ends of groups are rounded more than once. So a place within rounding of the end of a weight may be taken
/// for one in another weight. That is one of the `topics`, too, none of which has a weight of 0.
#[inline(always)]
pub(super) fn draw<S: Simd, const ROWS: usize>(
    simd: S,
    document: &[Lanes; ROWS],
    weights: &[Lanes; ROWS],
    (topics, alpha): (usize, f64),
    place: f64,
) -> usize {
    let alpha = Lanes::splat(alpha);
    let mut sums = [Lanes::ZERO; ROWS];
    let mut group_starts = [Lanes::ZERO; ROWS];
    let mut lane_sums = Lanes::ZERO;
    for first in (0..ROWS).step_by(GROUP) {
        let mut sum = Lanes::ZERO;
        for row in first..ROWS.min(first + GROUP) {
            sum = sum.plus(simd, document[row].plus(simd, alpha).times(simd, weights[row]));
            sums[row] = sum;
        }
        group_starts[first / GROUP] = lane_sums;
        lane_sums = lane_sums.plus(simd, sum);
    }

    let [a, b, c, d, e, f, g, total] = lane_sums.prefix_sums(simd).0;
    let lane_starts = Lanes([0.0, a, b, c, d, e, f, g]);
    let place = place * total;

    let mut passed = [0; LANES];
    for row in 0..ROWS {
        let start = lane_starts.plus(simd, group_starts[row / GROUP]);
        start.plus(simd, sums[row]).count_up_to(simd, place, &mut passed);
    }
    let passed = passed.iter().sum::<u64>() as usize;
    (passed % ROWS * LANES + passed / ROWS).min(topics - 1)
}

/// Rows of a group, each of which waits for the one before. Smaller groups take more additions than they save waiting.
const GROUP: usize = 4;
