//! `[evaluate]`: when and on what data copies of the model are evaluated.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::DriverKind;
use crate::document::Problem;
use crate::range::Checks;

/// When and on what data copies of the model are evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluateConfig {
    /// Clocks between evaluations, at least 1.
    pub every: u64,
    /// On what data each copy is evaluated. `None`: as the driver does by default.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<EvaluatePlace>,
    /// A validation set that every data center has: the metric is taken over it, and nothing else is held out. In the
    /// format of `app.data.source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
}

/// On what data the copy of a data center is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluatePlace {
    /// On the data of its own data center. The objective of a run is over all data, each part judged by the copy that
    /// lives there.
    Home,
    /// On the data of all data centers. The objective of a run is that of the worst copy.
    Everywhere,
}

impl EvaluateConfig {
    /// Checks the keys, and that the driver can evaluate there.
    pub(crate) fn check(&self, checks: &Checks<'_>, driver: DriverKind) -> Result<(), Problem> {
        checks.clocks("evaluate.every", self.every, 1)?;
        if driver == DriverKind::Real && self.place == Some(EvaluatePlace::Everywhere) {
            let expected =
                "\"home\": with the real driver data and copies stay in their data centers";
            return Err(checks.wrong("evaluate.where", "\"everywhere\"", expected));
        }
        Ok(())
    }

    /// On what data copies are evaluated with a driver. Examples of an external application are its workers' own, and
    /// each worker has to be asked for them. So by default it judges the copy of its own data center alone.
    pub(crate) fn place(&self, driver: DriverKind, is_external: bool) -> EvaluatePlace {
        match (driver, self.place) {
            (DriverKind::Real, _) => EvaluatePlace::Home,
            (_, Some(place)) => place,
            (_, None) if is_external => EvaluatePlace::Home,
            (_, None) => EvaluatePlace::Everywhere,
        }
    }
}

impl Default for EvaluateConfig {
    fn default() -> Self {
        Self { every: 1, place: None, data: None }
    }
}
