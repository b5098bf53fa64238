//! Prefetches for loops over blocks, and over places far from each other.
//!
//! A processor finds by itself what a loop reads next, but only within a page and as far as its queue of instructions
//! reaches. Where a block takes more work than the queue holds, memory would be idle during most of it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

/// Asks for as much memory as these numbers take, a page behind their beginning, so that a loop over the numbers that
/// follow finds it in the cache. Where the processor has no such instruction it does nothing.
#[inline(always)]
pub(crate) fn prefetch_behind<T>(numbers: &[T]) {
    for line in (0..size_of_val(numbers)).step_by(LINE) {
        prefetch(numbers.as_ptr().wrapping_byte_add(AHEAD + line));
    }
}

/// Asks for the memory of the number at a place, if there is one. Where the processor has no such instruction it does nothing.
#[inline(always)]
pub(crate) fn prefetch_at<T>(numbers: &[T], at: usize) {
    prefetch(numbers.as_ptr().wrapping_add(at));
}

#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing that a program sees, and of an address without memory it does nothing.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for the memory of a number.
#[inline(always)]
pub(crate) fn prefetch_of<T>(number: &T) {
    prefetch(number);
}

/// Asks for the memory a page behind the number at a place.
#[inline(always)]
pub(crate) fn prefetch_ahead_of<T>(numbers: &[T], at: usize) {
    prefetch(numbers.as_ptr().wrapping_add(at).wrapping_byte_add(AHEAD));
}

/// Appends bytes that as many will follow, and asks for the memory of those as [`prefetch_behind`] does.
#[inline(always)]
pub(crate) fn append(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
    let room = out.spare_capacity_mut();
    prefetch_behind(&room[..bytes.len().min(room.len())]);
}

/// How many places before a loop reaches it its memory is asked for: as many as the processor fetches at once, twice.
pub(crate) const PLACES_AHEAD: usize = 32;
/// The size in bytes of a line of the cache.
const LINE: usize = 64;
/// A page: far enough for a line to arrive, and beyond what processors fetch by themselves.
const AHEAD: usize = 4096;
