//! `driver`: what carries the protocol out.

use serde::Serialize;

use crate::document::Problem;
use crate::range::Checks;

/// What runs the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// Virtual time in one thread. Runs with one seed have the same bytes.
    Simulated,
    /// QUIC and TLS over links shaped inside this process.
    Emulated,
    /// A process for each node, over UDP and TCP.
    Real,
}

impl DriverKind {
    /// Every driver's name, as configuration files and reports write it.
    pub const NAMES: [&str; 3] = ["simulated", "emulated", "real"];

    /// The driver's name, one of [`DriverKind::NAMES`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Emulated => "emulated",
            Self::Real => "real",
        }
    }
}

/// The driver that `driver` names.
pub(crate) fn driver(checks: &Checks<'_>, name: &str) -> Result<DriverKind, Problem> {
    match name {
        "simulated" => Ok(DriverKind::Simulated),
        "emulated" => Ok(DriverKind::Emulated),
        "real" => Ok(DriverKind::Real),
        _ => {
            let mut problem = Problem::unknown_name(name, &DriverKind::NAMES);
            problem.span = checks.root.at("driver").map(|node| node.span);
            Err(problem.in_key("driver"))
        }
    }
}
