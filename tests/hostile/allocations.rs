//! How much memory a piece of work holds at most, and how often it asks for some, of its own thread.
#![allow(unsafe_code, reason = "an allocator is unsafe to be; this one hands on what it is asked")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
    static WATCHED: Cell<[usize; 2]> = const { Cell::new([usize::MAX; 2]) };
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// The most bytes that `work` held at any time beyond those held before it, whatever it gives back.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let done = work();
    (done, usize::try_from(MOST.get() - before).unwrap_or(0))
}

/// How often `work` asked for exactly as many bytes as one of `sizes`.
pub(crate) fn asked_for(sizes: [usize; 2], work: impl FnOnce()) -> u64 {
    let before = ASKED.get();
    let unwatched = WATCHED.replace(sizes);
    work();
    WATCHED.set(unwatched);
    ASKED.get() - before
}

fn ask(size: usize) {
    if WATCHED.get().contains(&size) {
        ASKED.set(ASKED.get() + 1);
    }
}

fn count(bytes: isize) {
    // A thread that is ending has no counters any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: every request goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ask(layout.size());
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ask(layout.size());
        count(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ask(size);
        count(size as isize - layout.size() as isize);
        unsafe { System.realloc(place, layout, size) }
    }
}

#[test]
fn what_is_held_and_given_back_is_counted_at_its_most() {
    let (_, most) = peak_of(|| {
        drop(vec![0_u8; 1 << 20]);
        vec![0_u8; 1 << 10]
    });
    assert!((1 << 20..1 << 21).contains(&most), "{most}");
}

#[test]
fn what_is_asked_for_in_a_watched_size_is_counted() {
    let asked = asked_for([100, 1 << 20], || {
        for size in [100, 101, 1 << 20, 1 << 20] {
            drop(vec![0_u8; size]);
            drop(Vec::<u8>::with_capacity(size));
        }
        Vec::<u8>::with_capacity(7).reserve_exact(100);
    });
    assert_eq!(asked, 7);
}
