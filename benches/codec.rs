//! What an index and what a value cost, in bytes and in time, for the patterns that training makes.
//!
//! At 1 % of random parameters the entropy is 1.01 bytes an index, and at 100 Mbit/s a link takes 4 million
//! updates of 3 bytes a second: coding at 50 million a second costs one tenth of a core on such a link.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use gaia_core::codec::{Buffers, Changes, ValueFormat, decode, encode, fit, quantise};
use gaia_core::types::{Random, Seed};
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
    report_formats(&mut random);
    report_entries(&mut random);
}

/// What each format makes of values of one size and of many, and how fast.
fn report_formats(random: &mut Random) {
    let copied = vec![1.0f32; PARAMETERS as usize];
    let mut copy = vec![0.0f32; PARAMETERS as usize];
    let copying = median((0..ROUNDS).map(|_| {
        time(|| {
            copy.copy_from_slice(&copied);
            black_box(&mut copy);
        })
    }));
    println!(
        "\n{:<8} {:>9} {:>14} {:>14}  error: RMS of what is lost / RMS",
        "", "B/value", "encode/copy", "decode/copy"
    );
    let gaussian: Vec<f32> = (0..PARAMETERS).map(|_| normal(random)).collect();
    let long_tailed: Vec<f32> = gaussian.iter().map(|value| value * normal(random).exp()).collect();
    for format in ValueFormat::ALL {
        let changes = Changes::Dense { start: 0, values: &gaussian };
        let (mut out, mut buffers) = (Vec::new(), Buffers::default());
        let encoded = encode(changes, format, &mut out);
        let mut again = Vec::with_capacity(out.len());
        let coded = median((0..ROUNDS).map(|_| {
            again.clear();
            time(|| _ = black_box(encode(changes, format, &mut again)))
        }));
        let (indexes, values) = out.split_at(encoded.index_bytes as usize);
        let decoded = median((0..ROUNDS).map(|_| {
            time(|| {
                let decoded = decode(indexes, values, format, gaussian.len(), &mut buffers);
                black_box(decoded.expect("what was encoded decodes"));
            })
        }));
        let ratio = |took: Duration| took.as_secs_f64() / copying.as_secs_f64();
        println!(
            "{:<8} {:>9.3} {:>14.2} {:>14.2}  Gaussian {:.5}, long-tailed {:.5}",
            format.name(),
            f64::from(encoded.value_bytes) / f64::from(PARAMETERS),
            ratio(coded),
            ratio(decoded),
            error(&gaussian, format),
            error(&long_tailed, format),
        );
    }
}

/// What one update at a random place costs with its index.
fn report_entries(random: &mut Random) {
    println!(
        "\n{:<8} {:>12} {:>12}  bytes an update, index and value",
        "", "random 1 %", "random 5 %"
    );
    let places = [scattered(0.01, random), scattered(0.05, random)];
    for format in ValueFormat::ALL {
        let cost = |indexes: &[u32]| {
            let values = vec![0.5; indexes.len()];
            let mut out = Vec::new();
            encode(Changes::Sparse { indexes, values: &values }, format, &mut out);
            out.len() as f64 / indexes.len() as f64
        };
        println!("{:<8} {:>12.3} {:>12.3}", format.name(), cost(&places[0]), cost(&places[1]));
    }
}

fn error(values: &[f32], format: ValueFormat) -> f64 {
    let mut rounded = values.to_vec();
    quantise(&mut rounded, format);
    let lost = values.iter().zip(&rounded).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
    (lost / values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>()).sqrt()
}

/// Near enough to a standard normal number: twelve uniform ones (their variance is a twelfth).
fn normal(random: &mut Random) -> f32 {
    (0..12).map(|_| random.random_range(-0.5f32..0.5)).sum()
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
