//! A trained model as the verbs see it: its file, and the settings of the run that has trained it.

use super::{Failure, TrainedFlags};
use gaia_config::{Override, Plan, RunFile};
use gaia_core::application::Application;
use gaia_data::DataError;
use gaia_driver::data_digest;
use gaia_ml::apps::AppConfig;
use gaia_model::{ModelDescription, TrainedModel};

/// A trained model, and the settings of its run.
pub(super) struct Trained {
    pub(super) model: TrainedModel,
    pub(super) description: ModelDescription,
    pub(super) plan: Plan,
    /// The settings as a run file, for errors.
    pub(super) file: RunFile,
}

impl Trained {
    /// Reads the file of a model. `data` replaces the path of the data.
    ///
    /// # Errors
    /// If it is not the file of a model that this program has written, or a setting is wrong.
    pub(super) fn read(
        flags: &TrainedFlags,
        data: Option<&std::path::Path>,
    ) -> Result<Self, Failure> {
        let model =
            TrainedModel::read(&flags.model).map_err(|error| Failure::Data(error.into()))?;
        let name = flags.model.display();
        let Some(description) = model.description.clone() else {
            return Err(Failure::usage(format!(
                "{name}: found no description of a run in the metadata, expected a model that gaia train has written"
            )));
        };

        let mut overrides = Vec::new();
        for setting in &flags.settings {
            overrides.push(Override::parse(setting)?);
        }
        if let Some(data) = data {
            let path = data.to_str().ok_or_else(|| {
                Failure::usage(format!("--data is {}, expected a path in UTF-8", data.display()))
            })?;
            overrides.push(Override::flag("--data", "app.data.path", path));
        }
        let file = RunFile::from_text(&name.to_string(), &description.settings, &overrides)?;
        let plan = file.plan()?;
        Ok(Self { model, description, plan, file })
    }

    /// The settings of the application.
    ///
    /// # Errors
    /// If the application was handed in by a program.
    pub(super) fn application(&self) -> Result<&AppConfig, Failure> {
        self.plan.app.as_ref().ok_or_else(|| {
            Failure::usage(format!(
                "{}: found the model of an application that a program has handed in, expected one of a run file with [app]",
                self.model.file.display()
            ))
        })
    }

    /// Checks that the data of the run is what it was, and divided as it was, so that the same examples are held out.
    ///
    /// # Errors
    /// If its digest has changed.
    pub(super) fn check_data(&self, application: &dyn Application) -> Result<(), Failure> {
        match (&self.description.data_digest, data_digest(application)) {
            (Some(expected), Some(found)) if *expected != found => Err(Failure::usage(format!(
                "the data of run {} as it is divided now has the digest {found}, expected {expected}, that of when it was trained: \
                 what was held out then cannot be told from what it was trained on; --data evaluates all of it",
                self.description.run
            ))),
            _ => Ok(()),
        }
    }

    /// The failure of data that cannot be used.
    pub(super) fn failed(&self, error: DataError) -> Failure {
        Failure::data(error, &self.file)
    }
}
