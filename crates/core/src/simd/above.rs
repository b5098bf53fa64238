//! Compaction of the ratios of a block that are above a bound.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use super::FRONT;
use super::{InstructionSet, LANES_MAX, Level};

/// The entries of a block that are above a bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Above {
    /// One vector longer than the longest block: whole vectors are stored, and their unused part is overwritten.
    pub(super) indexes: Vec<u32>,
    pub(super) ratios: Vec<f32>,
    pub(super) count: usize,
}

impl Above {
    /// Makes room for blocks of up to this many ratios.
    pub(crate) fn make_room(&mut self, block: usize) {
        self.indexes.resize(block + LANES_MAX, 0);
        self.ratios.resize(block + LANES_MAX, 0.0);
    }

    /// Keeps the indexes, counted from `first`, of the ratios whose bits exceed `least`, and these ratios. None is negative.
    pub(crate) fn keep(&mut self, level: Level, ratios: &[f32], least: i32, first: u32) {
        assert!(ratios.len() + LANES_MAX <= self.indexes.len(), "room was made for the block");
        assert!(self.indexes.len() == self.ratios.len(), "room was made for both");
        self.count = match level.0 {
            InstructionSet::Baseline => self.keep_baseline(ratios, least, first, 0),
            // SAFETY: the level's features were detected, and a vector more than the block has room.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => unsafe { self.keep_avx2(ratios, least, first) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => unsafe { self.keep_avx512(ratios, least, first) },
        };
    }

    pub(crate) fn indexes(&self) -> &[u32] {
        &self.indexes[..self.count]
    }

    pub(crate) fn ratios(&self) -> &[f32] {
        &self.ratios[..self.count]
    }

    /// Appends to the `count` entries already kept, and returns their new number.
    fn keep_baseline(&mut self, ratios: &[f32], least: i32, first: u32, mut count: usize) -> usize {
        for (chunk, ratios) in ratios.chunks(8).enumerate() {
            let bits = ratios.iter().map(|ratio| bits_of(*ratio));
            // Most chunks have no entry above the bound, and a maximum needs no branch.
            if bits.max().is_some_and(|most| most > least) {
                for (at, ratio) in ratios.iter().enumerate() {
                    if bits_of(*ratio) > least {
                        self.indexes[count] = first + (chunk * 8 + at) as u32;
                        self.ratios[count] = *ratio;
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
        let bar = _mm256_set1_epi32(least);
        let mut at = _mm256_add_epi32(
            _mm256_set1_epi32(first as i32),
            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
        );
        let mut count = 0;

        for chunk in chunks {
            // SAFETY: a chunk has eight lanes; `count` never exceeds the lanes already read.
            unsafe {
                let bits = _mm256_loadu_si256(chunk.as_ptr().cast());
                let above = _mm256_castsi256_ps(_mm256_cmpgt_epi32(bits, bar));
                let mask = _mm256_movemask_ps(above) as usize;
                let order = _mm256_loadu_si256(FRONT[mask].as_ptr().cast());
                let indexes = self.indexes.as_mut_ptr().add(count).cast();
                _mm256_storeu_si256(indexes, _mm256_permutevar8x32_epi32(at, order));
                let kept = self.ratios.as_mut_ptr().add(count).cast();
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
        let bar = _mm512_set1_epi32(least);
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let mut at = _mm512_add_epi32(_mm512_set1_epi32(first as i32), lanes);
        let mut count = 0;

        for chunk in chunks {
            // SAFETY: a chunk has sixteen lanes; `count` never exceeds the lanes already read.
            unsafe {
                let bits = _mm512_loadu_si512(chunk.as_ptr().cast());
                let mask = _mm512_cmpgt_epi32_mask(bits, bar);
                let indexes = self.indexes.as_mut_ptr().add(count).cast();
                _mm512_storeu_si512(indexes, _mm512_maskz_compress_epi32(mask, at));
                let kept = self.ratios.as_mut_ptr().add(count).cast();
                _mm512_storeu_si512(kept, _mm512_maskz_compress_epi32(mask, bits));
                count += mask.count_ones() as usize;
            }
            at = _mm512_add_epi32(at, _mm512_set1_epi32(16));
        }

        self.keep_baseline(rest, least, first + (chunks.len() * 16) as u32, count)
    }
}

/// The bits of a ratio, which are in the order of ratios that are not negative. One that is not a number is above all others.
#[inline(always)]
pub(crate) fn bits_of(ratio: f32) -> i32 {
    ratio.to_bits() as i32
}
