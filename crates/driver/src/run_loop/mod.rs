//! The run loop that all drivers share. It executes the coordinator's outputs, has copies evaluated, and records what
//! nodes report.
//!
//! This room decides the order in which the coordinator's outputs are executed, which copies an evaluation needs
//! and when the next one begins, and what is recorded and shown of a run. How orders and copies travel, and the time,
//! are decided by a driver, through [`RunDriver`].

mod evaluations;
mod monitor;

pub(crate) use evaluations::{Evaluation, Evaluations};
pub(crate) use monitor::{Ended, NodeReport, RunMonitor};

use gaia_core::coordinator::{Coordinator, CoordinatorOutput, NodeOrder, Recipients, StopReason};
use gaia_core::types::Clock;

/// Executes the decisions of a coordinator in the cluster of one driver.
pub trait RunDriver {
    /// The error of a decision that cannot be executed.
    type Error;

    /// The coordinator whose decisions are executed.
    fn coordinator(&mut self) -> &mut Coordinator;

    /// Sends an order to nodes, either at once or after [`execute_outputs`] has returned. The order of calls is kept.
    ///
    /// # Errors
    /// If a node that receives the order at once fails the run.
    fn order(&mut self, to: Recipients, order: NodeOrder) -> Result<(), Self::Error>;

    /// Requests an evaluation of the copies of all data centers, which hold this clock. An evaluation that has not
    /// begun may be left out when another is requested.
    fn evaluate(&mut self, clock: Clock);

    /// Handles the reason why the run stops. Called before workers are stopped, and again if they are sent a later
    /// clock.
    fn on_stop(&mut self, reason: StopReason);

    /// Ends the run. All copies are equal.
    ///
    /// # Errors
    /// If the end of the run fails.
    fn finish(&mut self) -> Result<(), Self::Error>;
}

/// Executes all outputs of the driver's coordinator, in order.
///
/// # Errors
/// The first error of the driver. The outputs after it are still to be executed.
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
    use gaia_core::coordinator::{CoordinatorConfig, Scale, StopRules};
    use gaia_core::types::{DcId, Instant, ServerId, ShardId, WorkerId};

    const SERVER: ServerId = ServerId { dc: DcId(0), shard: ShardId(0) };
    const WORKER: WorkerId = WorkerId { dc: DcId(0), index: 0 };

    /// Records its calls.
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
            scale: Scale::default(),
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
