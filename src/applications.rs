//! The applications that a program can train.

use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_data::DataError;
use gaia_model::ScriptModel;

/// What `[app]` of a run file becomes: the seam through which a program trains applications of its own with every verb.
///
/// Each process of a run builds its application from the plan, so the same plan must give the same tables, initial values and
/// examples everywhere.
pub trait Applications {
    /// Builds the application of a plan over all its workers, with the data of those in `workers`: the ones whose tasks
    /// this process runs. They are numbered over the whole run. There are none in the process of a coordinator or of a
    /// server alone, nor of `gaia check`. `model.init` is taken care of.
    ///
    /// # Errors
    /// Where the plan names an application that the program does not have, or the application cannot be built:
    /// [`DataError::Application`] with any reason.
    fn build(&self, plan: &Plan, workers: Range<usize>) -> Result<Arc<dyn Application>, DataError>;

    /// The command with which `train --driver real` starts this program for each node: the program, and arguments that
    /// come before the verb. The default is the running program.
    fn program(&self) -> Option<Vec<OsString>> {
        None
    }

    /// Whether `app.script` names a Python script that this program trains. Then `--script` is a flag of every
    /// verb that reads a run file. The default is `false`.
    fn trains_scripts(&self) -> bool {
        false
    }

    /// The model that the script of a plan declares before its first step, for `gaia init`. `app.model` and `model.init` are
    /// left aside.
    ///
    /// # Errors
    /// Where the program trains no scripts, which is the default, or the script fails.
    fn script_model(&self, _plan: &Plan) -> Result<ScriptModel, DataError> {
        Err(DataError::Application("this program runs no scripts".into()))
    }

    /// What the program sets to `true` to end a run of `train` in order, if it hears the wish to end itself. The default is
    /// `None`: SIGTERM and Ctrl-C end the run.
    fn interrupted(&self) -> Option<Arc<AtomicBool>> {
        None
    }
}

/// The applications that are built in, and in processes without workers those of scripts whose model is in a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn;

impl Applications for BuiltIn {
    fn build(&self, plan: &Plan, workers: Range<usize>) -> Result<Arc<dyn Application>, DataError> {
        if let Some(external) = plan.external() {
            return gaia_data::script(external, plan.topology.workers(), &workers);
        }
        let (homes, validation) = (plan.topology.data_homes(), plan.evaluate.data.as_deref());
        gaia_data::build_validated(plan.app.as_ref(), &homes, plan.seed, validation)
    }
}

/// Loads or generates the data of the application that a plan names, and splits it over the plan's workers.
///
/// The plan's seed decides what is generated and how it is split. With `model.init` the application starts from the
/// tables of that file.
///
/// # Errors
/// Where the plan names no application, since its run file has no `[app]`, its data cannot be read, or the tables of
/// `model.init` are not those of the application.
pub fn build(plan: &Plan) -> Result<Arc<dyn Application>, DataError> {
    build_with(&BuiltIn, plan, 0..plan.topology.workers())
}

/// Builds the application of a plan as [`build`] does, if it is one of `applications`, for a process that runs the tasks of
/// `workers`.
///
/// # Errors
/// Where it is none of them or cannot be built, or the tables of `model.init` are not those of the application.
pub fn build_with(
    applications: &dyn Applications,
    plan: &Plan,
    workers: Range<usize>,
) -> Result<Arc<dyn Application>, DataError> {
    let built = applications.build(plan, workers)?;
    match &plan.model.init {
        Some(file) => gaia_data::initialized(built, plan.app.as_ref(), file),
        None => Ok(built),
    }
}
