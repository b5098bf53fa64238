//! What reads bytes from outside, one function each: anything may be given to it, and it must answer.
//!
//! A [`Target`] is such a function. It panics where the code under test does, and where an answer breaks a law that
//! the target knows. Three things run it: libFuzzer (`cargo fuzz run NAME`), the plain loop of `mutate`, which needs
//! no nightly compiler, and the ordinary tests (`tests/hostile/` of the main package, which includes this file), which
//! replay `corpus/NAME/` and mutations of it.
//!
//! # Adding a target
//!
//! Write `src/yours.rs` with a `pub const TARGET: Target`, and name it here: a `mod` line and its place in
//! [`TARGETS`]. Then give libFuzzer its program, three lines in `Cargo.toml`, and write the seeds with
//! `cargo run --no-default-features --example seeds`. The tests fail until all of it is there, and from then on replay it.
//!
//! Seeds are small, and made by the encoder whose decoder is tested: so they go deep, and follow the format when it
//! changes. What a fuzzer found goes into `corpus/NAME/` beside them, under a name that says what it was, with a line in
//! `README.md`. A frame's CRC would keep every mutation out: [`sealed()`] makes it right again.

mod announcement;
mod bulk;
mod cifar;
mod columns;
mod control;
mod csv;
mod docword;
mod envelope;
mod files;
mod idx;
mod lan;
mod libsvm;
mod log;
mod manifest;
mod matrix;
mod model;
mod movielens;
mod mutations;
mod parquet;
mod run_directory;
mod run_file;
mod sealed;
mod server;
mod session;
mod stream;
mod topology;
mod vocabulary;

pub use mutations::Mutations;
pub use sealed::sealed;
pub use server::Node;

/// One reader of bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As `cargo fuzz` and the folders of `corpus/` call it.
    pub name: &'static str,
    /// Takes any bytes; panics where something is wrong with what reads them.
    pub check: fn(&[u8]),
    /// Good input by the name of its file in the corpus.
    pub seeds: fn() -> Vec<Seed>,
}

/// A file name, and what is in the file.
pub type Seed = (&'static str, Vec<u8>);

/// Every target, in the order of its name.
pub const TARGETS: &[Target] = &[
    announcement::TARGET,
    bulk::TARGET,
    cifar::TARGET,
    control::TARGET,
    csv::TARGET,
    docword::TARGET,
    envelope::TARGET,
    idx::TARGET,
    lan::TARGET,
    libsvm::TARGET,
    log::TARGET,
    manifest::TARGET,
    matrix::TARGET,
    model::TARGET,
    movielens::TARGET,
    parquet::TARGET,
    run_directory::TARGET,
    run_file::TARGET,
    server::TARGET,
    session::TARGET,
    stream::TARGET,
    topology::TARGET,
    vocabulary::TARGET,
];

impl Target {
    /// The target of that name.
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.iter().find(|target| target.name == name).copied()
    }
}
