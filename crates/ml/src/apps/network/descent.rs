//! The steps of one worker.

use std::sync::Arc;

use super::Shared;
use super::standardized_inputs::StandardizedInputs;
use crate::apps::visits::{Batch, Visits};
use crate::divided::Divided;
use crate::examples::DenseExamples;
use crate::kernels::dense::{Matrix, multiply};
use crate::kernels::vector::{axpy, square_norm};
use crate::layers::Activations;
use crate::optimizer::{
    Adaptive, InputStatistics, Inputs, Standard, from_standard, least_scales, shortening,
    to_standard,
};
use gaia_core::application::{ApplicationError, Task, Work};
use gaia_core::types::{
    Clock, Content, Deltas, Model, ModelLayout, Restorer, ReusedValues, RowSet, Saved, Saver, Seed,
    StateError, TableDeltas,
};

pub(super) struct GradientDescent {
    shared: Arc<Shared>,
    visits: Visits<DenseExamples>,
    /// All training examples divided by those of this worker: the mean gradient of a batch counts by its inverse.
    examples_ratio: f64,
    activations: Activations,
    /// What momentum carries on, table by table; empty without it.
    velocity: Vec<Vec<f32>>,
    adaptive: Option<Adaptive>,
    statistics: InputStatistics,
    /// Those of all inputs in the first pass, and empty beside it.
    least_scales: Vec<f32>,
    /// The memory of the gradients of the layers' tables.
    gradients: ReusedValues,
}

impl Task for GradientDescent {
    fn rows(&mut self, _clock: Clock) -> RowSet {
        RowSet::all(&self.shared.layout)
    }

    fn iterate(&mut self, clock: Clock, model: &Model) -> Result<(Deltas, Work), ApplicationError> {
        let shared = self.shared.clone();
        let Shared { stack, examples, training, layout, .. } = &*shared;
        let Batch { examples: train, positions: batch, .. } =
            self.visits.batch(clock, &examples.train)?;

        if batch.is_empty() {
            return Ok((Deltas::none(layout), Work::default()));
        }

        let mut deltas = unwritten(stack.layout(), &mut self.gradients);
        stack.forward(model, train, batch, &mut self.activations);
        stack.backward(model, train, batch, &mut self.activations, &mut deltas);

        // Until workers have added the initial weights of the first layer, no output depends on what the others were drawn
        // as. Without a gradient from examples an adaptive step would follow the decay alone, as far as any other.
        let begins = clock == Clock(0)
            && shared.inputs.as_ref().is_some_and(|inputs| inputs.lacks_initial_weights(model));
        if training.weight_decay > 0.0 && !begins {
            for id in stack.weights() {
                let gradient = &mut deltas.tables[id.index()].values;
                axpy(training.weight_decay as f32, model.table(id), gradient);
            }
        }

        let tables = &deltas.tables;
        let norm = || tables.iter().map(|table| square_norm(&table.values)).sum();
        let clip = training.steps.clip(norm);
        if clip < 1.0 {
            for value in deltas.tables.iter_mut().flat_map(|table| &mut table.values) {
                *value *= clip;
            }
        }

        let work = Work { examples: batch.len() as u64, flops: stack.flops() * batch.len() as f64 };
        if self.adaptive.is_some() {
            let is_counted = shared.inputs.is_some() && self.statistics.is_due(clock);
            if !is_counted {
                self.least_scales = Vec::new();
            } else if self.least_scales.is_empty() {
                let own = self.own_statistics(self.visits.looked_at_max());
                self.least_scales = least_scales(own, Inputs::Dense, training.weight_decay);
            }
            let inputs = self.activations.inputs();
            let own = is_counted.then(|| self.statistics.of_dense(inputs, work.examples as usize));
            self.adapt(clock, model, &mut deltas, own);
            if let Some(inputs) = shared.inputs.as_ref().filter(|_| begins) {
                self.initialize(inputs, &mut deltas);
            }
            return Ok((self.given(deltas), work));
        }

        let momentum = training.momentum as f32;
        for (velocity, gradient) in self.velocity.iter_mut().zip(&mut deltas.tables) {
            for (velocity, gradient) in velocity.iter_mut().zip(&mut gradient.values) {
                *velocity = momentum * *velocity + *gradient;
                *gradient = *velocity;
            }
        }

        let scale = (-shared.schedule.rate(clock) / self.examples_ratio) as f32;
        for value in deltas.tables.iter_mut().flat_map(|table| &mut table.values) {
            *value *= scale;
        }

        Ok((self.given(deltas), work))
    }

    fn probe(&self, model: &Model, examples: usize) -> (f64, Work) {
        let Shared { stack, examples: Divided { train, .. }, .. } = &*self.shared;
        self.visits.probe(train, examples, |train, sample| {
            let score = stack.score(model, train, sample);
            let work = Work {
                examples: (sample.len() as u64).div_ceil(PASSES_PER_STEP),
                flops: stack.flops() * sample.len() as f64 / PASSES_PER_STEP as f64,
            };
            (score.loss / sample.len().max(1) as f64, work)
        })
    }

    fn save(&self, walk: &mut Saver<'_>) -> Saved {
        for (table, velocity) in self.velocity.iter().enumerate() {
            walk.tensor(&velocity_of(table), Content::Optimizer, velocity)?;
        }
        let Some(adaptive) = &self.adaptive else { return Ok(()) };
        self.statistics.save(walk)?;
        adaptive.save(walk)
    }

    fn restore(&mut self, walk: &mut Restorer<'_>) -> Result<(), StateError> {
        for (table, velocity) in self.velocity.iter_mut().enumerate() {
            walk.tensor(&velocity_of(table), Content::Optimizer, velocity)?;
        }
        let Some(adaptive) = &mut self.adaptive else { return Ok(()) };
        self.statistics.restore(walk)?;
        adaptive.restore(walk)
    }
}

impl GradientDescent {
    /// The steps of a worker.
    pub(super) fn new(shared: Arc<Shared>, worker: usize, seed: Seed) -> Self {
        let tables = shared.stack.layout().tables();
        let sizes = tables.iter().map(|table| table.rows * table.width);
        let velocity = if shared.training.momentum > 0.0 {
            sizes.clone().map(|size| vec![0.0; size]).collect()
        } else {
            Vec::new()
        };
        Self {
            examples_ratio: shared.examples.ratio(worker),
            visits: Visits::of_size(&shared.examples, worker, shared.batch, seed),
            activations: Activations::default(),
            velocity,
            adaptive: Adaptive::new(&shared.training.steps, sizes),
            statistics: InputStatistics::of(&shared.examples, worker, shared.batch),
            least_scales: Vec::new(),
            gradients: ReusedValues::default(),
            shared,
        }
    }

    /// Remembers the memory of the layers' tables for the next deltas.
    fn given(&mut self, mut deltas: Deltas) -> Deltas {
        let layers = self.shared.stack.layout().tables().len();
        for table in &mut deltas.tables[..layers] {
            let values = std::mem::take(&mut table.values);
            table.values = self.gradients.give(values.into());
        }
        deltas
    }

    /// Turns the mean gradient into the deltas of all tables. `own` are the statistics of the batch's inputs, in the first
    /// pass.
    fn adapt(&mut self, clock: Clock, model: &Model, deltas: &mut Deltas, own: Option<Vec<f32>>) {
        let Self { shared, adaptive, activations, examples_ratio, least_scales, .. } = self;
        let adaptive = adaptive.as_mut().expect("an optimizer that adapts");
        let share = (1.0 / *examples_ratio) as f32;
        let moved = deltas.tables.len();

        let curvature = shared.training.weight_decay;
        let mut standards = (shared.inputs.as_ref())
            .map_or_else(Vec::new, |inputs| inputs.standards(model, own.as_deref(), curvature));
        for (standard, least) in standards.iter_mut().zip(least_scales.iter()) {
            standard.scale = standard.scale.max(*least);
        }
        if let Some(inputs) = &shared.inputs {
            let [weights, bias] = inputs.of_both(&mut deltas.tables);
            to_standard(&standards, bias, weights);
        }

        let rate = shared.schedule.rate(clock) as f32;
        for (table, squares) in shared.squares.iter().enumerate() {
            let gradient = &mut deltas.tables[table].values;
            let added = squares.direct(adaptive, table, clock, model, gradient, share);
            gradient.iter_mut().for_each(|direction| *direction *= -rate);
            deltas.tables.extend(added);
        }

        let mut counts = share;
        if let Some(inputs) = &shared.inputs {
            let [weights, bias] = inputs.of_both(&mut deltas.tables);
            from_standard(&standards, weights, bias);
            if shared.stack.is_linear() {
                counts *= shortening(&output_changes(activations.inputs(), weights, bias));
            }
            deltas.tables.push(own.map_or_else(TableDeltas::none, TableDeltas::all));
        }
        for step in deltas.tables[..moved].iter_mut().flat_map(|table| &mut table.values) {
            *step *= counts;
        }
    }

    /// Adds the worker's share of the initial weights that follow from examples.
    fn initialize(&self, inputs: &StandardizedInputs, deltas: &mut Deltas) {
        let own = self.own_statistics(INITIAL_EXAMPLES);
        if own.is_empty() {
            return;
        }

        let decay = self.shared.training.weight_decay;
        let standards = Standard::of_all(own, None, Inputs::Dense, decay);
        let share = (1.0 / self.examples_ratio) as f32;
        let [weights, bias] = inputs.of_both(&mut deltas.tables);
        inputs.add_initial(&standards, share, weights, bias);
    }

    /// The statistics of the inputs of at most `most` of the worker's examples; nothing where they cannot be read.
    fn own_statistics(&self, most: usize) -> Vec<f32> {
        let Self { shared, visits, statistics, .. } = self;
        let mut own = Vec::new();
        visits.probe(&shared.examples.train, most, |train, sample| {
            for some in sample.chunks(INITIAL_EXAMPLES) {
                let added = statistics.of_dense(&shared.stack.inputs(train, some), some.len());
                own.resize(added.len(), 0.0);
                axpy(1.0, &added, &mut own);
            }
            (0.0, Work::default())
        });
        own
    }
}

/// Deltas of all rows, whose values are still to be written.
fn unwritten(layout: &ModelLayout, memory: &mut ReusedValues) -> Deltas {
    let sizes = layout.tables().iter().map(|table| table.rows * table.width);
    let tables = sizes.map(|size| TableDeltas::all(memory.take_stale(size)));
    Deltas { tables: tables.collect() }
}

/// What a step of a dense layer changes in its outputs: examples × outputs.
fn output_changes(inputs: &[f32], weights: &[f32], bias: &[f32]) -> Vec<f32> {
    let outputs = bias.len();
    let features = weights.len() / outputs;
    let examples = inputs.len() / features;
    let mut changes = bias.repeat(examples);
    let inputs = Matrix::new(inputs, examples, features);
    multiply(inputs, Matrix::new(weights, features, outputs), 1.0, 1.0, &mut changes);
    changes
}

/// The name of the velocity of a table.
fn velocity_of(table: usize) -> String {
    format!("velocity.{table}")
}

/// A step is a pass forwards and, about twice as long, one backwards.
const PASSES_PER_STEP: u64 = 3;

/// The most examples of a worker by which it adds initial weights.
const INITIAL_EXAMPLES: usize = 1024;
