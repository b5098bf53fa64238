//! Sums over vectors, in lanes whose order never changes.

use std::ops::AddAssign;

use super::{Kernel, vectorized};

/// Lanes that are summed side by side: one AVX-512 register, two of AVX2.
pub(super) const LANES: usize = 16;

/// The inner product.
///
/// # Panics
///
/// Where the lengths differ.
pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    vectorized(DotOf, (left, right))
}

struct DotOf;

impl<'a> Kernel<(&'a [f32], &'a [f32])> for DotOf {
    type Output = f32;

    #[inline(always)]
    fn run((left, right): (&'a [f32], &'a [f32])) -> f32 {
        dot_lanes(left, right)
    }
}

/// `sum ← sum + scale · addend`.
///
/// # Panics
///
/// Where the lengths differ.
pub fn axpy(scale: f32, addend: &[f32], sum: &mut [f32]) {
    assert_eq!(addend.len(), sum.len());
    vectorized(AddScaled, (scale, addend, sum));
}

struct AddScaled;

impl<'a> Kernel<(f32, &'a [f32], &'a mut [f32])> for AddScaled {
    type Output = ();

    #[inline(always)]
    fn run((scale, addend, sum): (f32, &'a [f32], &'a mut [f32])) {
        for (sum, addend) in sum.iter_mut().zip(addend) {
            *sum += scale * addend;
        }
    }
}

/// The sum of all values.
pub fn sum(values: &[f32]) -> f32 {
    vectorized(SumLanes, values)
}

struct SumLanes;

impl<'a> Kernel<&'a [f32]> for SumLanes {
    type Output = f32;

    #[inline(always)]
    fn run(values: &'a [f32]) -> f32 {
        let mut sums = [0.0_f32; LANES];
        let (chunks, rest) = values.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                sums[lane] += chunk[lane];
            }
        }
        sum_by_halves(sums) + rest.iter().sum::<f32>()
    }
}

/// The squared Euclidean norm, in double precision.
pub fn square_norm(values: &[f32]) -> f64 {
    vectorized(SquareLanes, values)
}

struct SquareLanes;

impl<'a> Kernel<&'a [f32]> for SquareLanes {
    type Output = f64;

    #[inline(always)]
    fn run(values: &'a [f32]) -> f64 {
        let mut sums = [0.0_f64; LANES];
        let (chunks, rest) = values.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                sums[lane] += f64::from(chunk[lane]) * f64::from(chunk[lane]);
            }
        }
        let rest: f64 = rest.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
        sums.iter().sum::<f64>() + rest
    }
}

/// Turns logits into probabilities in place and returns ln Σ exp(logit), the value to subtract from a
/// logit for its log-probability.
pub fn softmax(logits: &mut [f32]) -> f64 {
    let largest = logits.iter().fold(f32::NEG_INFINITY, |largest, &logit| largest.max(logit));
    let mut sum = 0.0_f64;
    for logit in logits.iter_mut() {
        *logit = (*logit - largest).exp();
        sum += f64::from(*logit);
    }
    let scale = (1.0 / sum) as f32;
    for logit in logits.iter_mut() {
        *logit *= scale;
    }
    f64::from(largest) + sum.ln()
}

/// The position of the largest value; of equal ones the first, 0 of none.
pub fn largest(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}

/// `ln(1 + exp(x))` without overflow.
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[inline(always)]
pub(super) fn dot_lanes(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len());
    let (left_chunks, left_rest) = left.as_chunks::<LANES>();
    let (right_chunks, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    let mut rest = 0.0;
    for (left, right) in left_rest.iter().zip(right_rest) {
        rest += left * right;
    }
    sum_by_halves(sums) + rest
}

/// The sum of all lanes, a power of two, by halves.
#[inline(always)]
pub(super) fn sum_by_halves<T: Copy + AddAssign, const LANES: usize>(mut sums: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_products_agree_with_the_definition_at_every_length() {
        for length in 0..70 {
            let left: Vec<f32> = (0..length).map(|index| index as f32 * 0.5 - 3.0).collect();
            let right: Vec<f32> = (0..length).map(|index| 2.0 - index as f32 * 0.25).collect();
            let expected: f64 =
                left.iter().zip(&right).map(|(&l, &r)| f64::from(l) * f64::from(r)).sum();
            assert!(
                (f64::from(dot(&left, &right)) - expected).abs() < 1e-2 * (1.0 + expected.abs())
            );
            let total: f64 = left.iter().map(|&l| f64::from(l)).sum();
            assert!((f64::from(sum(&left)) - total).abs() < 1e-3);
            let square = square_norm(&left);
            assert!((square - left.iter().map(|&l| f64::from(l * l)).sum::<f64>()).abs() < 1e-6);
            let mut moved = left.clone();
            axpy(2.0, &right, &mut moved);
            assert!(moved.iter().zip(&left).zip(&right).all(|((&s, &l), &r)| s == l + 2.0 * r));
        }
    }

    #[test]
    fn softmax_of_huge_logits_does_not_overflow() {
        let mut logits = [1000.0, 1001.0, -1000.0];
        let log_sum = softmax(&mut logits);
        assert!((log_sum - 1_001.313_261_7).abs() < 1e-6);
        assert!((logits[1] - 0.731_058_6).abs() < 1e-6);
        assert!((logits.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert_eq!(largest(&logits), 1);
    }

    #[test]
    fn softplus_is_linear_far_out_and_zero_far_back() {
        assert_eq!(softplus(1e4), 1e4);
        assert_eq!(softplus(-1e4), 0.0);
        assert!((softplus(0.0) - std::f64::consts::LN_2).abs() < 1e-15);
    }
}
