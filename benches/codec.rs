//! What an index and what a value cost, in bytes and in time, for the patterns that training makes.
//!
//! At 1 % of random parameters the entropy is 1.01 bytes an index, and at 100 Mbit/s a link takes 4 million
//! updates of 3 bytes a second: coding at 50 million a second costs one tenth of a core on such a link.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

#[path = "rows/mod.rs"]
mod rows;

use std::hint::black_box;

use gaia_core::codec::{Buffers, Changes, ValueFormat, decode, encode, fit, quantise};
use gaia_core::types::{Random, Seed};
use rand::RngExt;
use rows::{Rows, seconds};

const PARAMETERS: u32 = 10_000_000;

fn main() {
    let mut rows = Rows::new();
    let mut random = Seed(1).child("codec").random();
    for (name, density) in
        [("0.1 %", 0.001), ("1 %", 0.01), ("5 %", 0.05), ("20 %", 0.2), ("60 %", 0.6)]
    {
        let indexes = scattered(density, &mut random);
        index_size(&mut rows, name, &indexes);
        times(&mut rows, &format!("random {name}"), &indexes);
    }
    for (name, indexes) in [
        ("10 % of rows of 16", in_rows(16, 0.1, 1.0, &mut random)),
        ("10 % of rows of 32", in_rows(32, 0.1, 1.0, &mut random)),
        ("10 % of rows of 32, half of each", in_rows(32, 0.1, 0.5, &mut random)),
        ("10 % of rows of 50, half of each", in_rows(50, 0.1, 0.5, &mut random)),
        ("10 % of rows of 32, a tenth of each", in_rows(32, 0.1, 0.1, &mut random)),
    ] {
        times(&mut rows, name, &indexes);
    }
    formats(&mut rows, &mut random);
    errors(&mut rows, &mut random);
}

/// A row for the bytes of an index, beside the entropy of whether each parameter is one of them.
fn index_size(rows: &mut Rows, name: &str, indexes: &[u32]) {
    let (mut out, values) = (Vec::new(), vec![0.5; indexes.len()]);
    let encoded = encode(Changes::Sparse { indexes, values: &values }, ValueFormat::Bf16, &mut out);
    let share = indexes.len() as f64 / f64::from(PARAMETERS);
    let bits = -share * share.log2() - (1.0 - share) * (1.0 - share).log2();
    let entropy = bits / 8.0 / share;
    let bytes = f64::from(encoded.index_bytes) / indexes.len() as f64;
    rows.print(&format!("an index, random {name}"), "bytes", &[bytes], ("entropy", &[entropy]));
}

/// Rows for coding changed parameters in bf16, beside reading and writing as many numbers.
fn times(rows: &mut Rows, name: &str, indexes: &[u32]) {
    let format = ValueFormat::Bf16;
    let values = vec![0.5; indexes.len()];
    let changes = Changes::Sparse { indexes, values: &values };
    let (mut out, mut buffers) = (Vec::new(), Buffers::default());
    let encoded = encode(changes, format, &mut out);
    let (index_section, value_section) = out.split_at(encoded.index_bytes as usize);
    let mut again = Vec::with_capacity(out.len());
    let mut passed = vec![1.0_f32; indexes.len()];

    timed(rows, &format!("encode {name}"), &mut passed, || {
        again.clear();
        black_box(encode(changes, format, &mut again));
    });
    timed(rows, &format!("decode {name}"), &mut passed, || {
        let decoded =
            decode(index_section, value_section, format, PARAMETERS as usize, &mut buffers);
        black_box(decoded.expect("what was encoded decodes"));
    });
    timed(rows, &format!("fit a third of {name}"), &mut passed, || {
        black_box(fit(indexes, format, out.len() / 3));
    });
}

/// Rows for coding dense values in each format.
fn formats(rows: &mut Rows, random: &mut Random) {
    let mut passed = vec![1.0_f32; PARAMETERS as usize];
    let values: Vec<f32> = (0..PARAMETERS).map(|_| normal(random)).collect();
    let changes = Changes::Dense { start: 0, values: &values };
    for format in ValueFormat::ALL {
        let (mut out, mut buffers) = (Vec::new(), Buffers::default());
        let encoded = encode(changes, format, &mut out);
        let (indexes, coded) = out.split_at(encoded.index_bytes as usize);
        let mut again = Vec::with_capacity(out.len());
        timed(rows, &format!("encode values as {}", format.name()), &mut passed, || {
            again.clear();
            black_box(encode(changes, format, &mut again));
        });
        timed(rows, &format!("decode values of {}", format.name()), &mut passed, || {
            let decoded = decode(indexes, coded, format, values.len(), &mut buffers);
            black_box(decoded.expect("what was encoded decodes"));
        });
    }
}

/// A row for a number, in nanoseconds, beside a pass that reads and writes `passed`.
fn timed(rows: &mut Rows, name: &str, passed: &mut [f32], mut work: impl FnMut()) {
    let each = 1e9 / passed.len() as f64;
    // A pass over few numbers takes less than the clock can tell.
    let repeats = PARAMETERS as usize / passed.len();
    let (mut times, mut passes) = (Vec::new(), Vec::new());
    for _ in 0..rows.runs() {
        let all_passes = seconds(|| {
            for _ in 0..repeats {
                passed.iter_mut().for_each(|value| *value *= 1.000_1);
                black_box(&mut *passed);
            }
        });
        passes.push(each * all_passes / repeats as f64);
        times.push(each * seconds(&mut work));
    }
    rows.print(name, "ns", &times, ("a pass", &passes));
}

/// Rows for what each format loses of values of one size and of many.
fn errors(rows: &mut Rows, random: &mut Random) {
    let gaussian: Vec<f32> = (0..PARAMETERS).map(|_| normal(random)).collect();
    let long_tailed: Vec<f32> = gaussian.iter().map(|value| value * normal(random).exp()).collect();
    for format in ValueFormat::ALL {
        for (kind, values) in [("Gaussian", &gaussian), ("long-tailed", &long_tailed)] {
            let name = format!("{} loses of {kind} values", format.name());
            rows.print(&name, "of RMS", &[error(values, format)], ("no reference", &[]));
        }
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

fn in_rows(width: u32, density: f64, kept: f64, random: &mut Random) -> Vec<u32> {
    let mut indexes = Vec::new();
    for row in 0..PARAMETERS / width {
        if random.random_bool(density) {
            let row = row * width..(row + 1) * width;
            indexes.extend(row.filter(|_| kept == 1.0 || random.random_bool(kept)));
        }
    }
    indexes
}
