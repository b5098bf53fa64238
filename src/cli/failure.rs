//! Why a verb did not get done.

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gaia_certificates::CertificateError;
use gaia_checkpoint::CheckpointError;
use gaia_config::{ConfigError, RunFile};
use gaia_data::{DataError, FilePosition};
use gaia_deploy::DeployError;
use gaia_driver::RunError;
use gaia_driver::real::RealError;
use gaia_ml::apps::AppConfig;
use gaia_paper::EvaluationError;
use gaia_planner::PlannerError;
use gaia_report::ReportError;

/// Why a verb did not get done, and whose doing it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A run file, a topology or a flag is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A data file is wrong.
    #[error(transparent)]
    Data(DataError),
    /// A flag or a variable of the environment is wrong.
    #[error("{0}")]
    Usage(String),
    /// A run directory is wrong, or could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Runs have ended, and their report could not be written.
    #[error(
        "{error}\n  the results are kept in {0}: `gaia report {0}` writes the report once it can be written",
        directory.display()
    )]
    Unreported {
        /// Why not.
        error: ReportError,
        /// The directory of the runs.
        directory: PathBuf,
    },
    /// Certificates are wrong, or could not be made or written.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// The scheduler cannot start such a run.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// A file of a deployment could not be written.
    #[error("{} cannot be written: {reason}", path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: std::io::Error,
    },
    /// The paper's evaluation did not come to its end.
    #[error(transparent)]
    Evaluation(EvaluationError),
    /// A checkpoint is invalid.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The driver cannot continue from a checkpoint.
    #[error("--resume: {0}")]
    NoCheckpoints(RunError),
    /// The files were right and the run failed.
    #[error(transparent)]
    Run(Box<dyn Error + Send + Sync>),
}

impl Failure {
    /// A run that failed for the reason given.
    pub(crate) fn run(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Run(reason.into())
    }

    /// A flag or a variable that is wrong for the reason given.
    pub(crate) fn usage(reason: impl ToString) -> Self {
        Self::Usage(reason.to_string())
    }

    /// An evaluation that did not come to its end; a setting that is wrong is shown as in every other verb.
    pub(crate) fn evaluation(error: EvaluationError) -> Self {
        match error {
            EvaluationError::Config(error) => Self::Config(error),
            EvaluationError::Report(error) => error.into(),
            other => Self::Evaluation(other),
        }
    }

    /// A directory that cannot be written to. Unless it is a disk that is full, whoever calls has to name another one.
    pub(crate) fn out(error: ReportError) -> Self {
        match error {
            ReportError::Io { path, doing, source }
                if !matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
            {
                Self::usage(format!(
                    "--out: `{}` {doing}: {source}, expected a directory that can be created and written",
                    path.display()
                ))
            }
            other => other.into(),
        }
    }

    /// A plan that could not be made; a setting that is wrong is shown as in every other verb.
    pub(crate) fn planning(error: PlannerError) -> Self {
        match error {
            PlannerError::Config(error) => Self::Config(error),
            other => Self::run(other),
        }
    }

    /// Data that cannot be had; a file that cannot be opened is shown where the run file names it, and one whose name is that of
    /// another format says so.
    pub(crate) fn data(error: DataError, run_file: &RunFile) -> Self {
        match error {
            DataError::Unreadable { file, reason } => {
                let data_centers = run_file.tables("app.data.at").into_iter();
                let mut keys = data_centers.map(|name| format!("app.data.at.{name}.path")).chain(
                    [
                        "app.data.vocabulary_path",
                        "app.data.path",
                        "app.model",
                        "evaluate.data",
                        "model.init",
                    ]
                    .map(String::from),
                );
                let key = keys.find(|key| run_file.names(key, &file));
                let key = key.unwrap_or_else(|| "app.data.path".into());
                Self::Config(run_file.unreadable(&key, &file, &reason))
            }
            DataError::Broken { file, place, found, mut expected } => {
                if let (FilePosition::Row(_) | FilePosition::Byte(_), Some(source)) =
                    (place, source_of_name(&file, run_file))
                {
                    expected +=
                        &format!("; app.data.source = \"{source}\" reads files of this name");
                }
                Self::Data(DataError::Broken { file, place, found, expected })
            }
            other => Self::Data(other),
        }
    }

    /// What is shown of it.
    pub(crate) fn text(&self, colour: bool) -> String {
        if let Self::Config(error) = self {
            return error.render(colour);
        }
        let mut text = format!("error: {self}");
        let mut source = self.source();
        while let Some(cause) = source {
            // Errors that say their cause themselves need no line for it.
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text.push_str(&format!("\n  cause: {cause_text}"));
            }
            source = cause.source();
        }
        text
    }

    /// 2 where what the user wrote is wrong, 1 where the run failed.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Data(_)
            | Self::Deploy(_)
            | Self::NoCheckpoints(_)
            | Self::Usage(_) => 2,
            Self::Evaluation(
                EvaluationError::Unknown { .. }
                | EvaluationError::Data { .. }
                | EvaluationError::Fitted { .. },
            ) => 2,
            Self::Report(error) if error.is_bad_input() => 2,
            Self::Certificates(error) if error.is_bad_input() => 2,
            Self::Checkpoint(error) if error.is_bad_input() => 2,
            Self::Run(error) if is_wrong_file_of_node(error.as_ref()) => 2,
            Self::Certificates(_)
            | Self::Checkpoint(_)
            | Self::Evaluation(_)
            | Self::NotWritten { .. }
            | Self::Report(_)
            | Self::Unreported { .. }
            | Self::Run(_) => 1,
        }
    }
}

/// Whether a node did not start for a file or a setting of its own, which whoever starts it again has to mend first.
fn is_wrong_file_of_node(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let of_run = error.downcast_ref().and_then(|error| match error {
        RunError::Real(error) => Some(error),
        _ => None,
    });
    of_run.or_else(|| error.downcast_ref()).is_some_and(RealError::is_bad_input)
}

/// The source that files of this name have, where the name says it and the run file names another one for all data.
fn source_of_name(file: &Path, run_file: &RunFile) -> Option<&'static str> {
    let source = AppConfig::source_of_path(run_file.text("app.kind")?, file)?;
    let is_said = matches!(source, "csv" | "parquet");
    let is_for_all = run_file.tables("app.data.at").is_empty();
    let is_other = run_file.text("app.data.source") != Some(source);
    (is_said && is_for_all && is_other).then_some(source)
}
