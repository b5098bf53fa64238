//! Values of topics side by side, eight in a row.

use pulp::Simd;

/// A row of values, one of each lane.
///
/// It has as many lanes as the widest registers, wherever it runs: narrower registers hold it in parts. So additions
/// have the same order on every machine. A row is one cache line.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub(super) struct Lanes(pub(super) [f64; LANES]);

impl Lanes {
    pub(super) const ZERO: Self = Self::splat(0.0);

    #[inline(always)]
    pub(super) const fn splat(value: f64) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    pub(super) fn plus<S: Simd>(mut self, simd: S, other: Self) -> Self {
        let (own, others) = (registers_mut::<S>(&mut self), registers::<S>(&other));
        for (own, other) in own.iter_mut().zip(others) {
            *own = simd.add_f64s(*own, *other);
        }
        self
    }

    #[inline(always)]
    pub(super) fn times<S: Simd>(mut self, simd: S, other: Self) -> Self {
        let (own, others) = (registers_mut::<S>(&mut self), registers::<S>(&other));
        for (own, other) in own.iter_mut().zip(others) {
            *own = simd.mul_f64s(*own, *other);
        }
        self
    }

    /// The sums up to each lane, in three additions: of pairs, of pairs of pairs, of the two halves (Sklansky, IRE
    /// Transactions on Electronic Computers 9, 1960).
    #[inline(always)]
    pub(super) fn prefix_sums<S: Simd>(self, simd: S) -> Self {
        let [a, _, c, _, e, _, g, _] = self.0;
        let pairs = self.plus(simd, Self([0.0, a, 0.0, c, 0.0, e, 0.0, g]));
        let [_, b, _, _, _, f, _, _] = pairs.0;
        let halves = pairs.plus(simd, Self([0.0, 0.0, b, b, 0.0, 0.0, f, f]));
        let [_, _, _, d, ..] = halves.0;
        halves.plus(simd, Self([0.0, 0.0, 0.0, 0.0, d, d, d, d]))
    }

    /// Replaces the value of a lane.
    ///
    /// The row is written as a whole, because a processor makes a load of it wait for memory where what it reads was
    /// stored in parts.
    #[inline(always)]
    pub(super) fn put<S: Simd>(&mut self, simd: S, lane: usize, value: f64) {
        let value = simd.splat_f64s(value);
        for (own, only) in registers_mut::<S>(self).iter_mut().zip(registers::<S>(&ONLY[lane])) {
            let kept = simd.and_f64s(simd.not_f64s(*only), *own);
            *own = simd.or_f64s(kept, simd.and_f64s(*only, value));
        }
    }

    /// Adds to the value of a lane, and writes the row as [`Self::put`] does.
    #[inline(always)]
    pub(super) fn add_to<S: Simd>(&mut self, simd: S, lane: usize, value: f64) {
        let value = simd.splat_f64s(value);
        for (own, only) in registers_mut::<S>(self).iter_mut().zip(registers::<S>(&ONLY[lane])) {
            *own = simd.add_f64s(*own, simd.and_f64s(*only, value));
        }
    }

    /// Adds 1 to the count of each lane with a value of at most `bound`.
    #[inline(always)]
    pub(super) fn count_up_to<S: Simd>(self, simd: S, bound: f64, counts: &mut [u64; LANES]) {
        let (bound, zero, one) = (simd.splat_f64s(bound), simd.splat_u64s(0), simd.splat_u64s(1));
        let (counts, _) = S::as_mut_simd_u64s(counts);
        for (own, count) in registers::<S>(&self).iter().zip(counts) {
            let is_up_to = simd.less_than_or_equal_f64s(*own, bound);
            *count = simd.add_u64s(*count, simd.select_u64s(is_up_to, one, zero));
        }
    }
}

#[inline(always)]
fn registers<S: Simd>(lanes: &Lanes) -> &[S::f64s] {
    const { assert!(LANES.is_multiple_of(S::F64_LANES)) };
    S::as_simd_f64s(&lanes.0).0
}

#[inline(always)]
fn registers_mut<S: Simd>(lanes: &mut Lanes) -> &mut [S::f64s] {
    S::as_mut_simd_f64s(&mut lanes.0).0
}

/// All bits of one lane.
static ONLY: [Lanes; LANES] = {
    let mut only = [Lanes::ZERO; LANES];
    let mut lane = 0;
    while lane < LANES {
        only[lane].0[lane] = f64::from_bits(u64::MAX);
        lane += 1;
    }
    only
};

/// The doubles of a register of AVX-512.
pub(super) const LANES: usize = 8;
