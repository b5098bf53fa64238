//! What examples on disk cost a clock: the time of a worker's pass whose examples are on disk, beside one whose examples are
//! in memory, in turns.
//!
//! A pass over images reads 157 MB, one over ratings 24 MB, in windows of a few megabytes that are read ahead. What is lost
//! is the time that a worker waits for a window, and that of the cores that read it. The files are in the cache of the
//! system: with a disk that reads slower than a worker visits examples, the disk decides.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use gaia_core::application::Application;
use gaia_core::topology::DataHome;
use gaia_core::types::{Clock, Seed};
use gaia_ml::apps::AppConfig;

const IMAGES: usize = 200_000;
const PIXELS: usize = 784;
const RATINGS: usize = 2_000_000;
const ROUNDS: usize = 5;

fn main() {
    let folder = tempfile::tempdir().expect("room for data");
    let path = folder.path();
    write_images(path);
    write_ratings(&path.join("ratings.csv"));
    let images = format!(
        "batch = 128\nhidden = [256]\ndata.source = 'idx'\ndata.path = '{}'",
        path.display()
    );
    let ratings = format!(
        "rank = 16\nclocks_per_pass = 100\ndata.source = 'movielens'\ndata.path = '{}'",
        path.join("ratings.csv").display()
    );
    for (name, kind, keys) in [
        ("perceptron 784-256-10", "perceptron", images),
        ("matrix factorisation of rank 16", "matrix-factorization", ratings),
    ] {
        let scratch = path.display();
        let on_disk =
            format!("data.examples = 'disk'\ndata.scratch = '{scratch}'\ndata.memory = '32 MiB'");
        let [memory, disk] = ["", &on_disk].map(|more| build(kind, &format!("{keys}\n{more}")));
        let pass = |app: &Arc<dyn Application>| seconds_of_a_pass(&**app);
        let mut ratios: Vec<f64> = (0..ROUNDS).map(|_| pass(&disk) / pass(&memory)).collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "{name}: a clock on disk took {:.4} of one in memory: median of {ROUNDS} pairs, {:.4} to {:.4}",
            ratios[ROUNDS / 2],
            ratios[0],
            ratios[ROUNDS - 1]
        );
    }
}

fn build(kind: &str, keys: &str) -> Arc<dyn Application> {
    let keys = toml::Deserializer::parse(keys).expect("TOML");
    let config = AppConfig::deserialize(kind, keys).expect("good keys");
    let home = DataHome { name: "a".into(), workers: 1 };
    gaia_data::build(Some(&config), &[home], Seed(1)).expect("good data")
}

/// Runs the clocks of one pass on a model that does not move.
fn seconds_of_a_pass(app: &dyn Application) -> f64 {
    let model = app.initial_model(Seed(1));
    let mut task = app.task(0, Seed(2));
    let begun = Instant::now();
    for clock in (0..app.clocks_per_pass()).map(Clock) {
        task.rows(clock);
        task.iterate(clock, &model).expect("data that is there");
    }
    begun.elapsed().as_secs_f64()
}

fn write_images(folder: &Path) {
    for (set, count) in [("train", IMAGES), ("t10k", 100)] {
        let sizes = |sizes: &[usize]| {
            let magic = [0, 0, 8, sizes.len() as u8];
            let sizes = sizes.iter().flat_map(|size| (*size as u32).to_be_bytes());
            magic.into_iter().chain(sizes).collect::<Vec<u8>>()
        };
        let mut images = sizes(&[count, 28, 28]);
        images.extend((0..count * PIXELS).map(|at| (at / PIXELS * 25 + at % 7) as u8));
        let mut labels = sizes(&[count]);
        labels.extend((0..count).map(|at| (at % 10) as u8));
        let write = |name: &str, bytes: Vec<u8>| {
            fs::write(folder.join(format!("{set}-{name}-ubyte")), bytes).expect("room for images");
        };
        write("images-idx3", images);
        write("labels-idx1", labels);
    }
}

fn write_ratings(file: &Path) {
    let row = |at: usize| format!("{},{},{}\n", at * 31 % 10_007, at * 17 % 5_003, at % 5 + 1);
    let rows: String = (0..RATINGS).map(row).collect();
    fs::write(file, rows).expect("room for ratings");
}
