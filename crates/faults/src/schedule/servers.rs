//! The inputs and outputs of servers.

use bytes::Bytes;

use super::wan::SILENCE;
use super::{Done, Schedule};
use crate::bugs::Bug;
use crate::checkers::Seen;
use crate::cluster::nodes::Task;
use crate::cluster::undone::Undone;
use gaia_core::link::Train;
use gaia_core::node::WorkerMessage;
use gaia_core::recovery::{MessageError, Output, RequestOrder};
use gaia_core::session::HelloKind;
use gaia_core::store::ShardDeltas;
use gaia_core::sync::{OutlierAction, OutlierConfig};
use gaia_core::types::{Clock, DcId, Instant, Lane, NodeId, ServerId, WorkerId};

impl Schedule<'_> {
    pub(super) fn handle_server_task(&mut self, id: ServerId, task: Task) -> Done {
        let node = self.nodes.server_mut(id);
        let now = node.host.shows(self.now);
        match task {
            Task::FromWorker { from, incarnation, message } => {
                // Messages on an earlier connection are lost with it.
                if incarnation >= self.nodes.workers[&from].reset_incarnation {
                    self.take_from_worker(id, from, message)?;
                }
            }
            Task::Arrives { from, epoch, message } => {
                if self.ends.epoch(id, from) == epoch {
                    self.arrive(id, from, message)?;
                }
            }
            Task::Drained { to, bytes, busy } => {
                let drained = node.machine.handle_drained(now, to, bytes, busy);
                drained.map_err(|error| self.broken("peer", format!("{id}: {error}")))?;
            }
            Task::Timeout => {
                node.timeout = None;
                let reached = now.max(node.machine.now());
                if node.machine.poll_timeout().is_some_and(|at| at <= reached) {
                    node.machine.handle_timeout(now);
                }
            }
            Task::Acknowledge { peer } => self.acknowledge(id, peer)?,
            Task::Connect { peer, epoch } => {
                if self.ends.epoch(id, peer) == epoch {
                    let hello = node.machine.connect(peer);
                    self.ends.on_hello_sent(id, peer);
                    self.send(id, peer, Lane::Control, hello)?;
                }
            }
            Task::Disconnected { peer } if self.ends.is_established(id, peer) => {}
            Task::Disconnected { peer } => self.disconnect(id, peer)?,
            Task::Silent { peer } if !self.network.is_silent(self.now, peer, id.dc) => {}
            Task::Silent { peer } => {
                self.suspect(id, peer, SILENCE / 2);
                self.disconnect(id, peer)?;
            }
            Task::Join { worker } => self.join(id, worker),
            Task::Drain { clocks, inactive } => node.machine.handle_drain(now, clocks, inactive),
            Task::Left { dc, incarnation } => {
                let left = node.machine.handle_left(now, dc, incarnation);
                left.map_err(|error| self.broken("peer", format!("{id}: {error}")))?;
            }
            _ => unreachable!("the task of a worker was given to a server"),
        }

        let node = self.nodes.server_mut(id);
        if !node.machine.is_rebuilding() {
            let parked = std::mem::take(&mut node.parked).into_iter();
            node.host.inbox.extend(parked.map(|worker| Task::Join { worker }));
        }

        self.see_answers(id)
    }

    /// Sends an acknowledgement that is due without a frame, once the control lane is idle.
    fn acknowledge(&mut self, id: ServerId, peer: DcId) -> Done {
        self.acknowledging.remove(&(id, peer));
        let idle_at = self.network.wan.control_idle_at(id.dc, peer);
        if idle_at > self.now {
            self.acknowledge_at(id, peer, idle_at + ACKNOWLEDGEMENT_DELAY);
        } else if self.ends.is_open(id, peer)
            && let Some(message) = self.nodes.server_mut(id).machine.poll_acknowledgement(peer)
        {
            self.send(id, peer, Lane::Control, message)?;
        }
        Ok(())
    }

    /// Notifies a server that it receives nothing from a mirror.
    fn disconnect(&mut self, id: ServerId, peer: DcId) -> Done {
        if !self.fault_injector.has(Bug::MissesLostConnections) {
            let node = self.nodes.server_mut(id);
            let now = node.host.shows(self.now);
            let parted = node.machine.handle_disconnected(now, peer);
            parted.map_err(|error| self.broken("peer", format!("{id}: {error}")))?;
        }
        self.see(Seen::Disconnected { at: id, from: peer })
    }

    /// Connects a worker to a server. A crashed worker connects when it restarts.
    fn join(&mut self, id: ServerId, worker: WorkerId) {
        let caller = &self.nodes.workers[&worker];
        if !caller.host.up {
            return;
        }

        if caller.machine.must_write() {
            // The server's request must be durable.
            let at = self.now + RETRY_AFTER;
            self.schedule_task(at, NodeId::Server(id), Task::Join { worker });
            return;
        }

        let next_requests = caller.machine.next_request(id.shard);
        let node = self.nodes.server_mut(id);
        let now = node.host.shows(self.now);
        if node.machine.handle_worker_joined(now, worker, next_requests).is_none() {
            node.parked.push(worker);
            return;
        }

        node.joining.push(worker);
        self.fault_injector.on_join(id, worker);
    }

    fn take_from_worker(&mut self, id: ServerId, from: WorkerId, message: WorkerMessage) -> Done {
        let clock = self.nodes.server(id).clock();
        let taken = self.fault_injector.on_worker_message(id, from, message.clone(), clock);
        let taken = self.accepted(id.shard, taken);
        let node = self.nodes.server_mut(id);
        let now = node.host.shows(self.now);
        let order = node.machine.handle_worker(now, from, taken);
        self.counts.recovery.passed_over += u64::from(order == RequestOrder::AlreadyApplied);

        if order != RequestOrder::Due {
            return Ok(());
        }
        match message {
            WorkerMessage::HandOver { .. } => {}
            WorkerMessage::Reset => self.see(Seen::WorkerReset { server: id, worker: from })?,
            WorkerMessage::Read { clock, rows } => {
                self.see(Seen::Asked { server: id, worker: from, clock, rows: &rows })?;
                self.recorder(id, Undone::Asked { server: id, worker: from });
            }
            WorkerMessage::Update { clock, at, deltas, .. } => {
                self.see_updated(id, from, (clock, at), &deltas)?;
            }
        }

        Ok(())
    }

    /// What a server applies of a worker's update, by the limits of the plan.
    pub(super) fn applied(&self, deltas: ShardDeltas) -> ShardDeltas {
        let Some(OutlierConfig { norm_max: Some(most), action, .. }) = self.plan.outliers else {
            return deltas;
        };
        let factors: Vec<f32> = deltas
            .norms()
            .map(|norm| if norm > most { (most / norm) as f32 } else { 1.0 })
            .collect();
        match action {
            OutlierAction::Refuse if factors.iter().any(|factor| *factor < 1.0) => {
                deltas.scaled(factors.iter().map(|_| 0.0))
            }
            _ => deltas.scaled(factors),
        }
    }

    fn arrive(&mut self, at: ServerId, from: DcId, message: Bytes) -> Done {
        let packets = Train::of(message.len() as u64).packets;
        self.network.wan.acknowledge(at.dc, from, self.now, packets);
        let node = self.nodes.server_mut(at);
        let now = node.host.shows(self.now);
        let session = node.machine.session(from);
        let received = Lane::ALL.map(|lane| session.received(lane));
        let own = node.machine.incarnation().number();
        let taken = self.fault_injector.on_arrival((at, from), message.clone(), own, received);

        let taken = node.machine.handle_message(now, from, &taken);
        match taken {
            Ok(Some(HelloKind::Reset { .. })) => self.see(Seen::Reset { at, from })?,
            Ok(_) => {}
            Err(MessageError::Session(_)) => {
                self.counts.refused += 1;
                self.reset(crate::cluster::ends::pair_of(at, from));
                return Ok(());
            }
            Err(MessageError::Peer(error)) => {
                return Err(self.broken("peer", format!("{at}: {error}")));
            }
        }

        let bytes = self.nodes.servers[&at].machine.session(from).held_bytes(Lane::Data);
        self.see(Seen::Received { at, from, message: &message, own })?;
        self.see(Seen::Held { at, peer: from, bytes })?;
        while let Some((lane, frame)) = self.deliver(at, from)? {
            let number = self.nodes.servers[&at].machine.session(from).received(lane);
            let frame = self.fault_injector.original((at, from), lane, number, frame);
            self.see(Seen::Delivered { at, from, lane, frame: &frame })?;
            self.see(Seen::Taken { at })?;
            self.recorder(at, Undone::Delivered { at, from, lane, frame });
            self.see_answers(at)?;
        }

        self.acknowledge_at(at, from, self.now + ACKNOWLEDGEMENT_DELAY);
        Ok(())
    }

    /// Schedules an acknowledgement without a frame, unless one is scheduled.
    fn acknowledge_at(&mut self, id: ServerId, peer: DcId, at: Instant) {
        if self.acknowledging.insert((id, peer)) {
            self.schedule_task(at, NodeId::Server(id), Task::Acknowledge { peer });
        }
    }

    fn deliver(
        &mut self,
        at: ServerId,
        from: DcId,
    ) -> Result<Option<(Lane, Bytes)>, Box<super::Violation>> {
        let session = self.nodes.servers[&at].machine.session(from);
        if let Some((lane, frame)) = session.next_frame() {
            let number = session.received(lane) + 1;
            let frame = self.fault_injector.original((at, from), lane, number, frame);
            self.see(Seen::InTurn { at, from, lane, frame: &frame })?;
        }

        let node = self.nodes.server_mut(at);
        let now = node.host.shows(self.now);
        let delivered = node.machine.deliver(now, from);
        delivered.map_err(|error| self.broken("peer", format!("{at}: {error}")))
    }

    /// Cuts frames of a server for connected mirrors, for lanes that have room on the link: all of the control lane, and
    /// one of the data lane.
    pub(super) fn cut(&mut self, id: ServerId) -> Done {
        for to in self.plan.topology.dc_ids().filter(|to| *to != id.dc) {
            if !self.ends.is_open(id, to) {
                continue;
            }
            let has_room = self.network.wan.control_room_at(id.dc, to, self.now).is_none();
            while has_room && self.cut_one(id, to, Lane::Control, usize::MAX)? {}
            let hurries = self.fault_injector.has(Bug::IgnoresWindow);
            let room = self.network.wan.room(id.dc, to);
            let session = self.nodes.servers[&id].machine.session(to);
            if self.has_room(id.dc, to) && (session.unsent(Lane::Data) == 0 || hurries) {
                let mut most = if hurries { 64 } else { 1 };
                while most > 0 && self.cut_one(id, to, Lane::Data, room)? {
                    most -= 1;
                }
            }
        }
        Ok(())
    }

    fn cut_one(
        &mut self,
        id: ServerId,
        to: DcId,
        lane: Lane,
        room: usize,
    ) -> Result<bool, Box<super::Violation>> {
        let node = self.nodes.server_mut(id);
        let now = node.host.shows(self.now);
        let Some(frame) = node.machine.cut(now, to, lane, room) else { return Ok(false) };
        let bytes = node.machine.session(to).held_bytes(Lane::Data);
        let frame = self.fault_injector.on_made(id, lane, frame);
        self.see(Seen::Cut { from: id, to, lane, frame: &frame })?;
        self.recorder(id, Undone::Cut { from: id, to, lane, frame });
        self.see(Seen::Held { at: id, peer: to, bytes })?;
        self.see_answers(id)?;
        Ok(true)
    }

    /// Releases all outputs of a server.
    pub(super) fn let_out_server(&mut self, id: ServerId) -> Done {
        self.nodes.server_mut(id).outputs_seen = 0;
        self.report_progress(id)?;

        let joining = std::mem::take(&mut self.nodes.server_mut(id).joining);
        self.send_outputs(id, &joining)?;
        for worker in joining {
            let due = self.nodes.servers[&id].machine.due(worker);
            self.see(Seen::Due { server: id, worker, due })?;
            let task = Task::Joined { server: id.shard, due };
            self.send_nearby(NodeId::Server(id), NodeId::Worker(worker), JOIN_BYTES, task);
        }

        for to in self.plan.topology.dc_ids().filter(|to| *to != id.dc) {
            self.send_control(id, to)?;
            self.fill(id.dc, to)?;
        }

        self.schedule_timeout(id);
        Ok(())
    }

    /// Reports to the coordinator that a server has its copy, and once for each process what the server has finished.
    fn report_progress(&mut self, id: ServerId) -> Done {
        let node = self.nodes.server_mut(id);
        let had_all = node.has_all;
        if node.machine.is_settled() {
            node.has_all = node.machine.server().is_whole();
        }

        let states = !node.has_reported && node.machine.is_settled();
        if node.has_all && (states || !had_all) && self.coordinator_process.is_up {
            self.coordinator.handle_whole(id);
        }
        if states {
            node.has_reported = true;
            let server = node.machine.server();
            let (clock, copy) = (server.clock(), server.copy_ready());
            let drained = server.is_drained();
            let divergence = server.divergence();
            self.report(id, clock)?;
            if let Some(found) = divergence
                && !self.fault_injector.has(Bug::ForgetsRejection)
            {
                self.report_diverged(id, &found)?;
            }
            self.inform(|coordinator| {
                coordinator.handle_copy_ready(id, copy);
                if drained {
                    coordinator.handle_drained(id);
                }
            });
        }

        Ok(())
    }

    /// Sends the messages and the events of a server. Workers that join with this release are `joining`.
    fn send_outputs(&mut self, id: ServerId, joining: &[WorkerId]) -> Done {
        while let Some(output) = self.nodes.server_mut(id).machine.poll_output() {
            match output {
                Output::ToWorker { worker, .. }
                    if self.fault_injector.has(Bug::ForgetsLastAnswer)
                        && joining.contains(&worker) => {}
                Output::ToWorker { worker, message } => self.answer(id, worker, &message)?,
                Output::Due { worker, due, guessed } => {
                    let task = Task::Due { server: id.shard, due, guessed };
                    self.send_nearby(NodeId::Server(id), NodeId::Worker(worker), JOIN_BYTES, task);
                }
                Output::ClockFinished { clock } => self.report(id, clock)?,
                Output::CopyReady { clock } => {
                    self.inform(|coordinator| coordinator.handle_copy_ready(id, clock));
                }
                Output::Drained => self.inform(|coordinator| coordinator.handle_drained(id)),
                Output::Diverged(found) => self.report_diverged(id, &found)?,
                Output::Probed(_) => {}
            }
        }

        Ok(())
    }

    /// Releases outputs of a server with a bug before they are synced.
    pub(super) fn let_out_early(&mut self, id: ServerId) -> Done {
        let outputs: Vec<Output> = self.nodes.servers[&id].machine.outputs().cloned().collect();
        for output in outputs {
            match output {
                Output::ToWorker { worker, message }
                    if self.fault_injector.has(Bug::AnswersBeforeSync) =>
                {
                    self.answer(id, worker, &message)?;
                }
                Output::ClockFinished { clock }
                    if self.fault_injector.has(Bug::ReportsBeforeSync) =>
                {
                    self.report(id, clock)?;
                }
                _ => {}
            }
        }

        for peer in self.plan.topology.dc_ids().filter(|peer| *peer != id.dc) {
            let session = self.nodes.servers[&id].machine.session(peer);
            let received = Lane::ALL.map(|lane| session.received(lane));
            let early = self.fault_injector.on_write(id, peer, received);
            if let Some(early) = early.filter(|_| self.ends.is_open(id, peer)) {
                self.send(id, peer, Lane::Control, early)?;
            }
        }

        Ok(())
    }

    fn answer(&mut self, id: ServerId, worker: WorkerId, rows: &gaia_core::node::RowsRead) -> Done {
        self.see(Seen::ReplySent { server: id, worker, rows })?;
        let task = Task::Rows { from: id.shard, rows: rows.clone() };
        self.send_nearby(NodeId::Server(id), NodeId::Worker(worker), rows.lan_bytes(), task);
        Ok(())
    }

    fn report(&mut self, id: ServerId, clock: Clock) -> Done {
        self.see(Seen::Reported { server: id, clock })?;
        self.inform(|coordinator| coordinator.handle_clock_finished(id, clock));
        Ok(())
    }

    /// Passes the replies of a server to the checkers.
    fn see_answers(&mut self, id: ServerId) -> Done {
        let node = self.nodes.server_mut(id);
        let seen = std::mem::replace(&mut node.outputs_seen, node.machine.outputs().count());
        let new: Vec<Output> = node.machine.outputs().skip(seen).cloned().collect();
        for output in new {
            if let Output::ToWorker { worker, message } = output {
                self.see(Seen::Answered { server: id, worker, message: &message })?;
            }
        }
        Ok(())
    }

    /// Records an event that a crash undoes unless it is synced.
    pub(super) fn recorder(&mut self, id: ServerId, undone: Undone) {
        if self.logs {
            let node = self.nodes.server_mut(id);
            let next = node.host.disk.next_number();
            let number = node.machine.entries_up_to_latest().map(|entries| next + entries);
            node.unsynced.push((number, undone));
        }
    }

    fn schedule_timeout(&mut self, id: ServerId) {
        let node = self.nodes.server_mut(id);
        let Some(at) = node.machine.poll_timeout() else { return };
        let reached = at <= node.machine.now();
        let at: Instant = if reached { self.now } else { node.host.when(at).max(self.now) };
        if node.timeout.is_none_or(|scheduled| at < scheduled) {
            node.timeout = Some(at);
            self.schedule_task(at, NodeId::Server(id), Task::Timeout);
        }
    }
}

/// How long an end waits for a frame to send before it sends an acknowledgement alone.
const ACKNOWLEDGEMENT_DELAY: std::time::Duration = std::time::Duration::from_millis(10);

const RETRY_AFTER: std::time::Duration = std::time::Duration::from_millis(1);

/// The size of the message with the next due request of a worker.
const JOIN_BYTES: u64 = 64;
