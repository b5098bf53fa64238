//! Compaction of the residuals of a block that pass a test.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use super::FRONT;
use super::{InstructionSet, LANES_MAX, Level, prefetch_ahead_of};

/// The residuals of a block that pass a screen, with the values that they are measured against.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passed {
    /// One vector longer than the longest block, as in [`Above`].
    indexes: Vec<u32>,
    residuals: Vec<f32>,
    values: Vec<f32>,
    count: usize,
}

/// A block of parameters of the same length each.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) local: &'a [f32],
    pub(crate) shared: &'a [f32],
    /// The index of the first.
    pub(crate) first: u32,
}

impl Passed {
    /// Makes room for blocks of up to this many parameters.
    pub(crate) fn make_room(&mut self, block: usize) {
        self.indexes.resize(block + LANES_MAX, 0);
        self.residuals.resize(block + LANES_MAX, 0.0);
        self.values.resize(block + LANES_MAX, 0.0);
    }

    /// Keeps what passes the screen, in ascending order.
    pub(crate) fn keep(&mut self, level: Level, block: Block<'_>, screen: Screen) {
        let count = block.local.len();
        assert!(block.values.len() == count && block.shared.len() == count, "columns are as long");
        assert!(count + LANES_MAX <= self.indexes.len(), "room was made for the block");
        assert!(self.residuals.len() == self.indexes.len(), "room was made for residuals");
        assert!(self.values.len() == self.indexes.len(), "room was made for values");
        self.count = match level.0 {
            InstructionSet::Baseline => self.keep_baseline(block, screen, 0, 0),
            // SAFETY: the level's features were detected, and a vector more than the block has room.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { self.keep_avx2(block, screen) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => unsafe { self.keep_avx512(block, screen) },
        };
    }

    pub(crate) fn indexes(&self) -> &[u32] {
        &self.indexes[..self.count]
    }

    pub(crate) fn residuals(&self) -> &[f32] {
        &self.residuals[..self.count]
    }

    pub(crate) fn values(&self) -> &[f32] {
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
            prefetch_ahead(screen, block, at);
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
            prefetch_ahead(screen, block, at);
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
            prefetch_ahead(screen, block, at);
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

/// Asks for the memory of what is read of a block a page behind a parameter.
#[inline(always)]
fn prefetch_ahead(screen: Screen, block: Block<'_>, at: usize) {
    prefetch_ahead_of(block.local, at);
    prefetch_ahead_of(block.shared, at);
    if let Screen::Relative { .. } = screen {
        prefetch_ahead_of(block.values, at);
    }
}

/// A test without a division that most residuals of a block fail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Screen {
    /// A residual passes unless it is smaller than this.
    Constant(f32),
    /// A residual passes unless it is smaller than `bar` times the larger of its value and `floor`.
    Relative { bar: f32, floor: f32 },
}

impl Screen {
    /// Whether a residual passes. One of 0 does not, and one that is not a number does.
    #[inline(always)]
    pub(crate) fn passes(self, residual: f32, value: f32) -> bool {
        let bar = match self {
            Self::Constant(bar) => bar,
            Self::Relative { bar, floor } => bar * value.abs().max(floor),
        };
        let below = residual.abs() < bar;
        !below & (residual != 0.0)
    }
}
