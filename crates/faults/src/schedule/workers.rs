//! The inputs and outputs of workers.

use super::{Done, Schedule};
use crate::bugs::Bug;
use crate::checkers::Seen;
use crate::cluster::nodes::Task;
use gaia_core::node::WorkerMessage;
use gaia_core::types::{Clock, NodeId, ServerId, ShardId, WorkerId};

impl Schedule<'_> {
    pub(super) fn handle_worker_task(&mut self, id: WorkerId, task: Task) -> Done {
        let late = u64::from(self.fault_injector.has(Bug::StopsLate));
        let machine = &mut self.nodes.worker_mut(id).machine;
        // A worker without a state does not know its clock yet.
        if let Task::Stop { last } = task
            && !machine.is_new()
            && let Some(finished) = machine.worker_mut().map(|worker| worker.clock())
        {
            self.see(Seen::StopReceived { worker: id, last, finished })?;
        }
        let machine = &mut self.nodes.worker_mut(id).machine;
        match task {
            Task::Rows { from, rows } => drop(machine.handle_rows(from, rows)),
            Task::Computed => machine.handle_computed(),
            Task::Joined { server, due } => {
                for message in machine.handle_joined(server, due) {
                    self.send_request(id, server, message)?;
                }
            }
            Task::Due { server, due, guessed } => machine.handle_due(server, due, guessed),
            Task::Start { stopped } => machine.handle_start(stopped),
            Task::Stop { last } => machine.handle_stop(Clock(last.0 + late)),
            _ => unreachable!("the task of a server was given to a worker"),
        }
        Ok(())
    }

    /// Releases all outputs of a worker, and lets it compute when it has read its rows.
    pub(super) fn let_out_worker(&mut self, id: WorkerId) -> Done {
        while let Some((shard, message)) = self.nodes.worker_mut(id).machine.poll_message() {
            self.send_request(id, shard, message)?;
        }
        let number = self.plan.topology.first_worker(id.dc) + usize::from(id.index);
        let slowdown = self.slowdown(id.dc);
        let node = self.nodes.worker_mut(id);

        if let Some(mut worker) = node.machine.poll_compute() {
            let work = worker.compute().expect("tasks of the simulator do not fail");
            worker.take_held();
            node.machine.handle_ran(worker);
            let time = self.cost.time(id, number, work).mul_f64(slowdown);
            self.schedule_task(self.now + time, NodeId::Worker(id), Task::Computed);
        }

        let node = self.nodes.worker_mut(id);
        let mut stopped = node.machine.stopped();
        if self.fault_injector.has(Bug::ReportsStopEarly)
            && self.coordinator.orders().stop.is_some()
        {
            stopped = node.machine.worker_mut().map(|worker| worker.clock());
        }

        if stopped != node.reported_stop {
            node.reported_stop = stopped;
            if let Some(clock) = stopped {
                self.inform(|coordinator| coordinator.handle_worker_stopped(id, clock));
            }
        }

        Ok(())
    }

    fn send_request(&mut self, id: WorkerId, shard: ShardId, message: WorkerMessage) -> Done {
        self.see(Seen::WorkerSent { worker: id, shard, message: &message })?;
        let message = self.on_worker_message(id, shard, message);
        let to = NodeId::Server(ServerId { dc: id.dc, shard });
        let bytes = message.lan_bytes(self.nodes.layout(shard));
        let incarnation = self.nodes.host(NodeId::Worker(id)).incarnation;
        let task = Task::FromWorker { from: id, incarnation, message };
        self.send_nearby(NodeId::Worker(id), to, bytes, task);
        Ok(())
    }
}
