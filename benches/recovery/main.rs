//! What it costs that nodes come back after a crash, and how long that takes, in processes of this machine.
//!
//! `cargo bench --bench recovery [-- safety | restart]`
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a bench has the time of the machine"
)]
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench measures and prints")]

mod processes;
mod restart;
mod safety;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    // Asked to test and not to measure, it does nothing, which is soon done.
    if wanted.iter().any(|word| word == "--test") {
        return;
    }
    let all = wanted.iter().all(|word| word.starts_with('-'));
    for (name, measure) in [("safety", safety::measure as fn()), ("restart", restart::measure)] {
        if all || wanted.iter().any(|word| word == name) {
            measure();
        }
    }
}
