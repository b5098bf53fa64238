//! The lanes of one data center to its mirrors in all others.
//!
//! A driver uses a [`DcTransport`] in a loop:
//!
//! 1. For each lane that [`DcTransport::has_room`], poll a frame of the server that owns the shard
//!    (`poll_transmit`), and pass it to [`DcTransport::send`].
//! 2. Wait for [`DcTransport::event`] or for the servers' next timeout, whichever is first.
//! 3. Give [`Event::Frame`] to the server of its shard as a frame from its mirror. Give [`Event::Room`] of the
//!    data lane to the server as what has drained; the lane has room again. Tell the servers of an [`Event::Silent`]
//!    that they receive nothing from the peer. Then go to 1.
//!
//! A data lane has room for one frame at a time. It has room again shortly before the frame has crossed the link. So
//! with frames of one quantum two frames are never queued, and the link does not become idle between them. A longer
//! frame is sent as well, and control frames overtake it. A control lane has room for [`CONTROL_IN_HAND_MAX`] frames,
//! or for a MiB of them.
//!
//! If a driver does not take events, the streams fill up to their flow-control window and the sender is blocked. No
//! frame is dropped.
//!
//! Unsent and unread frames are lost with their connection, on both sides. A caller that must not lose frames numbers
//! and keeps them. [`DcTransport::join`] sets the next connection to a peer. It may be called before the loss of the
//! last one is detected, because a restarted peer may reconnect before that. After it no frames and events of the old
//! connection are returned.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::{Connection, ConnectionError, SendStream};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::time::timeout;
use tracing::debug;

use super::congestion::Flight;
use super::counters::LaneCounters;
use super::event::{Event, Generation, Of};
use super::frames::frame_bytes_max;
use super::listener::{
    Arrived, CONTROL_INBOX_FRAMES_MAX, DATA_INBOX_FRAMES_MAX, End, Inbox, Listener,
};
use super::pump::{Command, Outgoing, Pump, Route};
use super::settings::{CONTROL_IN_HAND_BYTES, Windows, peer_bytes_max};
use super::{PARTED, REPLACED, TransportError};
use gaia_core::link::{PAYLOAD_SHARE_MAX, quantum};
use gaia_core::node::Lane;
use gaia_core::types::{Bandwidth, DcId, ShardId};

/// One data center's lanes to all others.
pub struct DcTransport {
    dc: DcId,
    shards: Range<u16>,
    peers: BTreeMap<DcId, Peer>,
    /// The number of the next connection.
    next: Generation,
    /// Peers that have left, whose event was not returned.
    leaving: VecDeque<(DcId, Generation)>,
    inbox: Inbox,
    notices: UnboundedReceiver<Of<Event>>,
    control: Receiver<Arrived>,
    data: Receiver<Arrived>,
}

struct Peer {
    generation: Generation,
    connection: Connection,
    commands: UnboundedSender<Command>,
    /// Frames that QUIC has not taken, by shard and lane.
    in_hand: BTreeMap<(ShardId, Lane), InHand>,
    lost: Option<TransportError>,
}

#[derive(Clone, Copy, Default)]
struct InHand {
    frames: usize,
    bytes: usize,
}

/// One end of a connection with an authenticated peer.
pub struct Ends {
    /// The data center of this end.
    pub at: DcId,
    /// The peer.
    pub end: End,
    /// The open connection.
    pub connection: Connection,
    /// The bytes in flight from this end.
    pub flight: Arc<Flight>,
    /// The bandwidth that its lanes may use.
    pub bandwidth: Bandwidth,
    /// The windows that this end grants to the peer.
    pub received: Windows,
    /// The windows that the peer grants.
    pub sent: Windows,
    /// How long the first streams and the last acknowledgements may take.
    pub patience: Duration,
    /// What is sent in each lane.
    pub counters: Arc<LaneCounters>,
}

/// The tasks of one connection, which its owner runs. They end with the connection and free all their memory.
pub struct Carriers {
    /// Sends the frames of this end.
    pub pump: Pump,
    /// Receives the frames of the peer.
    pub listener: Listener,
    /// Ends the pump once its frames are sent.
    pub finisher: Finisher,
}

/// Lets a pump send its frames and end.
pub struct Finisher(UnboundedSender<Command>);

/// An end whose lanes are open, to be joined.
pub struct Lanes {
    ends: Ends,
    /// By shard, then by stripe.
    control: Vec<Vec<SendStream>>,
    data: Vec<Vec<SendStream>>,
}

impl Ends {
    /// Opens the lanes of every shard.
    ///
    /// # Errors
    /// If the connection fails, or the peer allows no further stream.
    pub async fn open(self) -> Result<Lanes, TransportError> {
        let shards = self.end.shards.len();
        self.connection.set_receive_window(self.received.connection(shards));
        let bytes_max = peer_bytes_max(&self.received, &self.sent, shards);
        debug!("{} buffers at most {bytes_max} bytes for {}", self.end.at_name, self.end.peer_name);
        let (mut control, mut data) = (Vec::new(), Vec::new());
        let opened = timeout(self.patience, async {
            for _ in self.end.shards.clone() {
                control.push(open_lane(&self.connection, 1, CONTROL_PRIORITY).await?);
                data.push(open_lane(&self.connection, self.sent.stripes, DATA_PRIORITY).await?);
            }
            Ok::<_, ConnectionError>(())
        });
        match opened.await {
            Ok(Ok(())) => Ok(Lanes { ends: self, control, data }),
            Ok(Err(error)) => Err(self.end.lost(&error)),
            Err(_) => Err(self.end.lost(&"the peer allows no further stream")),
        }
    }
}

async fn open_lane(
    connection: &Connection,
    stripes: u8,
    priority: i32,
) -> Result<Vec<SendStream>, ConnectionError> {
    let mut streams = Vec::new();
    for _ in 0..stripes {
        let stream = connection.open_uni().await?;
        stream.set_priority(priority).expect("a stream is open when it is opened");
        streams.push(stream);
    }
    Ok(streams)
}

impl DcTransport {
    /// The end of a data center without connections, for the servers of these shards.
    pub fn new(dc: DcId, shards: Range<u16>) -> Self {
        let (notices, notices_in) = unbounded_channel();
        let (control, control_in) = channel(CONTROL_INBOX_FRAMES_MAX);
        let (data, data_in) = channel(DATA_INBOX_FRAMES_MAX);
        Self {
            dc,
            shards,
            peers: BTreeMap::new(),
            next: Generation(0),
            leaving: VecDeque::new(),
            notices: notices_in,
            control: control_in,
            data: data_in,
            inbox: Inbox { notices, control, data },
        }
    }

    /// Sends a frame to the mirror of a shard. The lane must have room.
    pub fn send(
        &mut self,
        to: DcId,
        shard: ShardId,
        lane: Lane,
        frame: Bytes,
    ) -> Result<(), TransportError> {
        self.send_parts(to, shard, lane, (Bytes::new(), frame))
    }

    /// As [`Self::send`], of a frame that is a short head and what follows it, which is not copied.
    pub fn send_parts(
        &mut self,
        to: DcId,
        shard: ShardId,
        lane: Lane,
        (head, frame): (Bytes, Bytes),
    ) -> Result<(), TransportError> {
        let (bytes, max) = (head.len() + frame.len(), frame_bytes_max(lane));
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
        let in_hand = peer.in_hand.entry((shard, lane)).or_default();
        in_hand.frames += 1;
        in_hand.bytes += bytes;

        // A pump ends only with its connection, for which there is an event.
        let _ = peer.commands.send(Command::Send { shard, lane, head, frame });
        Ok(())
    }

    /// Waits for the next event: events of lanes and peers first, then control frames, then data frames. Cancel safe.
    pub async fn event(&mut self) -> Event {
        loop {
            if let Some(event) = self.last_events() {
                return event;
            }
            let next = tokio::select! {
                biased;
                notice = self.notices.recv() => notice,
                incoming = self.control.recv() => incoming.map(|arrived| arrived.frame.map(Event::Frame)),
                incoming = self.data.recv() => incoming.map(|arrived| arrived.frame.map(Event::Frame)),
            };
            let next = next.expect("this end keeps the other end of each");
            let Of { peer, generation, what: event } = next;
            if !self.is_joined(peer, generation) {
                continue;
            }
            match &event {
                Event::Room { to, shard, lane, bytes, .. } => {
                    self.make_room(*to, *shard, *lane, *bytes as usize);
                }
                Event::Lost { peer, error } => self.lose(*peer, error.clone()),
                Event::Left { .. } => {
                    self.leaving.push_back((peer, generation));
                    continue;
                }
                Event::Frame(_) | Event::Silent { .. } => {}
            }
            return event;
        }
    }

    /// The last frames of a peer that has left, then the event that it has left.
    fn last_events(&mut self) -> Option<Event> {
        while let Some((peer, generation)) = self.leaving.front().copied() {
            if let Ok(arrived) = self.control.try_recv().or_else(|_| self.data.try_recv()) {
                let incoming = arrived.frame;
                if self.is_joined(incoming.peer, incoming.generation) {
                    return Some(Event::Frame(incoming.what));
                }
                continue;
            }
            self.leaving.pop_front();
            if self.is_joined(peer, generation) {
                self.lose(peer, TransportError::PeerLeft { peer });
                return Some(Event::Left { peer });
            }
        }
        None
    }

    /// Whether this is the latest connection to a peer.
    fn is_joined(&self, peer: DcId, generation: Generation) -> bool {
        self.peers.get(&peer).is_some_and(|peer| peer.generation == generation)
    }

    fn make_room(&mut self, to: DcId, shard: ShardId, lane: Lane, bytes: usize) {
        let peer = self.peers.get_mut(&to);
        let in_hand = peer.and_then(|peer| peer.in_hand.get_mut(&(shard, lane)));
        let in_hand = in_hand.expect("room follows a frame");
        in_hand.frames -= 1;
        in_hand.bytes -= bytes;
    }

    fn lose(&mut self, peer: DcId, error: TransportError) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.lost = Some(error);
        }
    }

    /// Sets the connection to a peer, with empty lanes. The connection before is closed and ignored.
    pub fn join(&mut self, lanes: Lanes) -> Carriers {
        let generation = self.next;
        self.next = Generation(generation.0 + 1);
        let Lanes { ends, control, data } = lanes;
        let Ends { at, end, connection, flight, bandwidth, patience, counters, .. } = ends;
        let to = end.peer;
        let (commands, orders) = unbounded_channel();
        let finisher = Finisher(commands.clone());
        let in_hand = BTreeMap::new();

        let peer =
            Peer { generation, connection: connection.clone(), commands, in_hand, lost: None };
        if let Some(before) = self.peers.insert(to, peer) {
            before.connection.close(REPLACED, b"another connection takes its place");
        }
        let route = Route {
            to,
            generation,
            first_shard: end.shards.start,
            payload_rate: bandwidth.scaled(PAYLOAD_SHARE_MAX),
            quantum: quantum(bandwidth),
            patience,
        };

        let outgoing = |streams: Vec<Vec<SendStream>>, lane| {
            let lanes = end.shards.clone().map(ShardId).zip(streams);
            lanes.map(|(shard, streams)| Outgoing::new(at, shard, lane, streams)).collect()
        };
        let lanes = (outgoing(control, Lane::Control), outgoing(data, Lane::Data));
        let notices = self.inbox.notices.clone();
        let pump = Pump::new(route, (connection.clone(), flight), lanes, orders, notices, counters);
        let listener = Listener { end, generation, connection, inbox: self.inbox.clone() };

        Carriers { pump, listener, finisher }
    }

    /// Closes the connection to a peer with a reason, and ignores it. For the peer the connection is lost.
    pub fn part(&mut self, peer: DcId, reason: &str) {
        if let Some(peer) = self.peers.remove(&peer) {
            peer.connection.close(PARTED, reason.as_bytes());
        }
    }

    /// The data center of this end.
    pub fn dc(&self) -> DcId {
        self.dc
    }

    /// All data centers with a connection, or whose connection was lost, in the topology's order.
    pub fn peers(&self) -> impl Iterator<Item = DcId> {
        self.peers.keys().copied()
    }

    /// Whether a frame may be sent. `false` for a peer whose connection is lost.
    pub fn has_room(&self, to: DcId, shard: ShardId, lane: Lane) -> bool {
        self.shards.contains(&shard.0)
            && self.peers.get(&to).is_some_and(|p| p.lost.is_none() && p.has_room(shard, lane))
    }
}

impl Finisher {
    /// Lets the pump send its frames, finish all streams, and end.
    pub fn finish(&self) {
        // A pump that has ended has no streams to finish.
        let _ended = self.0.send(Command::Finish);
    }
}

impl Peer {
    fn has_room(&self, shard: ShardId, lane: Lane) -> bool {
        let in_hand = self.in_hand.get(&(shard, lane)).copied().unwrap_or_default();
        match lane {
            Lane::Control => {
                in_hand.frames < CONTROL_IN_HAND_MAX && in_hand.bytes < CONTROL_IN_HAND_BYTES
            }
            Lane::Data => in_hand.frames == 0,
        }
    }
}

/// The largest number of unsent frames of a control lane.
pub const CONTROL_IN_HAND_MAX: usize = 64;

/// quinn serves streams of the highest priority first.
const CONTROL_PRIORITY: i32 = 1;
const DATA_PRIORITY: i32 = 0;
