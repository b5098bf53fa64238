//! How fast one thread computes: rating updates a second, and arithmetic in dense layers.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gaia::ml::kernels::dense::{Matrix, multiply};
use gaia::ml::kernels::factorization::{Rating, descend};
use gaia::ml::kernels::vector::{axpy, dot, softmax};
use gaia::types::Seed;
use rand::RngExt;

/// Rows of a batch of 100,000 ratings in random order, larger than the second cache at rank 128.
fn matrix_factorization(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("matrix-factorization");
    let (users, items) = (2_000, 2_000);
    let mut random = Seed(1).random();
    let ratings: Vec<Rating> = (0..100_000)
        .map(|_| Rating {
            user: random.random_range(0..users),
            item: random.random_range(0..items),
            value: random.random_range(-2.0..2.0),
        })
        .collect();
    group.throughput(Throughput::Elements(ratings.len() as u64));
    for (rank, width) in [(16, 16), (16, 17), (32, 32), (32, 33), (128, 129)] {
        let mut user_rows = vec![0.1; users as usize * width];
        let mut item_rows = vec![0.1; items as usize * width];
        let (user_rates, item_rates) = (vec![0.001; users as usize], vec![0.001; items as usize]);
        group.bench_function(
            BenchmarkId::new("rank-width", format!("{rank}-{width}")),
            |bencher| {
                bencher.iter(|| {
                    descend(
                        black_box(&ratings),
                        rank,
                        width,
                        0.05,
                        &mut user_rows,
                        &user_rates,
                        &mut item_rows,
                        &item_rates,
                    );
                });
            },
        );
    }
    group.finish();
}

/// The products of one step of a perceptron 784-256-10; elements are multiplications with an addition.
fn dense(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dense");
    for batch in [32, 128] {
        let (inputs, outputs) = (784, 256);
        let left = vec![0.5; batch * inputs];
        let right = vec![0.25; inputs * outputs];
        let slope = vec![0.125; batch * outputs];
        let mut product = vec![0.0; batch * outputs];
        let mut gradient = vec![0.0; inputs * outputs];
        group.throughput(Throughput::Elements((batch * inputs * outputs) as u64));
        group.bench_function(BenchmarkId::new("forward", batch), |bencher| {
            bencher.iter(|| {
                let left = Matrix::new(black_box(&left), batch, inputs);
                multiply(left, Matrix::new(&right, inputs, outputs), 1.0, 0.0, &mut product);
            });
        });
        group.bench_function(BenchmarkId::new("gradient", batch), |bencher| {
            bencher.iter(|| {
                let left = Matrix::new(black_box(&left), batch, inputs).transposed();
                multiply(left, Matrix::new(&slope, batch, outputs), 1.0, 0.0, &mut gradient);
            });
        });
    }
    group.finish();
}

fn vectors(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("vector");
    let left = vec![0.5_f32; 4096];
    let mut right = vec![0.25_f32; 4096];
    group.throughput(Throughput::Elements(left.len() as u64));
    group.bench_function("dot", |bencher| bencher.iter(|| dot(black_box(&left), &right)));
    group.bench_function("axpy", |bencher| {
        bencher.iter(|| axpy(1e-6, black_box(&left), &mut right));
    });
    group.bench_function("softmax-10", |bencher| {
        let mut logits = left.clone();
        bencher.iter(|| {
            for row in logits.chunks_exact_mut(10) {
                black_box(softmax(row));
            }
        });
    });
    group.finish();
}

criterion_group! {
    name = kernels;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    targets = matrix_factorization, dense, vectors
}
criterion_main!(kernels);
