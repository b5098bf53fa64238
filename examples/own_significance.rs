//! A significance function of one's own, beside the one that Gaia has.
//!
//! The paper measures an update by how much it changes the value that it changes. Here a parameter is measured against
//! its whole row instead: a change of a small number in a row of large ones can wait.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;

use gaia::{Outcome, RunFile, RunOptions, Significance, Unobserved};

const RUN: &str = r#"
    name = "own-significance"
    topology = { file = "three-regions", bandwidth_scale = 0.01 }
    compute.examples_per_second = 2000.0
    stop.clocks = 60

    [app]
    kind = "matrix-factorization"
    rank = 8
    data.synthetic = { users = 200, items = 100, ratings = 6000, rank = 3, noise = 0.3 }

    [sync.remote]
    model = "asp"
    goal = "cost"
    threshold = 0.02
"#;

/// |residual| ÷ the largest magnitude in the parameter's row.
struct OfTheRow;

impl Significance for OfTheRow {
    /// Without this, `measure` might see a part of a row.
    fn by_row(&self) -> bool {
        true
    }

    fn measure(
        &self,
        residuals: &[f32],
        values: &[f32],
        width: usize,
        floor: f32,
        out: &mut [f32],
    ) {
        let rows = residuals.chunks_exact(width).zip(values.chunks_exact(width));
        for (out, (residuals, values)) in out.chunks_exact_mut(width).zip(rows) {
            let largest = values.iter().fold(floor, |largest, value| largest.max(value.abs()));
            for (out, residual) in out.iter_mut().zip(residuals) {
                *out = residual.abs() / largest;
            }
        }
    }
}

pub fn main() -> Result<(), Box<dyn Error>> {
    for (name, own) in [("built in", None), ("own", Some(of_the_row()))] {
        let Outcome { summary, .. } = train(own)?;
        println!(
            "{name:8}  {:7} bytes over the WAN  {:4.1} % of all changes  objective {:.4}",
            summary.wan_bytes,
            100.0 * summary.significant_fraction,
            summary.objective
        );
    }
    Ok(())
}

pub fn of_the_row() -> Arc<dyn Significance> {
    Arc::new(OfTheRow)
}

/// Trains with the function that the run file names, or with one that takes its place.
pub fn train(significance: Option<Arc<dyn Significance>>) -> Result<Outcome, Box<dyn Error>> {
    let plan = RunFile::from_text("own-significance.toml", RUN, &[])?.plan()?;
    let application = gaia::build(&plan)?;
    let options = RunOptions { significance, ..RunOptions::default() };

    Ok(gaia::run_with(&plan, &application, &options, &mut Unobserved)?)
}
