//! Checkpoints: a run that goes on from one ends as a run that was not stopped, to the bit; damage is refused.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

mod bits;
mod damage;
mod disk;
mod process;
mod python;
mod training;
