//! A worker's part in model traveling: it measures other data centers' copies on its own examples.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::application::{Task, Work};
use crate::node::{ProbeRequest, Probed};
use crate::persist;
use crate::types::{Clock, Content, DcId, Model, ModelLayout, ShardId, ShardLayout};

#[derive(Debug)]
pub(super) struct Prober {
    examples: usize,
    /// The loss of the initial model.
    untrained: f64,
    /// The latest received copy of each data center.
    pairs: BTreeMap<DcId, Pair>,
    measured: Vec<Probed>,
}

/// The received shards of another data center's copy, and the same shards of the local copy.
#[derive(Debug)]
struct Pair {
    clock: Clock,
    away: Model,
    home: Model,
    missing: Vec<ShardId>,
}

impl Prober {
    /// Measures on at most `examples` examples.
    pub(super) fn new(examples: usize, initial: &Model, task: &dyn Task) -> Self {
        let (untrained, _) = task.probe(initial, examples);
        Self { examples, untrained, pairs: BTreeMap::new(), measured: Vec::new() }
    }

    /// Adds one shard of a copy. `layouts` are those of all shards.
    pub(super) fn on_request(
        &mut self,
        shard: ShardId,
        request: &ProbeRequest,
        layouts: &[ShardLayout],
        model: &Arc<ModelLayout>,
    ) {
        let fresh = || Pair {
            clock: request.clock,
            away: Model::zeros(model.clone()),
            home: Model::zeros(model.clone()),
            missing: layouts.iter().map(ShardLayout::shard).collect(),
        };

        let pair = self.pairs.entry(request.of).or_insert_with(fresh);
        if pair.clock < request.clock {
            *pair = fresh();
        }

        if pair.clock == request.clock {
            let layout = &layouts[shard.index()];
            layout.copy_into(&request.away, &mut pair.away);
            layout.copy_into(&request.home, &mut pair.home);
            pair.missing.retain(|missing| *missing != shard);
        }
    }

    /// Measures the complete copies and returns the work done.
    pub(super) fn measure(&mut self, task: &dyn Task) -> Work {
        let mut work = Work::default();
        let whole: Vec<DcId> = self
            .pairs
            .iter()
            .filter(|(_, pair)| pair.missing.is_empty())
            .map(|(of, _)| *of)
            .collect();

        for of in whole {
            let Some(pair) = self.pairs.remove(&of) else { continue };
            let mut loss = |model: &Model| {
                let (loss, cost) = task.probe(model, self.examples);
                work += cost;
                loss
            };
            let (away, home) = (loss(&pair.away), loss(&pair.home));
            let (clock, untrained) = (pair.clock, self.untrained);
            self.measured.push(Probed { of, clock, away, home, untrained });
        }

        work
    }

    pub(super) fn take_measured(&mut self) -> Vec<Probed> {
        std::mem::take(&mut self.measured)
    }
}

persist! {
    /// With the layout of the model and the number of its shards.
    impl Persist<(&Arc<ModelLayout>, usize)> for Prober {
        fn walk(Self { examples: _, untrained: _, pairs, measured }, walk, (model, shards)) {
            let fresh = |_: &DcId| {
                let (home, away) = (Model::zeros(model.clone()), Model::zeros(model.clone()));
                Some(Pair { clock: Clock::ZERO, home, away, missing: Vec::new() })
            };
            walk.entries("pairs", pairs, fresh, |pair, walk| {
                let Pair { clock, home, away, missing } = pair;
                let (Model { values: home, .. }, Model { values: away, .. }) = (home, away);
                walk.record("clock", clock)?;
                walk.tensor("away", Content::Values, away)?;
                walk.tensor("home", Content::Values, home)?;
                walk.record_that("missing", missing, |found, _| found.len() <= shards)
            })?;
            walk.record("measured", measured)
        }
    }
}
