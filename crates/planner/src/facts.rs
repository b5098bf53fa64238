//! What a run is known to be before it starts: what [`decide`](super::decide) decides by.

use std::sync::Arc;

use super::decision::default_rounds;
use super::{ClockWork, Exchange, Scaling};
use gaia_config::{OnGiveUp, Plan};
use gaia_core::application::{Application, ApplicationError};
use gaia_core::sync::ValueFormat;
use gaia_core::types::{Clock, DcId, Deltas, Model, TableRows, WorkerId};
use gaia_driver::{Look, Lost};

/// Declared and measured facts of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The number of data centers.
    pub data_centers: usize,
    /// Parameters of the model.
    pub parameters: usize,
    /// Seconds of a clock within a data center whose workers have factor 1 in `compute.slowdown`: computation, and
    /// communication over the LAN.
    pub clock_s: f64,
    /// The time of a clock in the slowest data center, relative to one whose workers have factor 1. What waits for all data
    /// centers has clocks of this length.
    pub slowest: f64,
    /// The harmonic mean of the data centers' factors, which is the mean rate at which they finish clocks, inverted. What waits
    /// for nobody has clocks of this length.
    pub pace: f64,
    /// The share of the parameters that the workers of a data center change in a clock, 0 to 1.
    pub changed_share: f64,
    /// The share of the parameters that the data of all workers use, 0 to 1. No others ever change.
    pub used_share: f64,
    /// Whether changes are dense ([`ClockWork::is_dense`]).
    pub is_dense: bool,
    /// The format in which rounds send the changes of this model.
    pub round_format: ValueFormat,
    /// What exchanges between data centers take.
    pub exchange: Exchange,
    /// Bytes a second of the slowest link between data centers.
    pub slowest_bytes_per_second: f64,
    /// Seconds of the longest round trip between data centers.
    pub rtt_s: f64,
    /// Whether steps have momentum.
    pub has_momentum: bool,
    /// Whether changes are those of counts.
    pub deltas_are_counts: bool,
    /// What copies that have trained alone for a few clocks lose on the examples of other data centers, as a share of the
    /// initial model's loss, in the mean of all copies. Of a script also what they lose to the mean of all, if that is more.
    pub skew: f64,
    /// Whether data centers may join or leave, which only a model that sends updates allows.
    pub has_members: bool,
}

impl Facts {
    /// Whether the model is dense, and its changes can be averaged and sent in part: a network, or a regression on dense features.
    pub(crate) fn is_network(&self) -> bool {
        self.is_dense && !self.deltas_are_counts
    }

    /// Measures a run by a short trial: each data center trains a copy alone for a few clocks, and each copy is then
    /// measured on the examples of another. The same run has the same facts to the bit.
    ///
    /// # Errors
    /// Where an iteration or an evaluation fails.
    pub fn measure(
        plan: &Plan,
        application: &Arc<dyn Application>,
    ) -> Result<Self, ApplicationError> {
        let (topology, parameters) = (&plan.topology, application.layout().parameters());
        let work = ClockWork::measure(plan, application.as_ref())?;
        let used = application.parameters_in_use(0..topology.workers());
        let first = &topology.data_centers[0];
        let is_dense = work.is_dense(parameters);
        let thinnest = topology.bandwidth_range().map(|(slowest, ..)| slowest.bytes_per_second());
        let factors = clock_factors(plan);
        let finished: f64 = factors.iter().map(|factor| 1.0 / factor).sum();
        let rounds = default_rounds(application.deltas_are_counts());

        Ok(Self {
            data_centers: topology.data_centers.len(),
            parameters,
            clock_s: Scaling::of(plan, &work).clock_s(first.workers, first.servers),
            slowest: factors.iter().copied().fold(0.0, f64::max),
            pace: factors.len() as f64 / finished,
            changed_share: work.changed_share(parameters),
            used_share: used as f64 / parameters.max(1) as f64,
            is_dense,
            round_format: rounds.values_for(application.layout()),
            exchange: Exchange::of(topology),
            slowest_bytes_per_second: thinnest.unwrap_or(f64::INFINITY),
            rtt_s: topology.rtt_max().0.as_secs_f64(),
            has_momentum: application.momentum() > 0.0,
            deltas_are_counts: application.deltas_are_counts(),
            skew: skew(plan, application, is_dense)?,
            has_members: may_change_members(plan),
        })
    }
}

/// The time of a clock in each data center, relative to one whose workers have factor 1: that of the last worker for which the
/// clock waits.
pub(crate) fn clock_factors(plan: &Plan) -> Vec<f64> {
    let of_dc = |dc: DcId| {
        let workers = plan.topology.dc(dc).workers;
        let of_worker = |index| plan.compute.slowdown.of(WorkerId { dc, index });
        let mut factors: Vec<f64> = (0..workers as u16).map(of_worker).collect();
        factors.sort_by(f64::total_cmp);
        factors[plan.local.quorum_of(workers) - 1]
    };
    plan.topology.dc_ids().map(of_dc).collect()
}

/// Whether data centers may join or leave.
pub(crate) fn may_change_members(plan: &Plan) -> bool {
    let failures = &plan.failures;
    failures.on_give_up == OnGiveUp::Leave || !failures.late.is_empty()
}

/// What copies that have trained alone lose on the examples of others.
fn skew(
    plan: &Plan,
    application: &Arc<dyn Application>,
    is_dense: bool,
) -> Result<f64, ApplicationError> {
    let topology = &plan.topology;
    if topology.links.is_empty() {
        return Ok(0.0);
    }
    // A worker's change of a dense model is its part of the mean over all workers. Alone, a data center takes its own
    // mean.
    let is_mean = is_dense && !application.deltas_are_counts();
    let scale_of = |dc| match is_mean {
        true => topology.workers() as f32 / topology.dc(dc).workers as f32,
        false => 1.0,
    };
    let copies = topology.dc_ids().map(|dc| Ok((dc, alone(plan, application, dc, scale_of(dc))?)));
    let copies: Vec<(DcId, Model)> = copies.collect::<Result<_, ApplicationError>>()?;
    let Lost(away) = Look::new(plan, 0).measure(&copies, application)?;
    if plan.external().is_none() {
        return Ok(away);
    }
    let copies: Vec<Model> = copies.into_iter().map(|(_, copy)| copy).collect();
    let Lost(apart) = lost_to_the_mean(plan, application, &copies)?;
    Ok(away.max(apart))
}

/// What copies lose to the mean of all, as a share of the initial model's loss. A script may evaluate on examples of all kinds in
/// each data center: a copy that knows only its own is then as bad at home as elsewhere, and the mean is better than both.
fn lost_to_the_mean(
    plan: &Plan,
    application: &Arc<dyn Application>,
    copies: &[Model],
) -> Result<Lost, ApplicationError> {
    let loss = |model: &Model| {
        Ok::<f64, ApplicationError>(
            application.sums(model, 0..application.workers())?.objective.mean(),
        )
    };
    let layout = application.layout();
    let mut mean = Model::zeros(layout.clone());
    for id in layout.table_ids() {
        for copy in copies {
            let values = mean.table_mut(id).iter_mut().zip(copy.table(id));
            values.for_each(|(sum, value)| *sum += value / copies.len() as f32);
        }
    }

    let apart =
        copies.iter().map(loss).sum::<Result<f64, ApplicationError>>()? / copies.len() as f64;
    let untrained = loss(&application.initial_model(plan.seed.child("model")))?;
    Ok(Lost::of(apart - loss(&mean)?, untrained))
}

/// The copy of a data center whose workers have trained it alone for [`CLOCKS`] clocks.
fn alone(
    plan: &Plan,
    application: &Arc<dyn Application>,
    dc: DcId,
    scale: f32,
) -> Result<Model, ApplicationError> {
    let mut copy = application.initial_model(plan.seed.child("model"));
    let first = plan.topology.first_worker(dc);
    let workers = first..first + plan.topology.dc(dc).workers;
    let tasks =
        workers.map(|worker| application.task(worker, plan.seed.child("tasks").nth(worker)));
    let mut tasks: Vec<_> = tasks.collect();

    for clock in (0..CLOCKS).map(Clock) {
        let mut all = Vec::new();
        for task in &mut tasks {
            task.rows(clock);
            all.push(task.iterate(clock, &copy)?.0);
        }
        all.iter().for_each(|deltas| add(deltas, scale, &mut copy));
    }
    Ok(copy)
}

/// Adds changes to a model. Those of statistics are a worker's part of what all add to them, as those of weights are.
fn add(deltas: &Deltas, scale: f32, model: &mut Model) {
    let layout = model.layout().clone();
    for ((id, shape), table) in layout.table_ids().zip(layout.tables()).zip(&deltas.tables) {
        let mut values = table.values.iter();
        let mut add_row = |row: usize| {
            let places = model.row_mut(id, row).iter_mut().zip(values.by_ref());
            places.for_each(|(place, value)| *place += scale * value);
        };
        match &table.rows {
            TableRows::All => (0..shape.rows).for_each(&mut add_row),
            TableRows::Listed(rows) => rows.iter().for_each(|row| add_row(*row as usize)),
        }
    }
}

/// The clocks that a copy trains alone.
const CLOCKS: u64 = 10;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use gaia_config::{Override, RunFile};
    use gaia_core::types::{ModelLayout, TableDeltas, TableId, TableLayout};

    const RUN: &str = r#"
name = "small"
app.kind = "perceptron"
[topology]
file = "three-regions"
[sync.remote]
model = "local-steps"
[compute]
examples_per_second = 1000.0
[stop]
clocks = 100
"#;

    /// A run of a perceptron over three regions of two workers each.
    pub(crate) fn plan(settings: &[&str]) -> Plan {
        let overrides: Vec<Override> =
            settings.iter().map(|setting| Override::parse(setting).unwrap()).collect();
        RunFile::from_text("small.toml", RUN, &overrides).unwrap().plan().unwrap()
    }

    /// The facts of such a run, of a small perceptron.
    fn measured(settings: &[&str]) -> Facts {
        let small = ["app.hidden=[4]", "app.data.synthetic={ examples = 600, features = 4 }"];
        let plan = plan(&[small.as_slice(), settings].concat());
        let application =
            gaia_data::build(plan.app.as_ref(), &plan.topology.data_homes(), plan.seed).unwrap();
        Facts::measure(&plan, &application).unwrap()
    }

    #[test]
    fn a_data_center_is_as_slow_as_the_last_worker_for_which_its_clock_waits() {
        let slow = "compute.slowdown={ virginia = [1.0, 4.0], tokyo = 2.0 }";
        assert_eq!(clock_factors(&plan(&[])), [1.0, 1.0, 1.0]);
        assert_eq!(clock_factors(&plan(&[slow])), [4.0, 1.0, 2.0]);
        let quorum = "sync.local={ model = 'bsp', quorum = 0.5 }";
        assert_eq!(clock_factors(&plan(&[slow, quorum])), [1.0, 1.0, 2.0]);
        let stale = "sync.local={ model = 'ssp', staleness = 2 }";
        assert_eq!(clock_factors(&plan(&[slow, stale])), [4.0, 1.0, 2.0]);
    }

    #[test]
    fn who_waits_for_all_has_the_slowest_clock_and_who_waits_for_nobody_the_mean_rate() {
        let facts = measured(&["compute.slowdown.tokyo=4.0"]);
        assert_eq!((facts.slowest, facts.pace), (4.0, 3.0 / 2.25));
    }

    /// An adaptive optimizer moves the weights of each input in coordinates of its own.
    #[test]
    fn rounds_have_the_format_that_the_model_allows() {
        let format =
            |optimizer: &str| measured(&[&format!("app.optimizer={optimizer}")]).round_format;
        assert_eq!([format("sgd"), format("adagrad")], [ValueFormat::Int4, ValueFormat::Bf16]);
    }

    /// The squares of a data center that trains alone would else be too small, and its steps too long.
    #[test]
    fn statistics_of_a_copy_alone_are_scaled_as_its_weights_are() {
        let table = |name: &str| TableLayout { name: name.into(), rows: 2, width: 1 };
        let layout = ModelLayout::new(["weights", "weights.squares"].map(table).to_vec());
        let layout = Arc::new(layout.with_statistics([TableId(1)]));
        let mut model = Model::zeros(layout);
        let tables =
            vec![TableDeltas::all(vec![1.0, 2.0]), TableDeltas::listed(vec![1], vec![4.0])];
        add(&Deltas { tables }, 3.0, &mut model);
        assert_eq!(model.table(TableId(0)), [3.0, 6.0]);
        assert_eq!(model.table(TableId(1)), [0.0, 12.0]);
    }
}
