//! The axes on which distributed training is compared (Langer et al., "Distributed Training of Deep Learning Models: A
//! Taxonomic Perspective", 2020), between data centers.

use serde::{Deserialize, Serialize};

use super::{Brake, ExchangeKind, OverlayKind, RemoteSync};

/// Where a remote model stands on each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axes {
    /// What is divided.
    pub parallelism: Parallelism,
    /// Whose steps make the model.
    pub optimisation: Optimisation,
    /// Who waits for whom.
    pub scheduling: Scheduling,
    /// Who sends to whom.
    pub communication: Communication,
}

/// What is divided among data centers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parallelism {
    /// The examples. Each data center has a copy of the whole model.
    Data,
}

/// Whose steps make the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimisation {
    /// All changes are added up to one total, which every copy follows.
    Centralised,
    /// Each data center's optimiser moves its own copy, and copies differ until they are combined.
    Decentralised,
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// All wait for all, at each clock or at each round.
    Synchronous,
    /// A data center may be ahead by a bounded number of clocks.
    Bounded,
    /// Nobody waits.
    Asynchronous,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Communication {
    /// Each data center is the parameter server of one block: a reduce-scatter and an all-gather.
    Homes,
    /// Each sends to the next, a ring all-reduce.
    Ring,
    /// To a root and back.
    Tree,
    /// Each sends its updates to every other.
    Mesh,
    /// Each sends its updates to its neighbours, and hubs forward them.
    Hubs,
}

impl Axes {
    /// Those of a remote model with its settings.
    pub fn of(remote: &RemoteSync) -> Self {
        let parallelism = Parallelism::Data;
        let (optimisation, scheduling, communication) = match remote {
            RemoteSync::Bsp(bsp) => {
                let communication = match bsp.exchange {
                    ExchangeKind::Homes => Communication::Homes,
                    ExchangeKind::Ring => Communication::Ring,
                    ExchangeKind::Tree => Communication::Tree,
                };
                (Optimisation::Centralised, Scheduling::Synchronous, communication)
            }
            RemoteSync::Ssp(ssp) => {
                let scheduling = match ssp.staleness.0 {
                    0 => Scheduling::Synchronous,
                    _ => Scheduling::Bounded,
                };
                (Optimisation::Centralised, scheduling, Communication::Homes)
            }
            RemoteSync::Tap(_) => {
                (Optimisation::Decentralised, Scheduling::Asynchronous, Communication::Mesh)
            }
            RemoteSync::Asp(asp) => {
                let scheduling = match asp.mirror_clock {
                    Brake::On | Brake::Auto => Scheduling::Bounded,
                    Brake::Off => Scheduling::Asynchronous,
                };
                let communication = match asp.overlay {
                    OverlayKind::Mesh => Communication::Mesh,
                    OverlayKind::Groups | OverlayKind::Tree => Communication::Hubs,
                };
                (Optimisation::Decentralised, scheduling, communication)
            }
            RemoteSync::LocalSteps(local_steps) => {
                let waits_for_all = local_steps.most_overlap() == 0 && !local_steps.has_quorum();
                let scheduling =
                    if waits_for_all { Scheduling::Synchronous } else { Scheduling::Bounded };
                (Optimisation::Decentralised, scheduling, Communication::Homes)
            }
        };
        Self { parallelism, optimisation, scheduling, communication }
    }
}

impl Parallelism {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
        }
    }
}

impl Optimisation {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Centralised => "centralised",
            Self::Decentralised => "decentralised",
        }
    }
}

impl Scheduling {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Synchronous => "synchronous",
            Self::Bounded => "bounded",
            Self::Asynchronous => "asynchronous",
        }
    }
}

impl Communication {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Homes => "homes",
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Mesh => "mesh",
            Self::Hubs => "hubs",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{LocalStepsConfig, Overlap};

    #[test]
    fn rounds_are_synchronous_where_training_never_goes_on_during_one() {
        let scheduling = |steps, overlap, quorum| {
            let config = LocalStepsConfig { steps, overlap, quorum, ..LocalStepsConfig::default() };
            Axes::of(&RemoteSync::LocalSteps(config)).scheduling
        };
        assert_eq!(scheduling(5, Overlap::Clocks(0), 1.0), Scheduling::Synchronous);
        assert_eq!(scheduling(1, Overlap::Auto, 1.0), Scheduling::Synchronous);
        assert_eq!(scheduling(2, Overlap::Auto, 1.0), Scheduling::Bounded);
        assert_eq!(scheduling(5, Overlap::Clocks(1), 1.0), Scheduling::Bounded);
        assert_eq!(scheduling(1, Overlap::Auto, 0.75), Scheduling::Bounded);
    }
}
