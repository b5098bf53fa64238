//! How fast one thread computes: rating updates a second, arithmetic in dense layers, and a step of a
//! convolutional network against its matrix products alone.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gaia_core::application::Application;
use gaia_core::types::{Clock, Seed};
use gaia_ml::apps::{ConvolutionalNetworkConfig, convolutional_network};
use gaia_ml::divided::Divided;
use gaia_ml::examples::{DenseExamples, Features, Shape};
use gaia_ml::kernels::dense::{Matrix, inner_products, multiply};
use gaia_ml::kernels::factorization::{Rating, RowRates, descend};
use gaia_ml::kernels::vector::{axpy, dot, softmax};
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
        let rates = RowRates { factors: 0.001, bias: 0.001, way_max: 1.0 };
        let rates = [vec![rates; users as usize], vec![rates; items as usize]];
        group.bench_function(
            BenchmarkId::new("rank-width", format!("{rank}-{width}")),
            |bencher| {
                bencher.iter(|| {
                    descend(
                        black_box(&ratings),
                        rank,
                        width,
                        0.05,
                        1.0,
                        &mut user_rows,
                        &rates[0],
                        &mut item_rows,
                        &rates[1],
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

/// A worker's whole step of a small network on images like MNIST's, against its matrix products alone: how
/// much time goes to all that is no arithmetic.
fn convolution(_: &mut Criterion) {
    for (name, shape, filters) in [
        ("1×28×28", Shape { channels: 1, height: 28, width: 28 }, [8, 16]),
        ("3×32×32", Shape { channels: 3, height: 32, width: 32 }, [16, 32]),
        ("1×8×8", Shape { channels: 1, height: 8, width: 8 }, [16, 32]),
    ] {
        for batch in [8, 32] {
            let config = ConvolutionalNetworkConfig {
                filters: filters.into(),
                batch: Some(batch),
                ..Default::default()
            };
            let examples = DenseExamples {
                class_names: None,
                shape,
                classes: 10,
                features: Features::Floats(numbers(batch * shape.values())),
                labels: (0..batch as u32).map(|example| example % 10).collect(),
            };
            let parts = vec![Arc::from_iter(0..batch as u32)];
            let divided = Divided::new(examples.clone(), examples, parts);
            let app = convolutional_network(&config, divided, Seed(1), "");
            let model = app.initial_model(Seed(1));
            let mut task = app.task(0, Seed(1));
            let flops = task.iterate(Clock(0), &model).expect("built-in tasks do not fail").1.flops;
            let step = time_of(|| {
                black_box(task.iterate(Clock(0), black_box(&model)).is_ok());
            });
            let mut all = Products::of(shape, &filters, &config, batch);
            let products = time_of(|| all.run());
            println!(
                "convolution {name}, batch {batch:2}: step {:7.1} us, {:4.1} Gflop/s; products alone \
                 {:7.1} us; ratio {:.2}",
                1e6 * step,
                1e-9 * flops / step,
                1e6 * products,
                step / products,
            );
        }
    }
}

/// The matrix products of a step, on matrices of the same shapes.
struct Products {
    all: Vec<Product>,
}

struct Product {
    /// Rows, inner size and columns.
    size: [usize; 3],
    /// Whether each factor is stored as its transpose.
    transposed: [bool; 2],
    left: Vec<f32>,
    right: Vec<f32>,
    product: Vec<f32>,
}

impl Products {
    fn of(
        shape: Shape,
        filters: &[usize],
        config: &ConvolutionalNetworkConfig,
        batch: usize,
    ) -> Self {
        let mut all = Vec::new();
        let (mut channels, mut pixels) = (shape.channels, batch * shape.plane());
        for (layer, &filters) in filters.iter().enumerate() {
            let inputs = channels * config.kernel * config.kernel;
            all.push(Product::new([filters, inputs, pixels], [true, false]));
            all.push(Product::new([inputs, pixels, filters], [false, true]));
            if layer > 0 {
                all.push(Product::new([inputs, filters, pixels], [false, false]));
            }
            (channels, pixels) = (filters, pixels / config.pool / config.pool);
        }
        let mut inputs = channels * pixels / batch;
        for &units in config.hidden.iter().chain([&10]) {
            all.push(Product::new([batch, inputs, units], [false, false]));
            all.push(Product::new([inputs, batch, units], [true, false]));
            all.push(Product::new([batch, units, inputs], [false, true]));
            inputs = units;
        }
        Self { all }
    }

    fn run(&mut self) {
        for Product { size: [rows, inner, columns], transposed, left, right, product } in
            &mut self.all
        {
            if *transposed == [false, true] && *inner > *rows {
                inner_products(left, right, *inner, black_box(product));
                continue;
            }
            let left = match transposed[0] {
                false => Matrix::new(left, *rows, *inner),
                true => Matrix::new(left, *inner, *rows).transposed(),
            };
            let right = match transposed[1] {
                false => Matrix::new(right, *inner, *columns),
                true => Matrix::new(right, *columns, *inner).transposed(),
            };
            multiply(left, right, 1.0, 0.0, black_box(product));
        }
    }
}

impl Product {
    fn new(size: [usize; 3], transposed: [bool; 2]) -> Self {
        let [rows, inner, columns] = size;
        let (left, right) = (numbers(rows * inner), numbers(inner * columns));
        Self { size, transposed, left, right, product: vec![0.0; rows * columns] }
    }
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at as f32 * 0.37).sin()).collect()
}

/// The shortest of many runs, in seconds.
fn time_of(mut run: impl FnMut()) -> f64 {
    let mut shortest = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        run();
        shortest = shortest.min(start.elapsed().as_secs_f64());
    }
    shortest
}

const RUNS: usize = 300;

criterion_group! {
    name = kernels;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    targets = matrix_factorization, dense, vectors, convolution
}
criterion_main!(kernels);
