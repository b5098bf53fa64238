//! Compaction of the ratios of a block that are above a bound.
//!
//! One loop divides and compacts, so that divisions of some parameters run while memory is read for others. With wide vectors
//! they take less time than that, and less than a branch around them that is predicted wrongly where some parameters of a block
//! pass. Without them a test comes before the divisions.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use super::FRONT;
use super::{Above, InstructionSet, LANES_MAX, Level, bits_of, prefetch_ahead_of};

/// A block of parameters of the same length each.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) local: &'a [f32],
    pub(crate) shared: &'a [f32],
    /// The index of the first.
    pub(crate) first: u32,
}

/// How the ratio of a residual is computed, and a test without a division that most residuals of a block fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) against: Against,
    /// The ratio is that of the residual to what it is measured against, divided by this.
    pub(crate) threshold: f32,
    /// A residual passes the test unless it is smaller than this times what it is measured against.
    pub(crate) bar: f32,
    /// The bits that those of a ratio must exceed, 0 or more. No residual that fails the test has such a ratio.
    pub(crate) least: i32,
}

/// What residuals are measured against.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Against {
    Constant(f32),
    /// Its value's magnitude, and at least `floor`.
    Value {
        floor: f32,
    },
}

impl Above {
    /// Keeps the indexes of the residuals of a block whose ratios have bits above the screen's, and these ratios.
    pub(crate) fn keep_screened(&mut self, level: Level, block: Block<'_>, screen: Screen) {
        let count = block.local.len();
        assert!(block.values.len() == count && block.shared.len() == count, "columns are as long");
        assert!(count + LANES_MAX <= self.indexes.len(), "room was made for the block");
        assert!(self.ratios.len() == self.indexes.len(), "room was made for both");
        self.count = match level.0 {
            InstructionSet::Baseline => self.keep_screened_baseline(block, screen, 0, 0),
            // SAFETY: the level's features were detected, and a vector more than the block has room.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { self.keep_screened_avx2(block, screen) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => unsafe { self.keep_screened_avx512(block, screen) },
        };
    }

    /// Appends what is above the bound from the parameter `start` of the block on to the `count` entries that are already
    /// kept, and returns their new number.
    fn keep_screened_baseline(
        &mut self,
        block: Block<'_>,
        screen: Screen,
        start: usize,
        mut count: usize,
    ) -> usize {
        let Block { values, local, shared, first } = block;
        for at in (start..local.len()).step_by(EIGHT) {
            prefetch_ahead(screen, block, at);
            let chunk = at..local.len().min(at + EIGHT);
            let residuals = local[chunk.clone()].iter().zip(&shared[chunk.clone()]);
            let residuals = residuals.map(|(local, shared)| local - shared).zip(&values[chunk]);
            // Of most chunks nothing passes, and an or needs no branch.
            let any = residuals
                .clone()
                .fold(false, |any, (residual, value)| any | screen.passes(residual, *value));
            if !any {
                continue;
            }

            let mut ratios = [0.0; EIGHT];
            for (ratio, (residual, value)) in ratios.iter_mut().zip(residuals) {
                *ratio = screen.ratio(residual, *value);
            }
            // Where half of them are above the bound, a branch would be predicted wrongly each second time.
            for (index, ratio) in (first + at as u32..).zip(ratios) {
                (self.indexes[count], self.ratios[count]) = (index, ratio);
                count += usize::from(bits_of(ratio) > screen.least);
            }
        }
        count
    }

    /// # Safety
    ///
    /// The columns of the block have the same length, and both vectors have room for it and eight more.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    unsafe fn keep_screened_avx2(&mut self, block: Block<'_>, screen: Screen) -> usize {
        let Block { values, local, shared, first } = block;
        let sign = _mm256_set1_ps(-0.0);
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let threshold = _mm256_set1_ps(screen.threshold);
        let least = _mm256_set1_epi32(screen.least);
        let lost = _mm256_set1_epi32(bits_of(f32::NAN));
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
                let size = _mm256_andnot_ps(sign, residual);
                let against = match screen.against {
                    Against::Constant(constant) => _mm256_set1_ps(constant),
                    Against::Value { floor } => {
                        let value = _mm256_loadu_ps(values.as_ptr().add(at));
                        // Of two operands of which one is not a number, the second is the result.
                        _mm256_max_ps(_mm256_andnot_ps(sign, value), _mm256_set1_ps(floor))
                    }
                };
                let changed = _mm256_cmp_ps::<_CMP_NEQ_UQ>(residual, _mm256_setzero_ps());
                let ratio = _mm256_div_ps(_mm256_div_ps(size, against), threshold);
                let bits = _mm256_castps_si256(_mm256_andnot_ps(sign, ratio));
                // Of those that are not a number, arithmetic makes none with fewer bits.
                let bits = _mm256_min_epi32(bits, lost);
                let above = _mm256_castsi256_ps(_mm256_cmpgt_epi32(bits, least));
                let mask = _mm256_movemask_ps(_mm256_and_ps(above, changed)) as usize;
                let order = _mm256_loadu_si256(FRONT[mask].as_ptr().cast());
                let index = _mm256_add_epi32(_mm256_set1_epi32((first + at as u32) as i32), lanes);
                _mm256_storeu_si256(
                    self.indexes.as_mut_ptr().add(count).cast(),
                    _mm256_permutevar8x32_epi32(index, order),
                );
                _mm256_storeu_si256(
                    self.ratios.as_mut_ptr().add(count).cast(),
                    _mm256_permutevar8x32_epi32(bits, order),
                );
                count += mask.count_ones() as usize;
            }
        }

        self.keep_screened_baseline(block, screen, whole, count)
    }

    /// # Safety
    ///
    /// The columns of the block have the same length, and both vectors have room for it and sixteen more.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
    unsafe fn keep_screened_avx512(&mut self, block: Block<'_>, screen: Screen) -> usize {
        let Block { values, local, shared, first } = block;
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let threshold = _mm512_set1_ps(screen.threshold);
        let least = _mm512_set1_epi32(screen.least);
        let lost = _mm512_set1_epi32(bits_of(f32::NAN));
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
                let size = _mm512_abs_ps(residual);
                let against = match screen.against {
                    Against::Constant(constant) => _mm512_set1_ps(constant),
                    Against::Value { floor } => {
                        let value = _mm512_loadu_ps(values.as_ptr().add(at));
                        // Of two operands of which one is not a number, the second is the result.
                        _mm512_max_ps(_mm512_abs_ps(value), _mm512_set1_ps(floor))
                    }
                };
                let changed = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(residual, _mm512_setzero_ps());
                let ratio = _mm512_div_ps(_mm512_div_ps(size, against), threshold);
                let bits = _mm512_castps_si512(_mm512_abs_ps(ratio));
                // Of those that are not a number, arithmetic makes none with fewer bits.
                let bits = _mm512_min_epi32(bits, lost);
                let mask = _mm512_mask_cmpgt_epi32_mask(changed, bits, least);
                let index = _mm512_add_epi32(_mm512_set1_epi32((first + at as u32) as i32), lanes);
                _mm512_storeu_si512(
                    self.indexes.as_mut_ptr().add(count).cast(),
                    _mm512_maskz_compress_epi32(mask, index),
                );
                _mm512_storeu_si512(
                    self.ratios.as_mut_ptr().add(count).cast(),
                    _mm512_maskz_compress_epi32(mask, bits),
                );
                count += mask.count_ones() as usize;
            }
        }

        self.keep_screened_baseline(block, screen, whole, count)
    }
}

impl Screen {
    /// Whether a residual passes the test. One of 0 does not, and one that is not a number does.
    #[inline(always)]
    pub(crate) fn passes(self, residual: f32, value: f32) -> bool {
        let below = residual.abs() < self.bar * self.against.magnitude(value);
        !below & (residual != 0.0)
    }

    /// The ratio of a residual: 0 of one of 0, and one bit pattern of all that are not a number.
    #[inline(always)]
    fn ratio(self, residual: f32, value: f32) -> f32 {
        let ratio = (residual.abs() / self.against.magnitude(value) / self.threshold).abs();
        let ratio = if ratio.is_nan() { f32::NAN } else { ratio };
        if residual == 0.0 { 0.0 } else { ratio }
    }
}

impl Against {
    #[inline(always)]
    fn magnitude(self, value: f32) -> f32 {
        match self {
            Self::Constant(constant) => constant,
            Self::Value { floor } => value.abs().max(floor),
        }
    }
}

/// Asks for the memory of what is read of a block a page behind a parameter.
#[inline(always)]
fn prefetch_ahead(screen: Screen, block: Block<'_>, at: usize) {
    prefetch_ahead_of(block.local, at);
    prefetch_ahead_of(block.shared, at);
    if let Against::Value { .. } = screen.against {
        prefetch_ahead_of(block.values, at);
    }
}

/// The number of residuals that are tested at once where the machine has no wider vectors.
const EIGHT: usize = 8;
