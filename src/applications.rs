//! The applications that a program can train.

use std::sync::Arc;

use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_data::DataError;

/// What `[app]` of a run file becomes: the seam through which a program trains applications of its own with every verb.
///
/// Each process of a run builds its application from the plan, so the same plan must give the same tables, initial values and
/// examples everywhere.
pub trait Applications {
    /// Builds the application of a plan over the plan's workers, with the data of those. `model.init` is taken care of.
    ///
    /// # Errors
    /// Where the plan names an application that the program does not have, or the application cannot be built:
    /// [`DataError::Application`] with any reason.
    fn build(&self, plan: &Plan) -> Result<Arc<dyn Application>, DataError>;
}

/// The applications that are built in.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn;

impl Applications for BuiltIn {
    fn build(&self, plan: &Plan) -> Result<Arc<dyn Application>, DataError> {
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
    build_with(&BuiltIn, plan)
}

/// Builds the application of a plan as [`build`] does, if it is one of `applications`.
///
/// # Errors
/// Where it is none of them or cannot be built, or the tables of `model.init` are not those of the application.
pub fn build_with(
    applications: &dyn Applications,
    plan: &Plan,
) -> Result<Arc<dyn Application>, DataError> {
    let built = applications.build(plan)?;
    match &plan.model.init {
        Some(file) => gaia_data::initialized(built, file),
        None => Ok(built),
    }
}
