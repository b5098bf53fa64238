//! Bytes from outside that mean harm, or come from a broken disk or a broken peer: each reader answers, within bounds.
//!
//! The functions that read are the fuzz targets of `fuzz/`, so that what a fuzzer tries and what is replayed here are
//! the same. Memory is counted byte by byte, by an allocator that knows how much each thread holds.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod allocations;
mod corpora;
mod data;
mod frames;
mod server;
mod settings;

#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the package of the fuzz targets has other users of them"
)]
#[path = "../../fuzz/src/lib.rs"]
mod fuzz;
