//! The lanes of one data center to its mirrors in all others.
//!
//! A driver turns a [`DcTransport`] like this:
//!
//! 1. Ask each lane that [`DcTransport::has_room`] for a frame of the server that owns the shard
//!    (`poll_transmit`), and hand it over with [`DcTransport::send`].
//! 2. Wait for [`DcTransport::event`] or for the servers' next timeout, whichever is first.
//! 3. Give [`Event::Frame`] to the server of its shard as a frame from its mirror. Give [`Event::Room`] of the
//!    data lane to the server as what has drained; the lane has room again. Then go to 1.
//!
//! A data lane has room for one frame at a time, and has it again once the frame has all but crossed the
//! link. So a quantum is the right size for a frame: two of them are never queued, and the link does not fall
//! idle between them. A longer frame is sent, and control overtakes it. A control lane has room for [`CONTROL_IN_HAND_MAX`] frames.
//!
//! Where a driver does not take its events, the lanes' streams fill up to their flow-control window and
//! the sender is held back. Nothing is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::Connection;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};

use super::TransportError;
use super::congestion::Flight;
use super::counters::LaneCounters;
use super::event::{Event, Incoming};
use super::frames::{Hello, frame_bytes_max};
use super::listener::{CONTROL_INBOX_FRAMES_MAX, DATA_INBOX_FRAMES_MAX, End, Inbox};
use super::pump::{Command, Outgoing, Pump, Route};
use crate::link::{PAYLOAD_SHARE_MAX, quantum};
use crate::node::Lane;
use crate::types::{Bandwidth, DcId, ShardId};

/// One data center's lanes to all others.
pub struct DcTransport {
    dc: DcId,
    shards: Range<u16>,
    peers: BTreeMap<DcId, Peer>,
    /// Peers that have left, of which the owner has yet to hear.
    leaving: VecDeque<DcId>,
    notices: UnboundedReceiver<Event>,
    control: Receiver<Incoming>,
    data: Receiver<Incoming>,
}

struct Peer {
    commands: UnboundedSender<Command>,
    /// Frames handed over and not yet taken by QUIC, by shard and lane.
    in_hand: BTreeMap<(ShardId, Lane), usize>,
    lost: Option<TransportError>,
}

/// One end of a connection, ready for its lanes.
pub(in crate::driver) struct Ends {
    pub(in crate::driver) at: DcId,
    pub(in crate::driver) connection: Connection,
    pub(in crate::driver) flight: Arc<Flight>,
    /// What its lanes may have of the link.
    pub(in crate::driver) bandwidth: Bandwidth,
    /// How long the last acknowledgements may take.
    pub(in crate::driver) patience: Duration,
    pub(in crate::driver) counters: Arc<LaneCounters>,
}

impl Ends {
    /// Opens the lanes of every shard; the pump that fills them is the caller's to run.
    ///
    /// # Errors
    /// Where the connection is lost.
    pub(in crate::driver) async fn open(
        self,
        end: &End,
        inbox: &Inbox,
    ) -> Result<(UnboundedSender<Command>, Pump), TransportError> {
        let route = Route {
            to: end.peer,
            first_shard: end.shards.start,
            payload_rate: self.bandwidth.scaled(PAYLOAD_SHARE_MAX),
            quantum: quantum(self.bandwidth),
            patience: self.patience,
        };
        let from = self.at;
        let mut control = Vec::new();
        let mut data = Vec::new();
        for shard in end.shards.clone().map(ShardId) {
            for (lane, lanes) in [(Lane::Control, &mut control), (Lane::Data, &mut data)] {
                let stream = self.connection.open_uni().await.map_err(|error| end.lost(&error))?;
                let priority = if lane == Lane::Control { 1 } else { 0 };
                stream.set_priority(priority).expect("a stream is open when it is opened");
                lanes.push(Outgoing::new(stream, &Hello { from, shard, lane }.encode()));
            }
        }
        let (commands, orders) = unbounded_channel();
        let ends = (self.connection, self.flight);
        let notices = inbox.notices.clone();
        let pump = Pump::new(route, ends, (control, data), orders, notices, self.counters);
        Ok((commands, pump))
    }
}

impl DcTransport {
    /// The end of a data center, without a peer, for the servers of these shards.
    pub(in crate::driver) fn new(dc: DcId, shards: Range<u16>) -> (Self, Inbox) {
        let (notices, notices_in) = unbounded_channel();
        let (control, control_in) = channel(CONTROL_INBOX_FRAMES_MAX);
        let (data, data_in) = channel(DATA_INBOX_FRAMES_MAX);
        let transport = Self {
            dc,
            shards,
            peers: BTreeMap::new(),
            leaving: VecDeque::new(),
            notices: notices_in,
            control: control_in,
            data: data_in,
        };
        (transport, Inbox { notices, control, data })
    }

    /// Hands over a frame for the mirror of a shard. The lane must have room.
    pub fn send(
        &mut self,
        to: DcId,
        shard: ShardId,
        lane: Lane,
        frame: Bytes,
    ) -> Result<(), TransportError> {
        let (bytes, max) = (frame.len(), frame_bytes_max(lane));
        if bytes > max {
            return Err(TransportError::FrameTooLong { to, lane, bytes, max });
        }
        let shards = self.shards.len();
        let no_such_lane = TransportError::NoSuchLane { to, shard, shards };
        let peer = self.peers.get_mut(&to).ok_or_else(|| no_such_lane.clone())?;
        if !self.shards.contains(&shard.0) {
            return Err(no_such_lane);
        }
        if let Some(lost) = &peer.lost {
            return Err(lost.clone());
        }
        if !peer.has_room(shard, lane) {
            return Err(TransportError::NoRoom { to, shard, lane });
        }
        *peer.in_hand.entry((shard, lane)).or_default() += 1;
        // A pump that has ended has lost its connection, of which an event tells.
        let _ = peer.commands.send(Command::Send { shard, lane, frame });
        Ok(())
    }

    /// Waits for what happens next: what concerns lanes and peers first, then control frames, then data. `None`
    /// once nothing can happen any more. Dropping the future loses nothing.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.last_events() {
                return Some(event);
            }
            let event = tokio::select! {
                biased;
                Some(notice) = self.notices.recv() => notice,
                Some(incoming) = self.control.recv() => Event::Frame(incoming),
                Some(incoming) = self.data.recv() => Event::Frame(incoming),
                else => return None,
            };
            match &event {
                Event::Room { to, shard, lane, .. } => self.make_room(*to, *shard, *lane),
                Event::Lost { peer, error } => self.lose(*peer, error.clone()),
                Event::Left { peer } => {
                    self.leaving.push_back(*peer);
                    continue;
                }
                Event::Frame(_) => {}
            }
            return Some(event);
        }
    }

    /// Once a peer has left, what it sent before and then the news of it.
    fn last_events(&mut self) -> Option<Event> {
        let peer = *self.leaving.front()?;
        if let Ok(incoming) = self.control.try_recv().or_else(|_| self.data.try_recv()) {
            return Some(Event::Frame(incoming));
        }
        self.leaving.pop_front();
        let error = TransportError::PeerLeft { peer };
        self.lose(peer, error);
        Some(Event::Left { peer })
    }

    fn make_room(&mut self, to: DcId, shard: ShardId, lane: Lane) {
        let peer = self.peers.get_mut(&to);
        let in_hand = peer.and_then(|peer| peer.in_hand.get_mut(&(shard, lane)));
        *in_hand.expect("room follows a frame") -= 1;
    }

    fn lose(&mut self, peer: DcId, error: TransportError) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.lost = Some(error);
        }
    }

    /// Adds a peer, whose pump takes these commands.
    pub(in crate::driver) fn join(&mut self, peer: DcId, commands: UnboundedSender<Command>) {
        self.peers.insert(peer, Peer::new(commands));
    }

    pub fn dc(&self) -> DcId {
        self.dc
    }

    /// Every other data center, in the topology's order.
    pub fn peers(&self) -> impl Iterator<Item = DcId> {
        self.peers.keys().copied()
    }

    /// Whether a frame may be handed over. Never for a peer that is lost.
    pub fn has_room(&self, to: DcId, shard: ShardId, lane: Lane) -> bool {
        self.shards.contains(&shard.0)
            && self.peers.get(&to).is_some_and(|p| p.lost.is_none() && p.has_room(shard, lane))
    }
}

impl Peer {
    fn new(commands: UnboundedSender<Command>) -> Self {
        Self { commands, in_hand: BTreeMap::new(), lost: None }
    }

    fn has_room(&self, shard: ShardId, lane: Lane) -> bool {
        let in_hand = self.in_hand.get(&(shard, lane)).copied().unwrap_or(0);
        match lane {
            Lane::Control => in_hand < CONTROL_IN_HAND_MAX,
            Lane::Data => in_hand == 0,
        }
    }
}

/// Frames that a control lane takes before QUIC has sent the first of them.
pub const CONTROL_IN_HAND_MAX: usize = 64;
