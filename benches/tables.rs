//! How fast files of columns are read: rows per second of csv and Parquet, beside pyarrow and polars on the same files
//! where Python has them. `PYTHON` names the interpreter.
//!
//! Ten million ratings are 240 MB as decoded columns. A reader of Parquet decompresses and copies them once; a reader of
//! csv looks at each byte of 180 MB about three times: for the end of its field, as a digit, and as a part of a name. Both
//! libraries of Python decode on all cores, and Gaia on one, so they are also asked to use one.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use gaia_core::types::Seed;
use gaia_data::TableWriter;
use gaia_data::table::{Content, Request, Table, TableFormat};
use rand::RngExt;

const ROWS: usize = 10_000_000;
const ROUNDS: usize = 5;

/// Prints the best seconds of five readings of a file.
const PYTHON: &str = "\
import sys, time
library, path, cores = sys.argv[1:]
columns = ['user', 'item', 'rating']
if library == 'pyarrow':
    import pyarrow as pa, pyarrow.csv, pyarrow.parquet as parquet
    pa.set_cpu_count(2 if cores == 'all' else 1)
    threads = cores == 'all'
    def read():
        if path.endswith('.parquet'):
            return parquet.read_table(path, columns=columns, use_threads=threads).num_rows
        return pa.csv.read_csv(path, read_options=pa.csv.ReadOptions(use_threads=threads)).num_rows
else:
    import polars as pl
    def read():
        if path.endswith('.parquet'):
            return pl.read_parquet(path, columns=columns).height
        return pl.read_csv(path).height
best = 1e9
for _ in range(5):
    start = time.perf_counter()
    rows = read()
    best = min(best, time.perf_counter() - start)
assert rows == 10_000_000
print(best)
";

fn main() {
    let folder = tempfile::tempdir().expect("room for files");
    let rows = ratings();
    println!("{ROWS} ratings, best of {ROUNDS}: million rows/s (times Gaia's time)");
    println!(
        "{:>16} {:>8} {:>16} {:>16} {:>16} {:>16}",
        "file", "Gaia", "pyarrow, 1 core", "pyarrow", "polars, 1 core", "polars"
    );
    for (name, format) in
        [("ratings.csv", TableFormat::csv(',')), ("ratings.parquet", TableFormat::Parquet)]
    {
        let file = folder.path().join(name);
        let mut writer = TableWriter::create(&file, rows.schema()).expect("a good name");
        writer.write(&rows).expect("room for a file");
        writer.finish().expect("room for a file");

        let own = (0..ROUNDS).map(|_| read(&file, format)).fold(f64::INFINITY, f64::min);
        let cell = |library: &str, cores: &str| match python(library, &file, cores) {
            Some(seconds) => format!("{:.1} ({:.2})", per_second(seconds), seconds / own),
            None => "skipped".into(),
        };
        println!(
            "{name:>16} {:>8.1} {:>16} {:>16} {:>16} {:>16}",
            per_second(own),
            cell("pyarrow", "one"),
            cell("pyarrow", "all"),
            cell("polars", "one"),
            cell("polars", "all"),
        );
    }
}

fn per_second(seconds: f64) -> f64 {
    ROWS as f64 / seconds / 1e6
}

/// Ratings as MovieLens has them: by user, of items that differ in popularity, in half stars.
fn ratings() -> RecordBatch {
    let mut random = Seed(1).child("tables").random();
    let users = (0..ROWS).map(|row| (row / 150) as i64 + 1);
    let users: ArrayRef = Arc::new(Int64Array::from_iter_values(users));
    let items = (0..ROWS).map(|_| (60_000.0 * random.random::<f64>().powi(3)) as i64 + 1);
    let items: ArrayRef = Arc::new(Int64Array::from_iter_values(items));
    let ratings = (0..ROWS).map(|_| random.random_range(1..=10) as f32 / 2.0);
    let ratings: ArrayRef = Arc::new(Float32Array::from_iter_values(ratings));
    RecordBatch::try_from_iter([("user", users), ("item", items), ("rating", ratings)])
        .expect("columns of the same length")
}

/// The seconds that one reading takes.
fn read(file: &Path, format: TableFormat) -> f64 {
    let requests = [
        Request::new("user", Content::Names, None),
        Request::new("item", Content::Names, None),
        Request::new("rating", Content::Numbers, None),
    ];
    let start = Instant::now();
    let table = Table::open(file, format).expect("a good file");
    let batches = table.read(&requests).expect("its columns");
    let rows: usize = batches.map(|batch| batch.expect("good rows").rows.len()).sum();
    assert_eq!(rows, ROWS);
    start.elapsed().as_secs_f64()
}

/// The seconds that a library of Python takes. `None` where it is not here.
fn python(library: &str, file: &Path, cores: &str) -> Option<f64> {
    #[allow(clippy::disallowed_methods, reason = "the interpreter is the user's choice")]
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let mut command = Command::new(python);
    if cores == "one" {
        command.env("POLARS_MAX_THREADS", "1");
    }
    let said = command.args(["-c", PYTHON, library]).arg(file).arg(cores).output().ok()?;
    String::from_utf8(said.stdout).ok()?.trim().parse().ok()
}
