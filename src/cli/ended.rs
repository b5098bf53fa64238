//! What has ended before: with `--resume auto`, commands of several runs take what they find instead of running it
//! again.

use std::collections::BTreeMap;
use std::path::Path;

use super::directory_lock::DirectoryLock;
use super::{Failure, Resume};
use gaia_config::{DriverKind, Plan};
use gaia_core::application::Application;
use gaia_core::coordinator::StopReason;
use gaia_driver::{Outcome, data_digest};
use gaia_report::{ReportError, RunDirectory, RunRecord, write_run_pages};

/// The directory of several runs with these settings, which is a new one unless they go on. No other process writes it.
pub(super) fn directory_of_runs(
    flags: (&Resume, Option<&Path>),
    plan: &Plan,
) -> Result<(RunDirectory, DirectoryLock), Failure> {
    let directory = match flags {
        (Resume::Auto, Some(out)) => RunDirectory::reopen_with(out, &plan.to_toml())?,
        (_, out) => RunDirectory::create(out, &plan.name)?,
    };
    let lock = DirectoryLock::acquire(&directory)?;
    if *flags.0 == Resume::Auto {
        directory.remove_results()?;
    }
    Ok((directory, lock))
}

/// The directory of one of several runs, which is a new one unless they go on.
pub(super) fn directory_in(
    parent: &RunDirectory,
    name: &str,
    plan: &Plan,
    resume: &Resume,
) -> Result<RunDirectory, ReportError> {
    match resume {
        Resume::Auto => parent.reopen_child(name, &plan.to_toml()),
        Resume::Never | Resume::From(_) => parent.create_child(name),
    }
}

/// What the run of this plan has come to in its directory, if it has ended. The model stays in its file. A page that
/// could not be written before is written.
///
/// # Errors
/// Where its data or the version of the program was another; where its files cannot be read.
pub(super) fn ended(
    directory: &RunDirectory,
    plan: &Plan,
    application: &dyn Application,
) -> Result<Option<Outcome>, Failure> {
    if !directory.is_run() {
        return Ok(None);
    }
    let record = directory.read()?;
    let was_interrupted = record.summary.was_stopped_by(StopReason::Interrupted);
    if was_interrupted || lacks_evaluations(&record, plan) {
        return Ok(None);
    }
    let RunRecord { summary, progress, highlights, run_toml } = record;

    let path = directory.path().display();
    let version = env!("CARGO_PKG_VERSION");
    if summary.version != version {
        return Err(Failure::usage(format!(
            "{path}: a run of gaia {}, expected one of gaia {version}: choose another --out",
            summary.version
        )));
    }
    let described = application.describe();
    if summary.trained_on != described {
        return Err(Failure::usage(format!(
            "{path}: trained on {}, expected {described}: choose another --out",
            summary.trained_on
        )));
    }
    let digests = (&summary.data_digest, data_digest(application));
    if let (Some(found), Some(expected)) = digests
        && *found != expected
    {
        return Err(Failure::usage(format!(
            "{path}: trained on data with the digest {found}, expected {expected}, which the data has now: choose another --out"
        )));
    }
    if !directory.page().is_file() {
        write_run_pages(directory, &run_toml, &progress, &summary, &highlights)?;
    }
    Ok(Some(Outcome {
        summary,
        progress,
        model: None,
        attachments: BTreeMap::new(),
        is_best: false,
        highlights,
    }))
}

/// Whether the evaluations of a simulated run end before the run did: a full disk can have cut them short. In real time the
/// last evaluation may be of an earlier clock.
pub(super) fn lacks_evaluations(record: &RunRecord, plan: &Plan) -> bool {
    let evaluated = record.progress.last().map_or(0, |last| last.clock);
    evaluated < record.summary.clocks && plan.driver == DriverKind::Simulated
}
