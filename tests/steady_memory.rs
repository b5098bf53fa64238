//! Clocks of a dense model take no memory of its size that those before have not left: fresh memory is given by the system page by
//! page, which takes longer than to write to it.
#![allow(unsafe_code, reason = "an allocator is unsafe to be; this one hands on what it is asked")]

mod runs;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use runs::{application, plan, run};

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

/// Allocations of all threads that are as large as the model, or one of its tables of weights.
static LARGE: AtomicU64 = AtomicU64::new(0);

// SAFETY: every request goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

/// Other memory of that order is that of products of matrices, which has other sizes, and of frames.
fn count(size: usize) {
    if [MODEL, WEIGHTS].contains(&size) {
        LARGE.fetch_add(1, Ordering::Relaxed);
    }
}

const WEIGHTS: usize = size_of::<f32>() * 500 * 400;
const MODEL: usize = size_of::<f32>() * (100 * 500 + 500 + 500 * 400 + 400 + 400 * 4 + 4);
const APP: &str = "app={kind = 'perceptron', hidden = [500, 400], optimizer = 'sgd', batch = 4, \
                   data.synthetic = {examples = 300, features = 100}}";

/// How often a run of so many clocks has asked for large memory. Only its end is evaluated.
fn asked(remote: &str, clocks: u64) -> u64 {
    let before = LARGE.load(Ordering::Relaxed);
    let (remote, clocks) = (format!("sync.remote={{{remote}}}"), format!("stop.clocks={clocks}"));
    run(&[APP, &remote, &clocks, "evaluate.every=1000"]);
    LARGE.load(Ordering::Relaxed) - before
}

#[test]
fn clocks_ask_for_no_memory_as_large_as_the_model() {
    let layout = application(&plan(&[APP])).layout().clone();
    assert_eq!(size_of::<f32>() * layout.parameters(), MODEL);

    for remote in ["model = 'bsp'", "model = 'ssp', staleness = 2", "model = 'asp'"] {
        let [few, more] = [20, 60].map(|clocks| asked(remote, clocks));
        assert!(few > 0, "the model has to be somewhere");
        assert_eq!(few, more, "{remote}: 20 clocks and 60");
    }
    // Two rounds each.
    let rounds_of = |steps: u64| {
        asked(&format!("model = 'local-steps', steps = {steps}, overlap = 0"), 2 * steps)
    };
    assert_eq!(rounds_of(10), rounds_of(30), "rounds of 10 clocks and of 30");
}
