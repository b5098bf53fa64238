//! Sums of squares, in a fixed order, so that every machine computes the same bits.

/// The root mean square of a table. 0 if it is empty.
pub fn rms(values: &[f32]) -> f32 {
    if values.is_empty() {
        return 0.0;
    }
    let mut lanes = [0.0f64; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(*value) * f64::from(*value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += f64::from(*value) * f64::from(*value);
    }
    let sum: f64 = lanes.iter().sum();
    (sum / values.len() as f64).sqrt() as f32
}

/// The Euclidean norm of a row.
#[inline(always)]
pub(super) fn norm(values: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value * value;
        }
    }
    if !rest.is_empty() {
        for (lane, value) in lanes.iter_mut().zip(rest) {
            *lane += value * value;
        }
    }
    let eight: [f32; 8] = std::array::from_fn(|at| lanes[at] + lanes[at + 8]);
    let four: [f32; 4] = std::array::from_fn(|at| eight[at] + eight[at + 4]);
    ((four[0] + four[2]) + (four[1] + four[3])).sqrt()
}

const LANES: usize = 16;
