//! What an index costs, in bytes and in time, for the patterns that training makes.
//!
//! At 1 % of random parameters the entropy is 1.01 bytes an index, and at 100 Mbit/s a link takes 4 million
//! updates of 3 bytes a second: coding at 50 million a second costs one tenth of a core on such a link.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use gaia::codec::{Buffers, Changes, ValueFormat, decode, encode, fit};
use gaia::types::{Random, Seed};
use rand::RngExt;

const PARAMETERS: u32 = 10_000_000;
const ROUNDS: usize = 9;

fn main() {
    let mut random = Seed(1).child("codec").random();
    let mut pass_values = vec![1.0f32; PARAMETERS as usize];
    let pass = median((0..ROUNDS).map(|_| {
        time(|| {
            for value in &mut pass_values {
                *value *= 1.5;
            }
            black_box(&mut pass_values);
        })
    }));
    let per_value = pass.as_secs_f64() / f64::from(PARAMETERS);
    println!(
        "median of {ROUNDS}; a pass (read and write one f32) takes {:.2} ns a value",
        per_value * 1e9
    );
    println!(
        "{:<36} {:>9} {:>9} {:>7} {:>7} {:>7}  (M/s; passes)",
        "bf16", "indexes", "B/index", "encode", "decode", "fit"
    );
    for (name, indexes) in [
        ("random 0.1 %", scattered(0.001, &mut random)),
        ("random 1 %", scattered(0.01, &mut random)),
        ("random 5 %", scattered(0.05, &mut random)),
        ("random 20 %", scattered(0.2, &mut random)),
        ("random 60 %", scattered(0.6, &mut random)),
        ("10 % of rows of 16", rows(16, 0.1, 1.0, &mut random)),
        ("10 % of rows of 32", rows(32, 0.1, 1.0, &mut random)),
        ("10 % of rows of 32, half of each", rows(32, 0.1, 0.5, &mut random)),
        ("10 % of rows of 50, half of each", rows(50, 0.1, 0.5, &mut random)),
        ("10 % of rows of 32, a tenth of each", rows(32, 0.1, 0.1, &mut random)),
    ] {
        report(name, &indexes, per_value);
    }
}

fn scattered(density: f64, random: &mut Random) -> Vec<u32> {
    (0..PARAMETERS).filter(|_| random.random_bool(density)).collect()
}

fn rows(width: u32, density: f64, kept: f64, random: &mut Random) -> Vec<u32> {
    let mut indexes = Vec::new();
    for row in 0..PARAMETERS / width {
        if random.random_bool(density) {
            let row = row * width..(row + 1) * width;
            indexes.extend(row.filter(|_| kept == 1.0 || random.random_bool(kept)));
        }
    }
    indexes
}

fn report(name: &str, indexes: &[u32], per_value: f64) {
    let format = ValueFormat::Bf16;
    let values = vec![0.5; indexes.len()];
    let changes = Changes::Sparse { indexes, values: &values };
    let (mut out, mut buffers) = (Vec::new(), Buffers::default());
    let encoded = encode(changes, format, &mut out);
    let (index_section, value_section) = out.split_at(encoded.index_bytes as usize);
    let decoded = median((0..ROUNDS).map(|_| {
        time(|| {
            let decoded =
                decode(index_section, value_section, format, PARAMETERS as usize, &mut buffers);
            black_box(decoded.expect("what was encoded decodes"));
        })
    }));
    let mut again = Vec::with_capacity(out.len());
    let coded = median((0..ROUNDS).map(|_| {
        again.clear();
        time(|| _ = black_box(encode(changes, format, &mut again)))
    }));
    let fitted =
        median((0..ROUNDS).map(|_| time(|| _ = black_box(fit(indexes, format, out.len() / 3)))));
    let rate = |took: Duration| indexes.len() as f64 / took.as_secs_f64() / 1e6;
    let passes = |took: Duration| took.as_secs_f64() / indexes.len() as f64 / per_value;
    println!(
        "{name:<36} {:>9} {:>9.3} {:>7.0} {:>7.0} {:>7.0}  ({:.1}, {:.1}, {:.1})",
        indexes.len(),
        (out.len() - 2 * indexes.len()) as f64 / indexes.len() as f64,
        rate(coded),
        rate(decoded),
        rate(fitted),
        passes(coded),
        passes(decoded),
        passes(fitted),
    );
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}
