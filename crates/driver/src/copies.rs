//! The evaluation of all data centers' copies of the model, each on all data or on that of its own data center.
//!
//! If the whole cluster is one process, an evaluation takes no emulated or virtual time and no WAN bytes, because it is
//! not part of the evaluated system.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::parting::{Look, Lost};
use gaia_config::{EvaluatePlace, Plan};
use gaia_core::application::{Application, ApplicationError, Evaluation, EvaluationSums, Metric};
use gaia_core::server::Server;
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, Model, ShardLayout};

/// The evaluations of all data centers' copies, in the topology's order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CopyEvaluations {
    /// The evaluation of each copy, and its data center.
    pub(crate) copies: Vec<(DcId, Evaluation)>,
    /// The evaluation of the run: of the worst copy, or of all data, each part on the copy of its data center.
    pub(crate) run: Evaluation,
    /// Whether all copies are equal to the bit.
    pub(crate) equal: bool,
    /// What copies lose on the examples of other data centers, if that was looked at.
    #[serde(default)]
    pub(crate) lost: Option<Lost>,
}

/// On what data the copy of each data center is evaluated.
#[derive(Clone, Debug)]
pub(crate) enum EvaluationData {
    /// On that of all data centers.
    All,
    /// On that of its own workers, which are these, by data center.
    Own(Vec<Range<usize>>),
}

impl CopyEvaluations {
    /// Copies that were evaluated on all data. The run is as good as the copy with the worst objective, and none is worse than
    /// one whose objective is no number.
    fn of_worst(copies: Vec<(DcId, Evaluation)>, equal: bool) -> Self {
        // Arithmetic makes NaN of either sign, depending on the machine, and those with a sign order below all numbers.
        let rank = |objective: f64| if objective.is_nan() { f64::INFINITY } else { objective };
        let worst =
            copies.iter().max_by(|(_, a), (_, b)| rank(a.objective).total_cmp(&rank(b.objective)));
        let (_, run) = *worst.expect("a run has a data center");
        Self { copies, run, equal, lost: None }
    }

    /// Copies that were evaluated each on the data of its data center.
    pub(crate) fn of_sums(metric: &Metric, sums: &[(DcId, EvaluationSums)], equal: bool) -> Self {
        let copies = sums.iter().map(|(dc, sums)| (*dc, metric.evaluation(*sums))).collect();
        let run = metric.evaluation(sums.iter().map(|(_, sums)| *sums).sum());
        Self { copies, run, equal, lost: None }
    }

    pub(crate) fn mean_objective(&self) -> f64 {
        let sum: f64 = self.copies.iter().map(|(_, evaluation)| evaluation.objective).sum();
        sum / self.copies.len() as f64
    }
}

impl EvaluationData {
    pub(crate) fn of(plan: &Plan) -> Self {
        match plan.evaluate_place() {
            EvaluatePlace::Everywhere => Self::All,
            EvaluatePlace::Home => {
                let topology = &plan.topology;
                Self::Own(topology.dc_ids().map(|dc| workers_of(topology, dc)).collect())
            }
        }
    }
}

/// The workers of a data center, counted over the whole run.
pub(crate) fn workers_of(topology: &Topology, dc: DcId) -> Range<usize> {
    let first = topology.first_worker(dc);
    first..first + topology.dc(dc).workers
}

/// Evaluates the copies of servers, with `shards` shards in each data center, and looks whether they part if that is due.
///
/// # Errors
/// Those of the application.
pub(crate) fn evaluate_copies(
    servers: &[Server],
    shards: usize,
    application: &Arc<dyn Application>,
    data: &EvaluationData,
    look: Option<&Look>,
) -> Result<CopyEvaluations, ApplicationError> {
    let layouts: Vec<ShardLayout> =
        servers[..shards].iter().map(|server| server.layout().clone()).collect();
    let copies: Vec<(DcId, Vec<&[f32]>)> = servers
        .chunks_exact(shards)
        .map(|servers| (servers[0].id().dc, servers.iter().map(Server::copy).collect()))
        .collect();
    evaluate_values(&copies, &layouts, application, data, look)
}

/// The first data center's copy, of all shards. After a drain all copies are equal.
pub(crate) fn first_copy(
    servers: &[Server],
    shards: usize,
    application: &Arc<dyn Application>,
) -> Model {
    let copy = servers[..shards].iter().map(|server| (server.layout(), server.copy()));
    assemble(copy, application)
}

/// The whole model from a copy's shards.
pub(crate) fn assemble<'a>(
    copy: impl Iterator<Item = (&'a ShardLayout, &'a [f32])>,
    application: &Arc<dyn Application>,
) -> Model {
    let mut model = Model::zeros(application.layout().clone());
    copy.for_each(|(layout, values)| layout.copy_into(values, &mut model));
    model
}

/// Evaluates the copies of data centers, given by shard, and looks whether they part if that is due. Copies that are equal
/// and are evaluated on the same data are evaluated once.
///
/// # Errors
/// Those of the application.
pub(crate) fn evaluate_values<V: AsRef<[f32]> + Sync>(
    copies: &[(DcId, Vec<V>)],
    layouts: &[ShardLayout],
    application: &Arc<dyn Application>,
    data: &EvaluationData,
    look: Option<&Look>,
) -> Result<CopyEvaluations, ApplicationError> {
    let (_, first) = &copies[0];
    let equals_first: Vec<bool> = copies
        .iter()
        .map(|(_, copy)| {
            copy.iter().zip(first).all(|(own, first)| same_bits(own.as_ref(), first.as_ref()))
        })
        .collect();
    let equal = equals_first.iter().all(|equal| *equal);

    let model =
        |copy: &[V]| assemble(layouts.iter().zip(copy.iter().map(AsRef::as_ref)), application);
    let mut evaluations = match data {
        EvaluationData::All => {
            let of_first = application.evaluate(&model(first))?;
            let copies = copies.par_iter().zip(&equals_first).map(|((dc, copy), equal)| {
                let evaluation =
                    if *equal { of_first } else { application.evaluate(&model(copy))? };
                Ok((*dc, evaluation))
            });
            let copies = copies.collect::<Result<_, ApplicationError>>()?;
            CopyEvaluations::of_worst(copies, equal)
        }
        EvaluationData::Own(workers) => {
            let sums = copies.par_iter().map(|(dc, copy)| {
                Ok((*dc, application.sums(&model(copy), workers[dc.index()].clone())?))
            });
            let sums: Vec<(DcId, EvaluationSums)> =
                sums.collect::<Result<_, ApplicationError>>()?;
            CopyEvaluations::of_sums(&application.metric(), &sums, equal)
        }
    };
    if let Some(look) = look {
        let models: Vec<(DcId, Model)> =
            copies.iter().map(|(dc, copy)| (*dc, model(copy))).collect();
        evaluations.lost = Some(look.measure(&models, application)?);
    }
    Ok(evaluations)
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_copy_is_worse_than_one_whose_objective_is_no_number() {
        for nan in [f64::NAN, -f64::NAN] {
            let objectives = [0.5, nan, 2.0];
            let copy = |(dc, objective)| (DcId(dc), Evaluation { objective, metric: 1.0 });
            let found = CopyEvaluations::of_worst((0..).zip(objectives).map(copy).collect(), false);
            assert!(found.run.objective.is_nan());
        }
    }
}
