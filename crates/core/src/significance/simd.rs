//! Vector instructions, selected at run time.
//!
//! Arithmetic is compiled once for each instruction set from one function body. The operations and their order are the
//! same, so the results are the same bits. Only the compaction of what is above a bound is written with intrinsics,
//! because compilers do not generate the instructions for it.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::screen::Screen;

/// Work that is compiled for each level. `run` and all functions that it calls must be `#[inline(always)]`.
pub(super) trait Work {
    fn run(self);
}

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The widest level of this machine.
    pub(super) fn best() -> Self {
        Self::available().last().unwrap_or(Self::Baseline)
    }

    /// All levels of this machine, the widest last.
    pub(super) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let wider = {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            [avx2.then_some(Self::Avx2), avx512.then_some(Self::Avx512)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let wider = [None];
        [Self::Baseline].into_iter().chain(wider.into_iter().flatten())
    }
}

/// Runs the work with the instructions of a level.
pub(super) fn run(level: Level, work: impl Work) {
    match level {
        Level::Baseline => work.run(),
        // SAFETY: `available` names a level other than the baseline only after its features were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { run_avx2(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { run_avx512(work) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn run_avx2(work: impl Work) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
fn run_avx512(work: impl Work) {
    work.run();
}

/// The entries of a block that are above a bound.
#[derive(Clone, Debug, Default)]
pub(super) struct Above {
    /// One vector longer than the longest block: whole vectors are stored, and their unused part is overwritten.
    indexes: Vec<u32>,
    bits: Vec<i32>,
    count: usize,
}

impl Above {
    /// Makes room for blocks of up to this many ratios.
    pub(super) fn make_room(&mut self, block: usize) {
        self.indexes.resize(block + LANES_MAX, 0);
        self.bits.resize(block + LANES_MAX, 0);
    }

    /// Keeps the indexes, counted from `first`, and the bits of ratios whose bits without the sign exceed `least`.
    pub(super) fn keep(&mut self, level: Level, ratios: &[f32], least: i32, first: u32) {
        assert!(ratios.len() + LANES_MAX <= self.indexes.len(), "room was made for the block");
        assert!(self.indexes.len() == self.bits.len(), "room was made for both");
        self.count = match level {
            Level::Baseline => self.keep_baseline(ratios, least, first, 0),
            // SAFETY: the level's features were detected, and a vector more than the block has room.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { self.keep_avx2(ratios, least, first) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { self.keep_avx512(ratios, least, first) },
        };
    }

    /// Keeps the indexes and the bits of ratios that exceed `least`, of ratios that are not negative and most of which
    /// do.
    #[inline(always)]
    pub(super) fn keep_of(&mut self, indexes: &[u32], ratios: &[f32], least: i32) {
        assert!(indexes.len() == ratios.len(), "a ratio has an index");
        self.indexes[..indexes.len()].copy_from_slice(indexes);
        let mut lowest = i32::MAX;
        for (kept, ratio) in self.bits.iter_mut().zip(ratios) {
            *kept = magnitude(*ratio);
            lowest = lowest.min(*kept);
        }
        self.count = indexes.len();

        if lowest <= least {
            self.count = 0;
            for at in 0..indexes.len() {
                let bits = self.bits[at];
                self.indexes[self.count] = self.indexes[at];
                self.bits[self.count] = bits;
                self.count += usize::from(bits > least);
            }
        }
    }

    pub(super) fn indexes(&self) -> &[u32] {
        &self.indexes[..self.count]
    }

    pub(super) fn bits(&self) -> &[i32] {
        &self.bits[..self.count]
    }

    /// Appends to the `count` entries already kept, and returns their new number.
    fn keep_baseline(&mut self, ratios: &[f32], least: i32, first: u32, mut count: usize) -> usize {
        for (chunk, ratios) in ratios.chunks(8).enumerate() {
            let bits = ratios.iter().map(|ratio| magnitude(*ratio));
            // Most chunks have no entry above the bound, and a maximum needs no branch.
            if bits.clone().max().is_some_and(|most| most > least) {
                for (at, bits) in bits.enumerate() {
                    if bits > least {
                        self.indexes[count] = first + (chunk * 8 + at) as u32;
                        self.bits[count] = bits;
                        count += 1;
                    }
                }
            }
        }
        count
    }

    /// # Safety
    ///
    /// Both vectors have room for all of `ratios` and eight more.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    unsafe fn keep_avx2(&mut self, ratios: &[f32], least: i32, first: u32) -> usize {
        let (chunks, rest) = ratios.as_chunks::<8>();
        let (bar, sign) = (_mm256_set1_epi32(least), _mm256_set1_epi32(i32::MAX));
        let mut at = _mm256_add_epi32(
            _mm256_set1_epi32(first as i32),
            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
        );
        let mut count = 0;

        for chunk in chunks {
            // SAFETY: a chunk has eight lanes; `count` never exceeds the lanes already read.
            unsafe {
                let bits = _mm256_and_si256(_mm256_loadu_si256(chunk.as_ptr().cast()), sign);
                let above = _mm256_castsi256_ps(_mm256_cmpgt_epi32(bits, bar));
                let mask = _mm256_movemask_ps(above) as usize;
                let order = _mm256_loadu_si256(FRONT[mask].as_ptr().cast());
                let indexes = self.indexes.as_mut_ptr().add(count).cast();
                _mm256_storeu_si256(indexes, _mm256_permutevar8x32_epi32(at, order));
                let kept = self.bits.as_mut_ptr().add(count).cast();
                _mm256_storeu_si256(kept, _mm256_permutevar8x32_epi32(bits, order));
                count += mask.count_ones() as usize;
            }
            at = _mm256_add_epi32(at, _mm256_set1_epi32(8));
        }

        self.keep_baseline(rest, least, first + (chunks.len() * 8) as u32, count)
    }

    /// # Safety
    ///
    /// Both vectors have room for all of `ratios` and sixteen more.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
    unsafe fn keep_avx512(&mut self, ratios: &[f32], least: i32, first: u32) -> usize {
        let (chunks, rest) = ratios.as_chunks::<16>();
        let (bar, sign) = (_mm512_set1_epi32(least), _mm512_set1_epi32(i32::MAX));
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let mut at = _mm512_add_epi32(_mm512_set1_epi32(first as i32), lanes);
        let mut count = 0;

        for chunk in chunks {
            // SAFETY: a chunk has sixteen lanes; `count` never exceeds the lanes already read.
            unsafe {
                let bits = _mm512_and_si512(_mm512_loadu_si512(chunk.as_ptr().cast()), sign);
                let mask = _mm512_cmpgt_epi32_mask(bits, bar);
                let indexes = self.indexes.as_mut_ptr().add(count).cast();
                _mm512_storeu_si512(indexes, _mm512_maskz_compress_epi32(mask, at));
                let kept = self.bits.as_mut_ptr().add(count).cast();
                _mm512_storeu_si512(kept, _mm512_maskz_compress_epi32(mask, bits));
                count += mask.count_ones() as usize;
            }
            at = _mm512_add_epi32(at, _mm512_set1_epi32(16));
        }

        self.keep_baseline(rest, least, first + (chunks.len() * 16) as u32, count)
    }
}

/// The residuals of a block that pass a screen, with the values that they are measured against.
#[derive(Clone, Debug, Default)]
pub(super) struct Passed {
    /// One vector longer than the longest block, as in [`Above`].
    indexes: Vec<u32>,
    residuals: Vec<f32>,
    values: Vec<f32>,
    count: usize,
}

/// A block of parameters of the same length each.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) values: &'a [f32],
    pub(super) local: &'a [f32],
    pub(super) shared: &'a [f32],
    /// The index of the first.
    pub(super) first: u32,
}

impl Passed {
    /// Makes room for blocks of up to this many parameters.
    pub(super) fn make_room(&mut self, block: usize) {
        self.indexes.resize(block + LANES_MAX, 0);
        self.residuals.resize(block + LANES_MAX, 0.0);
        self.values.resize(block + LANES_MAX, 0.0);
    }

    /// Keeps what passes the screen, in ascending order.
    pub(super) fn keep(&mut self, level: Level, block: Block<'_>, screen: Screen) {
        let count = block.local.len();
        assert!(block.values.len() == count && block.shared.len() == count, "columns are as long");
        assert!(count + LANES_MAX <= self.indexes.len(), "room was made for the block");
        assert!(self.residuals.len() == self.indexes.len(), "room was made for residuals");
        assert!(self.values.len() == self.indexes.len(), "room was made for values");
        self.count = match level {
            Level::Baseline => self.keep_baseline(block, screen, 0, 0),
            // SAFETY: the level's features were detected, and a vector more than the block has room.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { self.keep_avx2(block, screen) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { self.keep_avx512(block, screen) },
        };
    }

    pub(super) fn indexes(&self) -> &[u32] {
        &self.indexes[..self.count]
    }

    pub(super) fn residuals(&self) -> &[f32] {
        &self.residuals[..self.count]
    }

    pub(super) fn values(&self) -> &[f32] {
        &self.values[..self.count]
    }

    /// Appends what passes from the parameter `start` of the block on to the `count` that are already kept, and returns
    /// their new number.
    fn keep_baseline(
        &mut self,
        block: Block<'_>,
        screen: Screen,
        start: usize,
        mut count: usize,
    ) -> usize {
        let Block { values, local, shared, first } = block;
        for at in (start..local.len()).step_by(8) {
            let chunk = at..local.len().min(at + 8);
            let residuals = local[chunk.clone()].iter().zip(&shared[chunk.clone()]);
            let residuals = residuals.map(|(local, shared)| local - shared).zip(&values[chunk]);
            // Of most chunks nothing passes, and an or needs no branch.
            let any = residuals
                .clone()
                .fold(false, |any, (residual, value)| any | screen.passes(residual, *value));
            if any {
                for (index, (residual, value)) in (first + at as u32..).zip(residuals) {
                    if screen.passes(residual, *value) {
                        self.indexes[count] = index;
                        self.residuals[count] = residual;
                        self.values[count] = *value;
                        count += 1;
                    }
                }
            }
        }
        count
    }

    /// # Safety
    ///
    /// The columns of the block have the same length, and all vectors have room for it and eight more.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    unsafe fn keep_avx2(&mut self, block: Block<'_>, screen: Screen) -> usize {
        let Block { values, local, shared, first } = block;
        let sign = _mm256_set1_ps(-0.0);
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let whole = local.len() / 8 * 8;
        let mut count = 0;

        for at in (0..whole).step_by(8) {
            // SAFETY: eight lanes from `at` are in each column; `count` never exceeds the lanes already read.
            unsafe {
                let residual = _mm256_sub_ps(
                    _mm256_loadu_ps(local.as_ptr().add(at)),
                    _mm256_loadu_ps(shared.as_ptr().add(at)),
                );
                let bar = match screen {
                    Screen::Constant(bar) => _mm256_set1_ps(bar),
                    Screen::Relative { bar, floor } => {
                        let value = _mm256_loadu_ps(values.as_ptr().add(at));
                        // Of two operands of which one is not a number, the second is the result.
                        let against =
                            _mm256_max_ps(_mm256_andnot_ps(sign, value), _mm256_set1_ps(floor));
                        _mm256_mul_ps(_mm256_set1_ps(bar), against)
                    }
                };
                let reaches = _mm256_cmp_ps::<_CMP_NLT_UQ>(_mm256_andnot_ps(sign, residual), bar);
                let changed = _mm256_cmp_ps::<_CMP_NEQ_UQ>(residual, _mm256_setzero_ps());
                let mask = _mm256_movemask_ps(_mm256_and_ps(reaches, changed)) as usize;
                if mask == 0 {
                    continue;
                }
                let order = _mm256_loadu_si256(FRONT[mask].as_ptr().cast());
                let index = _mm256_add_epi32(_mm256_set1_epi32((first + at as u32) as i32), lanes);
                let value = _mm256_loadu_ps(values.as_ptr().add(at));
                _mm256_storeu_si256(
                    self.indexes.as_mut_ptr().add(count).cast(),
                    _mm256_permutevar8x32_epi32(index, order),
                );
                _mm256_storeu_ps(
                    self.residuals.as_mut_ptr().add(count),
                    _mm256_permutevar8x32_ps(residual, order),
                );
                _mm256_storeu_ps(
                    self.values.as_mut_ptr().add(count),
                    _mm256_permutevar8x32_ps(value, order),
                );
                count += mask.count_ones() as usize;
            }
        }

        self.keep_baseline(block, screen, whole, count)
    }

    /// # Safety
    ///
    /// The columns of the block have the same length, and all vectors have room for it and sixteen more.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
    unsafe fn keep_avx512(&mut self, block: Block<'_>, screen: Screen) -> usize {
        let Block { values, local, shared, first } = block;
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let whole = local.len() / 16 * 16;
        let mut count = 0;

        for at in (0..whole).step_by(16) {
            // SAFETY: sixteen lanes from `at` are in each column; `count` never exceeds the lanes already read.
            unsafe {
                let residual = _mm512_sub_ps(
                    _mm512_loadu_ps(local.as_ptr().add(at)),
                    _mm512_loadu_ps(shared.as_ptr().add(at)),
                );
                let bar = match screen {
                    Screen::Constant(bar) => _mm512_set1_ps(bar),
                    Screen::Relative { bar, floor } => {
                        let value = _mm512_loadu_ps(values.as_ptr().add(at));
                        // Of two operands of which one is not a number, the second is the result.
                        let against = _mm512_max_ps(_mm512_abs_ps(value), _mm512_set1_ps(floor));
                        _mm512_mul_ps(_mm512_set1_ps(bar), against)
                    }
                };
                let reaches = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(residual), bar);
                let mask =
                    _mm512_mask_cmp_ps_mask::<_CMP_NEQ_UQ>(reaches, residual, _mm512_setzero_ps());
                if mask == 0 {
                    continue;
                }
                let index = _mm512_add_epi32(_mm512_set1_epi32((first + at as u32) as i32), lanes);
                let value = _mm512_loadu_ps(values.as_ptr().add(at));
                _mm512_storeu_si512(
                    self.indexes.as_mut_ptr().add(count).cast(),
                    _mm512_maskz_compress_epi32(mask, index),
                );
                _mm512_storeu_ps(
                    self.residuals.as_mut_ptr().add(count),
                    _mm512_maskz_compress_ps(mask, residual),
                );
                _mm512_storeu_ps(
                    self.values.as_mut_ptr().add(count),
                    _mm512_maskz_compress_ps(mask, value),
                );
                count += mask.count_ones() as usize;
            }
        }

        self.keep_baseline(block, screen, whole, count)
    }
}

/// The bits of a ratio without its sign.
#[inline(always)]
fn magnitude(ratio: f32) -> i32 {
    (ratio.to_bits() & 0x7fff_ffff) as i32
}

/// For each mask of eight lanes, a permutation that moves the lanes in the mask to the front.
#[cfg(target_arch = "x86_64")]
static FRONT: [[u32; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut count) = (0, 0);
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                table[mask][count] = lane;
                count += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    table
};

/// The number of lanes of the widest vector.
const LANES_MAX: usize = 16;
