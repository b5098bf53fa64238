//! What the coordinator of a run decides, carried out: the one place that knows all its outputs.
//!
//! A driver says how nodes are told, how copies are judged and what the end of a run means to it. In which order that happens,
//! and what is recorded of it, is the same in all.

use crate::judge::Verdict;
use crate::recorder::{AllLinkCounters, RunRecorder};
use gaia_core::coordinator::{Coordinator, CoordinatorOutput, NodeOrder, Recipients, StopReason};
use gaia_core::types::{Clock, DcId, Instant};
use gaia_telemetry::Observer;

/// What carries out the decisions of a coordinator: the cluster of one driver.
pub trait Carrier {
    /// Why a decision cannot be carried out.
    type Error;

    /// The coordinator whose decisions these are.
    fn coordinator(&mut self) -> &mut Coordinator;

    /// Nodes are to be told this: at once, or in this order once [`carry_out`] has returned.
    ///
    /// # Errors
    /// Where a node that is told at once breaks the run.
    fn order(&mut self, to: Recipients, order: NodeOrder) -> Result<(), Self::Error>;

    /// The copies of all data centers are to be judged, which hold this clock. One that is still to be judged when another is
    /// asked for may be passed over.
    fn evaluate(&mut self, clock: Clock);

    /// The run stops for this reason. Said before workers are told, and again where they are told a later clock.
    fn on_stop(&mut self, reason: StopReason);

    /// All copies are equal, and the run is over.
    ///
    /// # Errors
    /// Where what that opens breaks the run.
    fn finish(&mut self) -> Result<(), Self::Error>;
}

/// Has everything carried out that a coordinator has decided, in order.
///
/// # Errors
/// The first of the carrier's. What was decided after that is still to be carried out.
pub fn carry_out<C: Carrier>(carrier: &mut C) -> Result<(), C::Error> {
    while let Some(output) = carrier.coordinator().poll_output() {
        match output {
            CoordinatorOutput::Start => {
                carrier.order(Recipients::Workers, NodeOrder::Start { stopped: None })?;
            }
            CoordinatorOutput::Evaluate { clock } => carrier.evaluate(clock),
            CoordinatorOutput::Stop { last, reason } => {
                carrier.on_stop(reason);
                carrier.order(Recipients::Workers, NodeOrder::Stop { last })?;
            }
            CoordinatorOutput::Drain { dc, clocks, inactive } => {
                let order = NodeOrder::Drain { clocks, inactive };
                carrier.order(Recipients::ServersOf(dc), order)?;
            }
            CoordinatorOutput::Finished => carrier.finish()?,
        }
    }
    Ok(())
}

/// What holds when copies are taken to be judged.
pub(crate) struct Evaluation {
    /// When they are taken.
    pub(crate) at: Instant,
    /// The clock that every copy holds.
    pub(crate) clock: Clock,
    /// The data centers whose copies are judged, with the clock that each has finished.
    pub(crate) clocks: Vec<(DcId, Clock)>,
    /// What links had carried.
    pub(crate) link_counters: AllLinkCounters,
}

impl Evaluation {
    /// Records what the copies are worth, shows it, and tells the coordinator, for which it is `now`.
    pub(crate) fn conclude(
        self,
        now: Instant,
        verdict: &Verdict,
        coordinator: &mut Coordinator,
        recorder: &mut RunRecorder,
        observer: &mut dyn Observer,
    ) {
        let Self { at, clock, clocks, link_counters } = self;
        let clocks = clocks.into_iter();
        let progress = recorder.on_evaluation(at, clock, verdict, clocks, &link_counters);
        observer.on_progress(progress);

        coordinator.handle_evaluation(now, clock, verdict.worst().objective);
    }
}

/// Notes the clocks of all data centers whose copies count.
pub(crate) fn record_clocks(recorder: &mut RunRecorder, coordinator: &Coordinator) {
    let dcs = recorder.topology().dc_ids();
    let judged = dcs.filter(|dc| coordinator.is_judged(*dc));
    recorder.on_clocks(judged.map(|dc| (dc, coordinator.clock_of(dc))));
}
