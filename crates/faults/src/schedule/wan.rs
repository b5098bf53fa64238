//! The WAN: sending messages, and opening and closing connections.

use std::time::Duration;

use super::{Done, Event, Schedule};
use crate::bugs::Bug;
use crate::checkers::Seen;
use crate::cluster::ends::{Pair, ends_of, pair_of};
use crate::cluster::nodes::Task;
use gaia_core::session::{HEADER_BYTES, Message};
use gaia_core::types::{DcId, Lane, NodeId, ServerId};

impl Schedule<'_> {
    /// A link's data lane has room: reports the sent frames to the server, and sends the next.
    pub(super) fn on_link_ready(&mut self, from: DcId, to: DcId) -> Done {
        let (shard, bytes, busy) = self.network.wan.on_ready(from, to);
        if bytes > 0 {
            let server = NodeId::Server(ServerId { dc: from, shard });
            self.hand(server, Task::Drained { to, bytes, busy })?;
        }
        for shard in self.network.turns(from, to) {
            self.work(NodeId::Server(ServerId { dc: from, shard }))?;
        }
        self.fill(from, to)
    }

    /// Sends the waiting messages of the control lane that the link has room for, and the rest once it has.
    ///
    /// As in the real driver, messages that the link cannot carry yet stay in the session. There a later acknowledgement
    /// replaces an earlier one, and they are not lost with the connection.
    pub(super) fn send_control(&mut self, server: ServerId, to: DcId) -> Done {
        while self.ends.is_open(server, to) {
            if let Some(at) = self.network.wan.control_room_at(server.dc, to, self.now) {
                if self.awaiting_control.insert((server, to)) {
                    self.events.push(at, Event::ControlReady { server, to });
                }
                break;
            }

            let node = self.nodes.server_mut(server);
            let Some(message) = node.machine.poll_message(to, Lane::Control) else { break };
            self.send(server, to, Lane::Control, message)?;
        }

        Ok(())
    }

    /// The control lane of a link has room for more messages of a server.
    pub(super) fn on_control_ready(&mut self, server: ServerId, to: DcId) -> Done {
        self.awaiting_control.remove(&(server, to));
        let host = &self.nodes.servers[&server].host;
        if host.up && !host.writing {
            self.send_control(server, to)?;
        }
        self.work(NodeId::Server(server))
    }

    /// Whether a link's data lane has room.
    pub(super) fn has_room(&self, from: DcId, to: DcId) -> bool {
        let wan = &self.network.wan;
        self.fault_injector.has(Bug::IgnoresLinkRate)
            || (!wan.is_waiting(from, to) && wan.room_at(from, to, self.now).is_none())
    }

    /// Sends one data frame on a link, if it has room and a server has a frame.
    pub(super) fn fill(&mut self, from: DcId, to: DcId) -> Done {
        if !self.has_room(from, to) {
            let wan = &mut self.network.wan;
            if let Some(at) = wan.room_at(from, to, self.now).filter(|_| !wan.is_waiting(from, to))
            {
                wan.wait(from, to);
                self.events.push(at, Event::LinkReady { from, to });
            }
            return Ok(());
        }

        for shard in self.network.turns(from, to) {
            let server = ServerId { dc: from, shard };
            let node = self.nodes.server_mut(server);
            let is_free = node.host.up && !node.host.writing;
            if is_free
                && self.ends.is_open(server, to)
                && let Some(message) = node.machine.poll_message(to, Lane::Data)
            {
                return self.send(server, to, Lane::Data, message);
            }
        }

        Ok(())
    }

    pub(super) fn send(
        &mut self,
        server: ServerId,
        to: DcId,
        lane: Lane,
        message: Message,
    ) -> Done {
        let is_frame = message.len() > HEADER_BYTES;
        let again = is_frame && self.reconnected.remove(&(server, to));
        let Some(message) = self.fault_injector.message(server, to, message, again) else {
            return Ok(());
        };
        self.see(Seen::Left { from: server, to, message: &message })?;
        let sent = self.network.send(self.now, server, to, lane, &message);
        let (bytes, departs) = (message.len() as u64, sent.fate.departs);
        self.see(Seen::Carried { from: server.dc, to, lane, bytes, departs })?;

        let epoch = self.ends.epoch(server, to);
        let at = ServerId { dc: to, shard: server.shard };
        for (when, message) in sent.arrivals {
            self.under_way += 1;
            self.events.push(when, Event::Arrives { at, from: server.dc, epoch, message });
        }

        if lane == Lane::Data {
            self.events.push(departs, Event::LinkReady { from: server.dc, to });
        }
        Ok(())
    }

    /// Opens a connection, if both ends run.
    pub(super) fn connect(&mut self, pair: Pair) -> Done {
        let ends = ends_of(pair);
        let there = ends.iter().all(|(server, _)| self.nodes.servers[server].host.up);
        let connection = self.ends.connection(pair);
        if connection.up || !there {
            return Ok(());
        }
        connection.up = true;
        let epoch = connection.epoch;
        for (server, peer) in ends {
            if epoch > 0 {
                self.reconnected.insert((server, peer));
            }
            self.hand(NodeId::Server(server), Task::Connect { peer, epoch })?;
        }
        Ok(())
    }

    /// Closes a connection. Messages on it are lost, and the next one is opened a round trip later.
    pub(super) fn reset(&mut self, pair: Pair) {
        let connection = self.ends.connection(pair);
        if !connection.up {
            return;
        }
        connection.up = false;
        (connection.hello_sent, connection.received) = ([false; 2], [false; 2]);
        connection.epoch += 1;
        self.counts.reconnects += 1;
        for (server, peer) in ends_of(pair) {
            let task = Task::Disconnected { peer };
            self.schedule_task(self.now + SILENCE, NodeId::Server(server), task);
        }
        self.reconnect(pair);
    }

    /// Notifies a server of a mirror's silence after a while, if it lasts until then.
    pub(super) fn suspect(&mut self, server: ServerId, peer: DcId, after: Duration) {
        self.schedule_task(self.now + after, NodeId::Server(server), Task::Silent { peer });
    }

    pub(super) fn reconnect(&mut self, pair: Pair) {
        if !self.fault_injector.has(Bug::NeverReconnects) {
            let rtt = self.plan.topology.link(pair.0, pair.1).rtt.0;
            self.events.push(self.now + rtt, Event::Connect { pair });
        }
    }

    /// The connections of a server.
    pub(super) fn pairs_of(&self, server: ServerId) -> Vec<Pair> {
        let peers = self.plan.topology.dc_ids().filter(|peer| *peer != server.dc);
        peers.map(|peer| pair_of(server, peer)).collect()
    }
}

/// How long a connection may be down, or a mirror silent, before the server is notified that it receives nothing from its
/// mirror.
pub(super) const SILENCE: Duration = Duration::from_secs(1);
