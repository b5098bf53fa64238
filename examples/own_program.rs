//! A program with an application of its own and every verb of `gaia`. Its run file has `kind = "external"`:
//!
//! ```sh
//! cargo run --release --example own_program -- train examples/own_program.toml
//! cargo run --release --example own_program -- compare examples/own_program.toml --remote bsp,asp
//! cargo run --release --example own_program -- train examples/own_program.toml --driver real
//! ```

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;

use gaia::{Application, Applications, BuiltIn, DataError, Plan};
use serde::Deserialize;

#[path = "own_application.rs"]
#[expect(dead_code, unreachable_pub, reason = "it is a program too")]
mod own_application;

/// What `[app.settings]` of the run file says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    examples_per_worker: usize,
}

/// The application of this program, and those that are built in.
struct Own;

impl Applications for Own {
    fn build(&self, plan: &Plan, workers: Range<usize>) -> Result<Arc<dyn Application>, DataError> {
        let Some(external) = plan.external() else { return BuiltIn.build(plan, workers) };
        let Settings { examples_per_worker } = external.read()?;
        if examples_per_worker == 0 {
            return Err(DataError::Application(
                "no examples, expected some for each worker".into(),
            ));
        }
        Ok(own_application::LeastSquares::over(plan.topology.workers(), examples_per_worker))
    }
}

fn main() -> ExitCode {
    gaia::cli::run(std::env::args_os(), &Own).into()
}
