//! A value of each topic, and what a token less or more makes of it.

use pulp::Simd;

use super::lanes::{LANES, Lanes};

/// A value of each topic as its counts are, and as it is with one token less or one more.
///
/// So a change of a count has its value at once. What is computed then, for the change after, nothing waits for.
#[derive(Clone, Debug)]
pub(super) struct Around {
    /// Topic `k` is in row `k / LANES`, in lane `k % LANES`; lanes past the last topic are 0.
    pub(super) same: Vec<Lanes>,
    less: Vec<Lanes>,
    more: Vec<Lanes>,
}

impl Around {
    pub(super) fn new(rows: usize) -> Self {
        let zeros = vec![Lanes::ZERO; rows];
        Self { same: zeros.clone(), less: zeros.clone(), more: zeros }
    }

    /// The values with one token less, as they are, and with one more.
    #[inline(always)]
    pub(super) fn each(&self) -> [(f32, &[Lanes]); 3] {
        [(-1.0, &self.less), (0.0, &self.same), (1.0, &self.more)]
    }

    /// As [`Self::each`], to be written.
    #[inline(always)]
    pub(super) fn each_mut(&mut self) -> [(f32, &mut [Lanes]); 3] {
        [(-1.0, &mut self.less), (0.0, &mut self.same), (1.0, &mut self.more)]
    }

    /// Takes the value with one token less. Returns the place of that with yet another less.
    #[inline(always)]
    pub(super) fn fall<S: Simd>(&mut self, simd: S, topic: usize) -> &mut f64 {
        let (row, lane) = (topic / LANES, topic % LANES);
        self.more[row].0[lane] = self.same[row].0[lane];
        let less = &mut self.less[row].0[lane];
        self.same[row].put(simd, lane, *less);
        less
    }

    /// Takes the value with one token more. Returns the place of that with yet another more.
    #[inline(always)]
    pub(super) fn rise<S: Simd>(&mut self, simd: S, topic: usize) -> &mut f64 {
        let (row, lane) = (topic / LANES, topic % LANES);
        self.less[row].0[lane] = self.same[row].0[lane];
        let more = &mut self.more[row].0[lane];
        self.same[row].put(simd, lane, *more);
        more
    }
}
