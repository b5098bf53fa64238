//! What passes between data centers: frames into sessions, messages onto links, and back; and what breaks on the way.

use std::time::Duration;

use bytes::Bytes;

use super::{Done, Event, Schedule};
use crate::faults::FaultKind;
use crate::faults::bugs::Bug;
use crate::faults::checkers::Seen;
use crate::faults::ends::{Pair, ends_of, pair_of};
use crate::link::Train;
use crate::node::ServerInput;
use crate::session::{HEADER_BYTES, Message};
use crate::types::{DcId, Instant, Lane, ServerId};

impl Schedule {
    pub(super) fn arrive(&mut self, at: ServerId, from: DcId, message: Bytes) -> Done {
        let packets = Train::of(message.len() as u64).packets;
        self.network.wan.acknowledge(at.dc, from, self.now, packets);
        let message = self.saboteur.on_arrival(at, from, message);
        let session = self.ends.session(at, from);
        let received = Lane::ALL.map(|lane| session.received(lane));
        if session.handle_message(&message).is_err() {
            self.counts.refused += 1;
            self.reset(pair_of(at, from));
            return Ok(());
        }
        let repeated = self.saboteur.repeated(&message, received);
        let due = std::iter::from_fn(|| session.poll_frame()).chain(repeated).collect::<Vec<_>>();
        let bytes = session.held_bytes(Lane::Data);
        self.see(Seen::Held { at, peer: from, bytes })?;
        for (lane, frame) in due {
            self.see(Seen::Delivered { at, from, lane, frame: &frame })?;
            if let Some(frame) = self.saboteur.on_taken(at, lane, frame) {
                let index = self.cluster.server_index(at);
                let input = ServerInput::Frame { from, lane, frame };
                let taken = self.cluster.servers[index].handle_input(self.now, input);
                taken.map_err(|error| self.broken("peer", format!("{at}: {error}")))?;
                self.see(Seen::Taken { at })?;
                self.settle_server(at)?;
            }
        }
        self.transmit(at.dc, from)?;
        if self.acknowledging.insert((at, from), true).is_none() {
            let due = self.now + ACKNOWLEDGEMENT_DELAY;
            self.events.push(due, Event::Acknowledge { server: at, peer: from });
        }
        Ok(())
    }

    /// Fills whatever room a link has: control first, then one frame of data.
    pub(super) fn transmit(&mut self, from: DcId, to: DcId) -> Done {
        for shard in self.network.wan.shards() {
            let server = ServerId { dc: from, shard };
            if self.ends.is_open(server, to) {
                self.cut(server, to, Lane::Control, usize::MAX, usize::MAX)?;
                while let Some(message) = self.ends.session(server, to).poll_transmit(Lane::Control)
                {
                    self.send(server, to, Lane::Control, message)?;
                }
            }
        }
        if self.network.wan.is_waiting(from, to) {
            return Ok(());
        }
        let in_a_hurry = self.saboteur.has(Bug::IgnoresLinkRate);
        if let Some(at) = self.network.wan.room_at(from, to, self.now).filter(|_| !in_a_hurry) {
            self.network.wan.wait(from, to);
            self.events.push(at, Event::LinkReady { from, to });
            return Ok(());
        }
        let room = self.network.wan.room(from, to);
        for shard in self.network.turns(from, to) {
            let server = ServerId { dc: from, shard };
            if !self.ends.is_open(server, to) {
                continue;
            }
            let again = self.ends.session(server, to).poll_transmit(Lane::Data);
            let message = match again {
                Some(message) => Some(message),
                None => {
                    let most = if self.saboteur.has(Bug::IgnoresWindow) { 64 } else { 1 };
                    self.cut(server, to, Lane::Data, room, most)?;
                    self.ends.session(server, to).poll_transmit(Lane::Data)
                }
            };
            if let Some(message) = message {
                return self.send(server, to, Lane::Data, message);
            }
        }
        Ok(())
    }

    /// Has a server cut up to `most` frames, as far as the session has room for them.
    fn cut(&mut self, server: ServerId, to: DcId, lane: Lane, room: usize, most: usize) -> Done {
        let index = self.cluster.server_index(server);
        for _ in 0..most {
            let session_room = match self.ends.session(server, to).room(lane) {
                _ if self.saboteur.has(Bug::IgnoresWindow) => usize::MAX,
                0 => return Ok(()),
                bytes => bytes,
            };
            let room = room.min(session_room);
            let frame = self.cluster.servers[index].poll_transmit(self.now, to, lane, room);
            let Some(frame) = frame else { return Ok(()) };
            let frame = self.saboteur.on_made(lane, frame);
            self.see(Seen::Cut { from: server, to, lane, frame: &frame })?;
            for frame in self.saboteur.on_cut(server, to, lane, frame) {
                self.ends.session(server, to).push(lane, frame);
            }
            let bytes = self.ends.session(server, to).held_bytes(Lane::Data);
            self.see(Seen::Held { at: server, peer: to, bytes })?;
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
        let again = is_frame && self.reconnected.remove(&(server, to)).is_some();
        let Some(message) = self.saboteur.on_message(server, to, message, again) else {
            return Ok(());
        };
        let sent = self.network.send(self.now, server, to, lane, &message);
        let (bytes, departs) = (message.len() as u64, sent.fate.departs);
        self.see(Seen::Carried { from: server.dc, to, lane, bytes, departs })?;
        let epoch = self.ends.connection(pair_of(server, to)).epoch;
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

    pub(super) fn connect(&mut self, pair: Pair) -> Done {
        self.ends.connection(pair).up = true;
        for (server, peer) in ends_of(pair) {
            if self.ends.connection(pair).epoch > 0 {
                self.reconnected.insert((server, peer), true);
            }
            let hello = self.ends.session(server, peer).connect();
            self.send(server, peer, Lane::Control, hello)?;
        }
        Ok(())
    }

    /// Breaks a connection; what is on it is lost, and another begins a round trip later.
    pub(super) fn reset(&mut self, pair: Pair) {
        let rtt = self.plan.topology.link(pair.0, pair.1).rtt.0;
        let connection = self.ends.connection(pair);
        if !connection.up {
            return;
        }
        connection.up = false;
        connection.epoch += 1;
        if !self.saboteur.has(Bug::NeverReconnects) {
            self.counts.reconnects += 1;
            self.events.push(self.now + rtt, Event::Connect { pair });
        }
    }

    pub(super) fn fault(&mut self, number: usize, begins: bool) {
        let fault = self.scenario.faults[number].clone();
        self.network.set(self.now, &fault, begins);
        if !begins {
            return;
        }
        self.counts.structural.count(fault.kind);
        if fault.kind == FaultKind::Reset {
            let ends = [fault.dc, fault.peer.unwrap_or(fault.dc)].map(DcId);
            let of = |pair: &Pair| ends.contains(&pair.0) && ends.contains(&pair.1);
            for pair in self.ends.pairs().into_iter().filter(of) {
                self.reset(pair);
            }
        }
    }

    pub(super) fn become_calm(&mut self) {
        if self.calm {
            return;
        }
        for fault in &self.scenario.faults {
            let begun = Instant::ZERO + fault.at.0 <= self.now;
            let over = Instant::ZERO + fault.at.0 + fault.lasts.0 <= self.now;
            if begun && !over {
                self.network.set(self.now, fault, false);
            }
        }
        self.network.calm();
        self.calm = true;
    }
}

/// How long an end waits for something to send before it acknowledges without.
const ACKNOWLEDGEMENT_DELAY: Duration = Duration::from_millis(10);
