//! A run file that the program carries out in virtual time within a second.

/// Three regions over slow links, and a model small enough for a test.
pub(crate) const RUN: &str = r#"
    name = "small"
    seed = 7
    driver = "simulated"

    [app]
    kind = "matrix-factorization"
    rank = 4
    data.synthetic = { users = 60, items = 40, ratings = 1500, rank = 2, noise = 0.3 }

    [topology]
    file = "three-regions"
    bandwidth_scale = 0.01

    [sync.remote]
    model = "asp"

    [compute]
    examples_per_second = 1000.0

    [evaluate]
    every = 5

    [stop]
    clocks = 40
"#;
