//! The errors of an evaluation.

use gaia_config::ConfigError;
use gaia_data::DataError;
use gaia_driver::RunError;
use gaia_report::ReportError;

/// Why an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// A run file, or a setting that overrides it, is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data of a run cannot be read or generated.
    #[error("{run}: {error}")]
    Data {
        /// The name of the run.
        run: String,
        /// What is wrong with the data.
        error: DataError,
    },
    /// A run failed.
    #[error("{run}: {error}")]
    Run {
        /// The name of the run.
        run: String,
        /// Why it failed.
        error: RunError,
    },
    /// A run that has ended cannot be kept.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Shipped settings are invalid TOML.
    #[error("{name}: {problem}")]
    Settings {
        /// The name of the settings.
        name: String,
        /// What is wrong with them.
        problem: String,
    },
    /// The request has a name that the suite lacks.
    #[error("{flag}: `{found}` does not exist, expected {expected}")]
    Unknown {
        /// The flag with the name.
        flag: &'static str,
        /// The name.
        found: String,
        /// The known names.
        expected: String,
    },
    /// A setting of the topology that runs over the paper's WANs replace.
    #[error(
        "--set {setting}: these sections run over WANs of their own at a scale that is fitted, expected no setting of `topology`, \
         or --only with {sections}"
    )]
    Fitted {
        /// The setting.
        setting: String,
        /// The sections that have it.
        sections: &'static str,
    },
    /// BSP on the LAN did not converge, so there is no target objective.
    #[error(
        "{run}: BSP on the LAN did not converge within {clocks} clocks: set more clocks or a higher learning rate"
    )]
    NotSettled {
        /// The name of the run.
        run: String,
        /// The number of clocks of the run.
        clocks: u64,
    },
}
