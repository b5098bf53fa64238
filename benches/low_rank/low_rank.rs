//! A low-rank round: for a matrix `M` of what is owed, the sum of `P = M·Q`, its orthonormal basis, and with that the sum
//! of `Q = Mᵀ·P`. The change is `P·Qᵀ`, and `Q` is where the next round begins.

use std::ops::Range;
use std::sync::Arc;

use gaia::{ModelLayout, Random, Seed};
use gaia_core::codec::{Changes, ValueFormat, encoded_len, quantise};
use gaia_ml::kernels::vector::{axpy, dot};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::Exchange;
use super::outer::Outer;
use super::training::DATA_CENTERS;

pub(super) struct LowRank {
    /// The format of the thin matrices.
    values: ValueFormat,
    tables: Vec<Table>,
    /// What each data center has not sent.
    owed: Vec<Vec<f32>>,
    /// Draws columns to begin with. All data centers draw the same.
    random: Random,
    /// All data centers take the same step from the same sums, without a byte. So the momentum is whole.
    outer: Outer,
}

/// A table, and how it is sent.
struct Table {
    place: Range<usize>,
    width: usize,
    /// `Q`, as many values of each column as the table is wide. `None` of a table that takes fewer bytes whole, at four bits.
    columns: Option<Vec<f32>>,
}

impl LowRank {
    pub(super) fn new(rank: usize, values: ValueFormat, layout: &Arc<ModelLayout>) -> Self {
        let mut random = Seed(1).child("low-rank").random();
        let tables = layout.table_ids().map(|id| {
            let table = layout.table(id);
            let start = layout.table_offset(id);
            let thin = values.bytes(rank * table.rows) + values.bytes(rank * table.width);
            let size = table.rows * table.width;
            let columns = (thin < ValueFormat::Int4.bytes(size)).then(|| {
                (0..rank * table.width).map(|_| random.sample::<f32, _>(StandardNormal)).collect()
            });
            Table { place: start..start + size, width: table.width, columns }
        });
        let tables = tables.collect();
        Self {
            values,
            tables,
            owed: vec![vec![0.0; layout.parameters()]; DATA_CENTERS],
            random,
            outer: Outer::new(layout.parameters()),
        }
    }
}

impl Exchange for LowRank {
    fn exchange(&mut self, own: &mut [Vec<f32>]) -> (Vec<f32>, f64) {
        for (owed, own) in self.owed.iter_mut().zip(own) {
            owed.iter_mut().zip(own).for_each(|(owed, own)| *owed += *own);
        }

        let (mut change, mut sent) = (vec![0.0; self.owed[0].len()], 0.0);
        for table in &mut self.tables {
            let place = table.place.clone();
            let mut owed: Vec<&mut [f32]> =
                self.owed.iter_mut().map(|owed| &mut owed[place.clone()]).collect();
            let change = &mut change[place];
            sent += match &mut table.columns {
                Some(columns) => exchange_thin(
                    &mut owed,
                    table.width,
                    columns,
                    self.values,
                    change,
                    &mut self.random,
                ),
                None => {
                    let mut parts: Vec<Vec<f32>> = owed.iter().map(|owed| owed.to_vec()).collect();
                    let (total, lost, bytes) = sum(&mut parts, ValueFormat::Int4);
                    for (owed, part) in owed.iter_mut().zip(&parts) {
                        owed.iter_mut().zip(part).for_each(|(owed, part)| *owed -= part);
                    }
                    owed[0].iter_mut().zip(&lost).for_each(|(owed, lost)| *owed += lost);
                    change.copy_from_slice(&total);
                    bytes
                }
            };
        }

        let mut step = vec![0.0; change.len()];
        self.outer.add_step(&change, &mut step);
        (step, sent)
    }
}

/// Agrees on the change of a matrix that each data center owes. Returns the bytes that a data center sends.
fn exchange_thin(
    owed: &mut [&mut [f32]],
    width: usize,
    columns: &mut Vec<f32>,
    values: ValueFormat,
    change: &mut [f32],
    random: &mut Random,
) -> f64 {
    let rows = change.len() / width;
    let mut parts: Vec<Vec<f32>> =
        owed.iter().map(|owed| times_columns(owed, width, columns)).collect();
    // What rounding loses here turns the basis a little, and no change is lost by it.
    let (mut basis, _, mut sent) = sum(&mut parts, values);
    orthonormalise(&mut basis, rows);

    let mut parts: Vec<Vec<f32>> =
        owed.iter().map(|owed| transposed_times(owed, width, &basis)).collect();
    let (total, lost, bytes) = sum(&mut parts, values);
    sent += bytes;
    for (owed, part) in owed.iter_mut().zip(&parts) {
        add_product(owed, width, &basis, part, -1.0);
    }
    // The home of a total owes what its rounding loses. Here it is the first data center, wherever the home is.
    add_product(owed[0], width, &basis, &lost, 1.0);
    add_product(change, width, &basis, &total, 1.0);
    *columns = total;
    // A column of 0 would stay so.
    for column in columns.chunks_exact_mut(width) {
        if column.iter().all(|value| *value == 0.0) {
            column.fill_with(|| random.sample(StandardNormal));
        }
    }
    sent
}

/// Rounds the parts, adds them up at their homes and rounds the total. Returns the total, what its rounding lost, and the
/// bytes that a data center sends: the blocks of other homes, and its own block to each other.
fn sum(parts: &mut [Vec<f32>], values: ValueFormat) -> (Vec<f32>, Vec<f32>, f64) {
    let mut exact = vec![0.0; parts[0].len()];
    for part in parts {
        quantise(part, values);
        exact.iter_mut().zip(part).for_each(|(sum, part)| *sum += *part);
    }
    let mut total = exact.clone();
    quantise(&mut total, values);
    let lost = exact.iter().zip(&total).map(|(exact, total)| exact - total).collect();
    let bytes = encoded_len(Changes::Dense { start: 0, values: &total }, values) as f64;
    (total, lost, 2.0 * (DATA_CENTERS - 1) as f64 / DATA_CENTERS as f64 * bytes)
}

/// `matrix · columns`, one column after the other, as all thin matrices are: values of one column share scales.
fn times_columns(matrix: &[f32], width: usize, columns: &[f32]) -> Vec<f32> {
    let product = columns
        .chunks_exact(width)
        .flat_map(|column| matrix.chunks_exact(width).map(|row| dot(row, column)));
    product.collect()
}

/// `matrixᵀ · basis`.
fn transposed_times(matrix: &[f32], width: usize, basis: &[f32]) -> Vec<f32> {
    let rows = matrix.len() / width;
    let mut product = vec![0.0; basis.len() / rows * width];
    for (basis, column) in basis.chunks_exact(rows).zip(product.chunks_exact_mut(width)) {
        for (factor, row) in basis.iter().zip(matrix.chunks_exact(width)) {
            axpy(*factor, row, column);
        }
    }
    product
}

/// Adds `sign · basis · columnsᵀ` to a matrix.
fn add_product(matrix: &mut [f32], width: usize, basis: &[f32], columns: &[f32], sign: f32) {
    let rows = matrix.len() / width;
    for (basis, column) in basis.chunks_exact(rows).zip(columns.chunks_exact(width)) {
        for (factor, row) in basis.iter().zip(matrix.chunks_exact_mut(width)) {
            axpy(sign * factor, column, row);
        }
    }
}

/// Makes columns orthonormal, from the first on (Gram and Schmidt, modified, twice: once leaves columns that were nearly
/// parallel far from orthogonal in single precision). A column that depends on those before becomes 0.
fn orthonormalise(columns: &mut [f32], rows: usize) {
    for at in 0..columns.len() / rows {
        let (before, rest) = columns.split_at_mut(at * rows);
        let column = &mut rest[..rows];
        let whole = dot(column, column);
        for _ in 0..2 {
            for other in before.chunks_exact(rows) {
                let along = dot(column, other);
                axpy(-along, other, column);
            }
        }
        let left = dot(column, column);
        let scale = if left > DEPENDENT * whole { left.sqrt().recip() } else { 0.0 };
        column.iter_mut().for_each(|value| *value *= scale);
    }
}

/// The share of its squared length that a dependent column has left, by rounding.
const DEPENDENT: f32 = 1e-10;
