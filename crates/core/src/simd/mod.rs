//! Vector instructions, selected at run time.
//!
//! This room decides which instruction set a loop runs on, and holds the loops that are written with intrinsics. It does
//! not know what is computed. It is the only room of the core with `unsafe`.
//!
//! Arithmetic is compiled once for each instruction set from one function body. The operations and their order are the
//! same, so the results are the same bits. Only prefetches and the compaction of what is above a bound are written with
//! intrinsics, because compilers do not generate the instructions for them, and with compaction the ratio that it follows in
//! the same loop.
#![allow(unsafe_code)]

mod above;
mod prefetch;
mod screened;

pub(crate) use above::{Above, bits_of};
pub(crate) use prefetch::{
    PLACES_AHEAD, append, prefetch_ahead_of, prefetch_at, prefetch_behind, prefetch_of,
};
pub(crate) use screened::{Against, Block, Screen};

/// Work that is compiled for each level. `run` and all functions that it calls must be `#[inline(always)]`.
pub(crate) trait Work {
    type Output;

    fn run(self) -> Self::Output;
}

/// An instruction set that the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(InstructionSet);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum InstructionSet {
    /// What every machine of the target has: SSE2 on x86-64, NEON on AArch64.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The level of every machine.
    pub(crate) const BASELINE: Self = Self(InstructionSet::Baseline);

    /// The widest level of this machine.
    pub(crate) fn best() -> Self {
        Self::available().last().unwrap_or(Self::BASELINE)
    }

    /// All levels of this machine, the widest last.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
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
            [avx2.then_some(InstructionSet::Avx2), avx512.then_some(InstructionSet::Avx512)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let wider = [None];
        [Self::BASELINE].into_iter().chain(wider.into_iter().flatten().map(Self))
    }
}

/// Runs the work with the instructions of a level.
pub(crate) fn run<W: Work>(level: Level, work: W) -> W::Output {
    match level.0 {
        InstructionSet::Baseline => work.run(),
        // SAFETY: `available` names a level other than the baseline only after its features were detected.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe { run_avx2(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { run_avx512(work) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
fn run_avx512<W: Work>(work: W) -> W::Output {
    work.run()
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
