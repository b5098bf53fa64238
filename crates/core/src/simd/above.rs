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
    indexes: Vec<u32>,
    bits: Vec<i32>,
    count: usize,
}

impl Above {
    /// Makes room for blocks of up to this many ratios.
    pub(crate) fn make_room(&mut self, block: usize) {
        self.indexes.resize(block + LANES_MAX, 0);
        self.bits.resize(block + LANES_MAX, 0);
    }

    /// Keeps the indexes, counted from `first`, and the bits of ratios whose bits without the sign exceed `least`.
    pub(crate) fn keep(&mut self, level: Level, ratios: &[f32], least: i32, first: u32) {
        assert!(ratios.len() + LANES_MAX <= self.indexes.len(), "room was made for the block");
        assert!(self.indexes.len() == self.bits.len(), "room was made for both");
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

    /// Keeps the indexes and the bits of ratios that exceed `least`, of ratios that are not negative and most of which
    /// do.
    #[inline(always)]
    pub(crate) fn keep_of(&mut self, indexes: &[u32], ratios: &[f32], least: i32) {
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

    pub(crate) fn indexes(&self) -> &[u32] {
        &self.indexes[..self.count]
    }

    pub(crate) fn bits(&self) -> &[i32] {
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

/// The bits of a ratio without its sign.
#[inline(always)]
fn magnitude(ratio: f32) -> i32 {
    (ratio.to_bits() & 0x7fff_ffff) as i32
}
