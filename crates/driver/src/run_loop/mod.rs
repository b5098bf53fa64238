//! The run loop that all drivers share: it executes what the coordinator decides, has copies judged, and keeps what the run
//! reports.
//!
//! This room decides in which order the coordinator's outputs are executed, which copies an evaluation is of and when the
//! next one begins, and what is recorded and shown of a run. It does not know how orders and copies travel, nor the time:
//! a driver says that, over [`RunDriver`].

mod evaluations;
mod monitor;

pub(crate) use evaluations::{Evaluated, Evaluation, Evaluations};
pub(crate) use monitor::{Ended, NodeReport, RunMonitor};

use gaia_core::coordinator::{Coordinator, CoordinatorOutput, NodeOrder, Recipients, StopReason};
use gaia_core::types::Clock;

/// What executes the decisions of a coordinator: the cluster of one driver.
pub trait RunDriver {
    /// Why a decision cannot be executed.
    type Error;

    /// The coordinator whose decisions these are.
    fn coordinator(&mut self) -> &mut Coordinator;

    /// Gives an order to nodes: at once, or in this order once [`execute_outputs`] has returned.
    ///
    /// # Errors
    /// Where a node that is told at once breaks the run.
    fn order(&mut self, to: Recipients, order: NodeOrder) -> Result<(), Self::Error>;

    /// Has the copies of all data centers judged, which hold this clock. An evaluation that has not begun when another is
    /// requested may be left out.
    fn evaluate(&mut self, clock: Clock);

    /// Notes why the run stops. Called before workers are told, and again where they are told a later clock.
    fn on_stop(&mut self, reason: StopReason);

    /// Ends the run: all copies are equal.
    ///
    /// # Errors
    /// Where what follows breaks the run.
    fn finish(&mut self) -> Result<(), Self::Error>;
}

/// Executes everything that the driver's coordinator has decided, in order.
///
/// # Errors
/// The first of the driver's. What was decided after that is still to be executed.
pub fn execute_outputs<D: RunDriver>(driver: &mut D) -> Result<(), D::Error> {
    while let Some(output) = driver.coordinator().poll_output() {
        match output {
            CoordinatorOutput::Start => {
                driver.order(Recipients::Workers, NodeOrder::Start { stopped: None })?;
            }
            CoordinatorOutput::Evaluate { clock } => driver.evaluate(clock),
            CoordinatorOutput::Stop { last, reason } => {
                driver.on_stop(reason);
                driver.order(Recipients::Workers, NodeOrder::Stop { last })?;
            }
            CoordinatorOutput::Drain { dc, clocks, inactive } => {
                let order = NodeOrder::Drain { clocks, inactive };
                driver.order(Recipients::ServersOf(dc), order)?;
            }
            CoordinatorOutput::Finished => driver.finish()?,
        }
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use super::*;
    use gaia_core::coordinator::{CoordinatorConfig, StopRules};
    use gaia_core::types::{DcId, Instant, ServerId, ShardId, WorkerId};

    const SERVER: ServerId = ServerId { dc: DcId(0), shard: ShardId(0) };
    const WORKER: WorkerId = WorkerId { dc: DcId(0), index: 0 };

    /// Writes down what it is to do.
    struct Notes {
        coordinator: Coordinator,
        notes: Vec<String>,
    }

    impl RunDriver for Notes {
        type Error = Infallible;

        fn coordinator(&mut self) -> &mut Coordinator {
            &mut self.coordinator
        }

        fn order(&mut self, to: Recipients, order: NodeOrder) -> Result<(), Infallible> {
            self.notes.push(format!("{to:?}: {order:?}"));
            Ok(())
        }

        fn evaluate(&mut self, clock: Clock) {
            self.notes.push(format!("evaluate {}", clock.0));
            self.coordinator.handle_evaluation(Instant::ZERO, clock, 1.0);
        }

        fn on_stop(&mut self, reason: StopReason) {
            self.notes.push(format!("stop: {}", reason.name()));
        }

        fn finish(&mut self) -> Result<(), Infallible> {
            self.notes.push("finish".into());
            Ok(())
        }
    }

    #[test]
    fn outputs_are_executed_in_order_with_those_that_they_lead_to() {
        let coordinator = Coordinator::new(CoordinatorConfig {
            servers: vec![SERVER],
            workers: vec![WORKER],
            stop: StopRules { clocks: Some(2), ..StopRules::default() },
            evaluate_every: 2,
            lockstep: None,
            inactive: BTreeSet::new(),
        });
        let mut driver = Notes { coordinator, notes: Vec::new() };
        let mut expect = |tell: &dyn Fn(&mut Coordinator), expected: &[&str]| {
            tell(&mut driver.coordinator);
            let Ok(()) = execute_outputs(&mut driver);
            assert_eq!(std::mem::take(&mut driver.notes), expected);
        };

        expect(&|run| run.handle_start(), &["Workers: Start { stopped: None }"]);
        expect(&|run| run.handle_copy_ready(SERVER, Clock(1)), &[]);
        expect(
            &|run| run.handle_copy_ready(SERVER, Clock(2)),
            &["evaluate 2", "stop: clocks", "Workers: Stop { last: Clock(0) }"],
        );
        expect(
            &|run| run.handle_worker_stopped(WORKER, Clock(2)),
            &["ServersOf(DcId(0)): Drain { clocks: [Clock(2)], inactive: {} }"],
        );
        expect(&|run| run.handle_drained(SERVER), &["finish"]);
    }
}
