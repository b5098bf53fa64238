//! Applications with their data, and what is shown while that is read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::training::live_mode;
use super::{Failure, OutputFlags};
use crate::applications::{Applications, build_with};
use gaia_config::{Plan, RunFile};
use gaia_core::application::Application;
use gaia_core::topology::DataHome;
use gaia_report::Waiting;

/// Reads data while a line says so.
pub(super) fn waiting_for_data<T>(
    output: &OutputFlags,
    read: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let _line = Waiting::new(live_mode(output), "reads the data");
    read()
}

/// The application of a plan, with the data of all its workers.
pub(super) fn with_all_data(
    plan: &Plan,
    file: &RunFile,
    applications: &dyn Applications,
) -> Result<Arc<dyn Application>, Failure> {
    let application = build_with(applications, plan, 0..plan.topology.workers());
    application.map_err(|error| Failure::data(error, file))
}

/// Applications with the data of all workers, by where the data lies: runs that split it alike share one.
#[derive(Default)]
pub(super) struct ByHomes(BTreeMap<Vec<DataHome>, Arc<dyn Application>>);

impl ByHomes {
    /// The application of a plan, which is built if none was for data that lies there.
    pub(super) fn build(
        &mut self,
        plan: &Plan,
        file: &RunFile,
        applications: &dyn Applications,
    ) -> Result<Arc<dyn Application>, Failure> {
        Ok(match self.0.entry(plan.data_homes()) {
            Entry::Occupied(built) => built.get().clone(),
            Entry::Vacant(place) => place.insert(with_all_data(plan, file, applications)?).clone(),
        })
    }

    /// The application of a plan.
    ///
    /// # Panics
    /// Unless it was built.
    pub(super) fn of(&self, plan: &Plan) -> &Arc<dyn Application> {
        &self.0[&plan.data_homes()]
    }
}
