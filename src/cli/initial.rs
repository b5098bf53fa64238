//! The initial model beside a run's evaluations.

use gaia_config::{DriverKind, Plan};
use gaia_core::application::Application;
use gaia_telemetry::InitialRecord;
use tracing::warn;

/// The evaluation of the initial model, which takes a pass over the data. `None` where no process has all data, where the
/// model is too large to be in one place, and where it cannot be evaluated: a run does not fail for it.
pub(super) fn initial(plan: &Plan, application: &dyn Application) -> Option<InitialRecord> {
    // A script is asked nothing before the run has begun.
    let is_elsewhere = plan.driver == DriverKind::Real || plan.external().is_some();
    if is_elsewhere || application.layout().has_sparse_tables() {
        return None;
    }

    let model = application.initial_model(plan.seed.child("model"));
    match application.evaluate(&model) {
        Ok(found) => Some(InitialRecord { objective: found.objective, metric: found.metric }),
        Err(error) => {
            warn!("the initial model cannot be evaluated: {error}");
            None
        }
    }
}
