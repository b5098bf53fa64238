//! The evaluation of all data centers' copies of the model on all data.
//!
//! If the whole cluster is one process, an evaluation takes no emulated or virtual time and no WAN bytes, because it is
//! not part of the evaluated system.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use gaia_core::application::{Application, Evaluation};
use gaia_core::server::Server;
use gaia_core::types::{Model, ShardLayout};

/// The evaluations of all data centers' copies, in the topology's order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CopyEvaluations {
    pub(crate) evaluations: Vec<Evaluation>,
    /// Whether all copies are equal to the bit.
    pub(crate) equal: bool,
}

impl CopyEvaluations {
    /// The evaluation of the copy with the worst objective.
    pub(crate) fn worst(&self) -> Evaluation {
        let by_objective = |a: &&Evaluation, b: &&Evaluation| a.objective.total_cmp(&b.objective);
        *self.evaluations.iter().max_by(by_objective).expect("a run has a data center")
    }

    pub(crate) fn mean_objective(&self) -> f64 {
        let sum: f64 = self.evaluations.iter().map(|evaluation| evaluation.objective).sum();
        sum / self.evaluations.len() as f64
    }
}

/// Evaluates the copies of servers, with `shards` shards in each data center.
pub(crate) fn evaluate_copies(
    servers: &[Server],
    shards: usize,
    application: &Arc<dyn Application>,
) -> CopyEvaluations {
    let layouts: Vec<ShardLayout> =
        servers[..shards].iter().map(|server| server.layout().clone()).collect();
    let copies: Vec<Vec<&[f32]>> = servers
        .chunks_exact(shards)
        .map(|servers| servers.iter().map(Server::copy).collect())
        .collect();
    evaluate_values(&copies, &layouts, application)
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

/// Evaluates copies, given by data center and shard. Equal copies are evaluated once.
pub(crate) fn evaluate_values<V: AsRef<[f32]> + Sync>(
    copies: &[Vec<V>],
    layouts: &[ShardLayout],
    application: &Arc<dyn Application>,
) -> CopyEvaluations {
    let equals_first: Vec<bool> = copies
        .iter()
        .map(|copy| {
            copy.iter().zip(&copies[0]).all(|(own, first)| same_bits(own.as_ref(), first.as_ref()))
        })
        .collect();

    let evaluate = |copy: &[V]| {
        let copy = layouts.iter().zip(copy.iter().map(AsRef::as_ref));
        application.evaluate(&assemble(copy, application))
    };
    let of_first = evaluate(&copies[0]);
    let evaluations = copies
        .par_iter()
        .zip(&equals_first)
        .map(|(copy, equal)| if *equal { of_first } else { evaluate(copy) })
        .collect();

    CopyEvaluations { evaluations, equal: equals_first.iter().all(|equal| *equal) }
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
