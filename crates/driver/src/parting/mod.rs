//! Whether copies of the model part under ASP without a guard, and what the run says then.
//!
//! A copy that its own data center's examples have drawn away from those of others loses on their examples what their own
//! copies do not: the measure of the guard against skew (model traveling; Hsieh et al., ICML 2020, section 7). Where copies
//! are evaluated in one process, that is known without a byte on the WAN ([`Look`]). Over real machines copies travel, and
//! data centers report what they have measured ([`Traveled`]). It is looked at after 10 clocks, and each time that the
//! clocks have doubled, so that it costs a run little.

mod traveled;

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tracing::debug;

use crate::copies::workers_of;
use gaia_config::Plan;
use gaia_core::application::{Application, ApplicationError};
use gaia_core::node::Probed;
use gaia_core::sync::{CopiesDue, GuardConfig};
use gaia_core::types::{Clock, DcId, Model, Seed};
use gaia_telemetry::PartedRecord;

use traveled::Traveled;

/// When copies are looked at, and what was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Parting {
    /// The clock from which an evaluation looks at copies. `None`: none does.
    next: Option<Clock>,
    /// The looks so far.
    looks: u64,
    /// What data centers have measured of copies that traveled.
    traveled: Traveled,
    pub(crate) found: Option<PartedRecord>,
}

/// One look at the copies of all data centers.
#[derive(Clone, Debug)]
pub struct Look {
    /// The workers of each data center.
    workers: Vec<Range<usize>>,
    /// How far the host of a copy is from its own data center, counted around the topology.
    step: usize,
    /// The seed of the initial model.
    seed: Seed,
}

/// What copies lose on the examples of other data centers: the loss of a copy minus that of the copy at home there, as a share
/// of the initial model's loss, in the mean of all copies.
///
/// In the mean a copy that is worse everywhere, such as that of an unsteady network, does not count: it is as much worse at
/// home, too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lost(pub f64);

impl Lost {
    /// The share that a loss is of the initial model's. Copies that have left every sound value have lost all of it.
    pub fn of(lost: f64, untrained: f64) -> Self {
        let share = lost / untrained.abs().max(f64::MIN_POSITIVE);
        Self(if share.is_finite() { share } else { 1.0 })
    }
}

impl Parting {
    /// What a run looks at, if it looks at copies.
    pub(crate) fn of(plan: &Plan) -> Self {
        let is_watched = plan.looks_at_copies() && !plan.sends_copies_to_look();
        let next = is_watched.then(|| CopiesDue::Doubling.after(Clock::ZERO));
        Self { next, looks: 0, traveled: Traveled::default(), found: None }
    }

    /// The look that is due at an evaluation of this clock.
    pub(crate) fn due(&self, plan: &Plan, clock: Clock) -> Option<Look> {
        let is_due = self.next.is_some_and(|next| clock >= next);
        is_due.then(|| Look::new(plan, self.looks))
    }

    /// Notes what a look found. Returns the record if copies have parted, at the first time.
    pub(crate) fn on_lost(&mut self, clock: Clock, lost: Lost) -> Option<&PartedRecord> {
        self.looks += 1;
        self.next = Some(Clock(2 * clock.0.max(1)));
        self.judge(clock, lost)
    }

    /// Notes what a data center has measured of a copy that has traveled to it, among so many data centers. Returns the record
    /// if copies have parted, at the first time.
    pub(crate) fn on_probed(
        &mut self,
        at: DcId,
        probed: Probed,
        data_centers: usize,
    ) -> Option<&PartedRecord> {
        let (clock, lost) = self.traveled.add(at, probed, data_centers)?;
        self.judge(clock, lost)
    }

    fn judge(&mut self, clock: Clock, Lost(loss): Lost) -> Option<&PartedRecord> {
        debug!(clock = clock.0, loss, "looked whether copies part");
        if loss <= GuardConfig::default().bound || self.found.is_some() {
            return None;
        }

        self.next = None;
        Some(self.found.insert(PartedRecord { clock: clock.0, loss, add: "guard = {}".into() }))
    }
}

impl Look {
    /// A look at the copies of a run, the `number`-th of its looks. Each measures copies in another data center.
    pub fn new(plan: &Plan, number: u64) -> Self {
        let topology = &plan.topology;
        let others = topology.data_centers.len().saturating_sub(1).max(1);
        Self {
            workers: topology.dc_ids().map(|dc| workers_of(topology, dc)).collect(),
            step: 1 + (number % others as u64) as usize,
            seed: plan.seed.child("model"),
        }
    }

    /// Measures each copy on the examples of another data center, beside that one's own copy. There is one of each data center,
    /// in their order.
    ///
    /// # Errors
    /// Those of the application.
    pub fn measure(
        &self,
        copies: &[(DcId, Model)],
        application: &Arc<dyn Application>,
    ) -> Result<Lost, ApplicationError> {
        let initial = application.initial_model(self.seed);
        let losses = (0..copies.len()).into_par_iter().map(|number| {
            let (_, away) = &copies[number];
            let (at, home) = &copies[(number + self.step) % copies.len()];
            let loss = |model: &Model| {
                let sums = application.sums(model, self.workers[at.index()].clone())?;
                Ok::<f64, ApplicationError>(sums.objective.mean())
            };
            Ok((loss(away)? - loss(home)?, loss(&initial)?))
        });
        let losses: Vec<(f64, f64)> = losses.collect::<Result<_, ApplicationError>>()?;

        let (lost, untrained) = losses
            .iter()
            .fold((0.0, 0.0), |(lost, untrained), each| (lost + each.0, untrained + each.1));
        Ok(Lost::of(lost, untrained))
    }
}
