//! Why an evaluation did not come to its end.

use gaia_config::ConfigError;
use gaia_data::DataError;
use gaia_driver::RunError;

/// Why an evaluation did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// A run file, or a setting laid over it, is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{run}: {error}")]
    Data { run: String, error: DataError },
    #[error("{run}: {error}")]
    Run { run: String, error: RunError },
    /// Shipped settings that are not TOML.
    #[error("{name}: {problem}")]
    Settings { name: String, problem: String },
    /// A request for what the suite does not have.
    #[error("{flag}: there is no `{found}`, expected {expected}")]
    Unknown { flag: &'static str, found: String, expected: String },
    /// No objective to compare by.
    #[error(
        "{run}: BSP on the LAN did not settle within {clocks} clocks: give it more, or make it learn faster"
    )]
    NotSettled { run: String, clocks: u64 },
}
