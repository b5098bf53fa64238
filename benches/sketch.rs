//! What a count sketch leaves out for its bytes, beside the largest changes that sparse rounds send.
//!
//! Sketches are linear: data centers add up sketches of what they owe, in tables of a fixed size that know no owner of a
//! parameter. All find the largest changes of the sum in the total, and add up their exact values in a second exchange, as
//! in Sketched-SGD (Ivkin et al., NeurIPS 2019) and gs-SGD. Each data center of a sparse round sends its own largest changes
//! to the homes of blocks, and a home sends back the sum: all parameters that a part has, or the largest of them, as many as
//! a part has. Without homes each data center sends its largest changes to all others.
//!
//! Bytes are those that one data center sends in a round, by the codec, without headers. Energy is the squared length of the
//! sum of all changes. Changes are long-tailed (a normal number times e to the power of another), with no common part or with
//! half of their energy common to all data centers.
//!
//! About a minute: `cargo bench --bench sketch`.
#![allow(clippy::print_stdout, reason = "a bench measures and prints")]

use std::slice::from_ref;

use gaia_core::codec::{Changes, ValueFormat, encoded_len, quantise};
use gaia_core::significance;
use gaia_core::types::Seed;
use rand::RngExt;
use rand_distr::StandardNormal;

fn main() {
    println!(
        "{PARAMETERS} changes in each data center; kB that a data center sends until this share of the energy is left"
    );
    println!(
        "{:>4} {:>7} {:>5}  {:>9} {:>9} {:>9} {:>9}  sketch / the better homes, / no homes",
        "DCs", "common", "left", "homes", "limited", "no homes", "sketch"
    );

    let hashes: Vec<Hash> = (0..SKETCH_ROWS_MAX).map(Hash::new).collect();
    let (mut beside_better, mut beside_program) = (f64::INFINITY, f64::INFINITY);
    let mut wins_without_homes = Vec::new();
    for data_centers in [2, 11, 100] {
        for common in [0.0, 0.5] {
            let changes = Changed::new(data_centers, common);
            let sparse = changes.sparse();
            let sketched = changes.sketched(&hashes);

            for left in LEFT {
                let [all, limited, direct] =
                    sparse.each_ref().map(|points| least_bytes(points, left));
                let sketch = least_bytes(&sketched, left);
                let ratio = sketch / all.min(limited);
                println!(
                    "{data_centers:>4} {common:>7} {left:>5}  {:>9} {:>9} {:>9} {:>9}  {ratio:.1}, {:.2}",
                    kilobytes(all),
                    kilobytes(limited),
                    kilobytes(direct),
                    kilobytes(sketch),
                    sketch / direct
                );
                if data_centers > 2 && ratio.is_finite() {
                    beside_better = beside_better.min(ratio);
                    beside_program = beside_program.min(sketch / all);
                }
                if sketch < direct {
                    wins_without_homes
                        .push(format!("{data_centers} data centers, {common} common, {left} left"));
                }
            }
        }
    }

    println!(
        "\nwith homes, 11 and 100 data centers: a sketch needs at least {beside_better:.1} times the bytes of the better \
         totals, and {beside_program:.1} times those of totals of all that parts have, as the program's are"
    );
    println!("without homes it needs fewer bytes at: {}", wins_without_homes.join("; "));
}

/// Bytes that a data center sends, and the share of the energy that is left.
type Point = (f64, f64);

/// The fewest bytes after which at most this share of the energy is left. Infinity if none of the points is there.
fn least_bytes(points: &[Point], left: f64) -> f64 {
    let enough = points.iter().filter(|point| point.1 <= left);
    enough.map(|point| point.0).fold(f64::INFINITY, f64::min)
}

fn kilobytes(bytes: f64) -> String {
    if bytes.is_finite() { format!("{:.1}", bytes / 1e3) } else { "-".into() }
}

/// The changes of each data center, and their sum.
struct Changed {
    own: Vec<Vec<f32>>,
    sum: Vec<f32>,
}

impl Changed {
    fn new(data_centers: usize, common: f32) -> Self {
        let mut random = Seed(1).child("sketch").random();
        let mut draw = || -> Vec<f32> {
            let normal = |_| {
                let (one, other): (f32, f32) =
                    (random.sample(StandardNormal), random.sample(StandardNormal));
                one * other.exp()
            };
            (0..PARAMETERS).map(normal).collect()
        };

        let shared = draw();
        let mix = |own: Vec<f32>| -> Vec<f32> {
            let both = own.iter().zip(&shared);
            both.map(|(own, shared)| (1.0 - common).sqrt() * own + common.sqrt() * shared).collect()
        };
        let own: Vec<Vec<f32>> = (0..data_centers).map(|_| mix(draw())).collect();

        let mut sum = vec![0.0; PARAMETERS];
        own.iter().for_each(|own| add(&mut sum, own));
        Self { own, sum }
    }

    /// Sparse rounds of many densities: with homes that send back all that parts have, with homes that send back as many
    /// changes as a part has, and without homes.
    fn sparse(&self) -> [Vec<Point>; 3] {
        let peers = (self.own.len() - 1) as f64;
        let share = peers / self.own.len() as f64;
        let mut points = [const { Vec::new() }; 3];

        let mut count = 16;
        while count <= PARAMETERS {
            let (mut total, mut part_bytes) = (vec![0.0; PARAMETERS], 0.0);
            for own in &self.own {
                let (indexes, values) = largest(own, count);
                part_bytes += bytes(&indexes, &values) / self.own.len() as f64;
                add_sparse(&mut total, &indexes, &values);
            }
            let changed = total.iter().filter(|value| **value != 0.0).count();

            points[2].push((peers * part_bytes, self.left(&total)));
            for (points, count) in points.iter_mut().zip([changed, count]) {
                let (indexes, values) = largest(&total, count);
                let mut sent = vec![0.0; PARAMETERS];
                add_sparse(&mut sent, &indexes, &values);
                // Each home sends its share of the total to each peer.
                let step_bytes = share * bytes(&indexes, &values);
                points.push((share * part_bytes + step_bytes, self.left(&sent)));
            }
            count += count / 4;
        }
        points
    }

    /// Sketches of many sizes, each with the values of many numbers of parameters.
    fn sketched(&self, hashes: &[Hash]) -> Vec<Point> {
        let share = 2.0 * (self.own.len() - 1) as f64 / self.own.len() as f64;
        let mut points = Vec::new();
        for rows in SKETCH_ROWS {
            for columns in (5..=17).map(|power| 1 << power) {
                for format in [ValueFormat::Int8, ValueFormat::Int4] {
                    let estimates = self.estimates(&hashes[..rows], columns, format);
                    let sketch_bytes = share * format.bytes(rows * columns) as f64;

                    let mut count = 16;
                    while count <= PARAMETERS / 2 {
                        let mut chosen = vec![false; PARAMETERS];
                        for place in places_of_largest(&estimates, count) {
                            chosen[place as usize] = true;
                        }
                        let sent = self.sum_of(&chosen);
                        let value_bytes = share * ValueFormat::Int4.bytes(count) as f64;
                        points.push((sketch_bytes + value_bytes, self.left(&sent)));
                        count *= 2;
                    }
                }
            }
        }
        points
    }

    /// What the total of all sketches says of each parameter: the median of its cells.
    fn estimates(&self, hashes: &[Hash], columns: usize, format: ValueFormat) -> Vec<f32> {
        let mut total = vec![0.0; hashes.len() * columns];
        for own in &self.own {
            let mut sketch = vec![0.0; total.len()];
            for (hash, row) in hashes.iter().zip(sketch.chunks_exact_mut(columns)) {
                for (value, hashed) in own.iter().zip(&hash.0) {
                    row[*hashed as usize >> 1 & (columns - 1)] += signed(*value, *hashed);
                }
            }
            quantise(&mut sketch, format);
            add(&mut total, &sketch);
        }
        quantise(&mut total, format);

        let estimate = |place: usize| {
            let cells = hashes.iter().zip(total.chunks_exact(columns)).map(|(hash, row)| {
                let hashed = hash.0[place];
                signed(row[hashed as usize >> 1 & (columns - 1)], hashed)
            });
            let mut cells: Vec<f32> = cells.collect();
            cells.sort_unstable_by(f32::total_cmp);
            cells[cells.len() / 2]
        };
        (0..PARAMETERS).map(estimate).collect()
    }

    /// The sum of the chosen changes, in four bits. Parts are rounded alike: the total says about what is lost.
    fn sum_of(&self, chosen: &[bool]) -> Vec<f32> {
        let places = (0..PARAMETERS).filter(|place| chosen[*place]);
        let mut values: Vec<f32> = places.clone().map(|place| self.sum[place]).collect();
        quantise(&mut values, ValueFormat::Int4);
        let mut sent = vec![0.0; PARAMETERS];
        places.zip(values).for_each(|(place, value)| sent[place] = value);
        sent
    }

    fn left(&self, sent: &[f32]) -> f64 {
        let square = |value: f32| f64::from(value).powi(2);
        let lost = self.sum.iter().zip(sent).map(|(sum, sent)| square(sum - sent)).sum::<f64>();
        lost / self.sum.iter().map(|sum| square(*sum)).sum::<f64>()
    }
}

/// The column and the sign of each parameter in one row of a sketch.
struct Hash(Vec<u32>);

impl Hash {
    fn new(row: usize) -> Self {
        let mut random = Seed(2).child("hash").child(&row.to_string()).random();
        Self((0..PARAMETERS).map(|_| random.random()).collect())
    }
}

fn signed(value: f32, hashed: u32) -> f32 {
    if hashed & 1 == 0 { value } else { -value }
}

/// The `count` largest values and their places, in four bits.
fn largest(values: &[f32], count: usize) -> (Vec<u32>, Vec<f32>) {
    let indexes = places_of_largest(values, count);
    let mut taken: Vec<f32> = indexes.iter().map(|index| values[*index as usize]).collect();
    quantise(&mut taken, ValueFormat::Int4);
    (indexes, taken)
}

fn places_of_largest(values: &[f32], count: usize) -> Vec<u32> {
    significance::largest(values, from_ref(&(0..values.len())), count)
}

fn bytes(indexes: &[u32], values: &[f32]) -> f64 {
    encoded_len(Changes::Sparse { indexes, values }, ValueFormat::Int4) as f64
}

fn add(sum: &mut [f32], values: &[f32]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

fn add_sparse(sum: &mut [f32], indexes: &[u32], values: &[f32]) {
    Changes::Sparse { indexes, values }.add_to(sum);
}

const PARAMETERS: usize = 1 << 17;
const SKETCH_ROWS: [usize; 3] = [1, 3, 5];
const SKETCH_ROWS_MAX: usize = 5;
const LEFT: [f64; 4] = [0.9, 0.7, 0.5, 0.3];
