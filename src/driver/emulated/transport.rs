//! The WAN as a driver's conductor sees it.
//!
//! [`Wan::start`] joins all data centers and gives one [`DcTransport`] for each. A conductor turns it like this:
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
//! Where a conductor does not take its events, the lanes' streams fill up to their flow-control window and
//! the sender is held back. Nothing is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::Endpoint;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::{GOODBYE, Joined, Joining};
use super::event::{Event, Incoming};
use super::frames::{Hello, frame_bytes_max};
use super::listener::{CONTROL_INBOX_FRAMES_MAX, DATA_INBOX_FRAMES_MAX, End, Inbox, listen};
use super::meter::Meter;
use super::pump::{Command, Outgoing, Pump, Route};
use super::socket::link_config;
use super::{Certificates, Network, TransportError};
use crate::link::{PAYLOAD_SHARE_MAX, quantum};
use crate::node::Lane;
use crate::topology::Topology;
use crate::types::{DcId, Seed, ShardId};

/// Every connection of a run. The [`DcTransport`]s do the talking.
pub struct Wan {
    network: Arc<Network>,
    meter: Meter,
    endpoints: Vec<Endpoint>,
    finish: Vec<UnboundedSender<Command>>,
    pumps: JoinSet<bool>,
    readers: JoinSet<()>,
    patience: Duration,
}

/// One data center's lanes to all others.
pub struct DcTransport {
    dc: DcId,
    shards: usize,
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

impl Wan {
    /// Joins the data centers of a topology, whose servers own `shards` shards in each.
    ///
    /// Links and QUIC draw their chance from `seed`. Call within a tokio runtime.
    pub async fn start(
        topology: &Topology,
        shards: usize,
        seed: Seed,
    ) -> Result<(Self, Vec<DcTransport>), TransportError> {
        let certificates = Certificates::for_data_centers(topology)?;
        Self::start_with(topology, shards, seed, &certificates).await
    }

    /// Joins the data centers with certificates made elsewhere.
    pub async fn start_with(
        topology: &Topology,
        shards: usize,
        seed: Seed,
        certificates: &Certificates,
    ) -> Result<(Self, Vec<DcTransport>), TransportError> {
        let network = Network::new(topology, seed.child("links"));
        let joining =
            Joining::new(topology, shards, &network, certificates, seed.child("endpoints"))?;
        let joining = Arc::new(joining);
        let endpoints = joining.endpoints().to_vec();
        let joined = joining.join_all().await?;
        let mut wan = Self {
            meter: Meter::new(network.clone()),
            network,
            endpoints,
            finish: Vec::new(),
            pumps: JoinSet::new(),
            readers: JoinSet::new(),
            patience: patience(topology),
        };
        let (mut transports, inboxes): (Vec<_>, Vec<_>) =
            topology.dc_ids().map(|dc| DcTransport::new(dc, shards)).unzip();
        for end in joined {
            let (at, peer) = (end.at, end.peer);
            let commands = wan.open(topology, shards, end, &inboxes[at.index()]).await?;
            transports[at.index()].peers.insert(peer, Peer::new(commands));
        }
        Ok((wan, transports))
    }

    /// Opens the lanes of one end of a connection, and listens to those of the other.
    async fn open(
        &mut self,
        topology: &Topology,
        shards: usize,
        joined: Joined,
        inbox: &Inbox,
    ) -> Result<UnboundedSender<Command>, TransportError> {
        let Joined { at, peer, connection, flight } = joined;
        let link = link_config(topology, at, peer);
        let route = Route {
            from: at,
            to: peer,
            payload_rate: link.bandwidth.scaled(PAYLOAD_SHARE_MAX),
            quantum: quantum(link.bandwidth),
            patience: self.patience,
        };
        let end = End {
            peer,
            shards,
            at_name: topology.dc(at).name.clone(),
            peer_name: topology.dc(peer).name.clone(),
        };
        let mut control = Vec::new();
        let mut data = Vec::new();
        for shard in (0..shards as u16).map(ShardId) {
            for (lane, lanes) in [(Lane::Control, &mut control), (Lane::Data, &mut data)] {
                let stream = connection.open_uni().await.map_err(|error| end.lost(&error))?;
                let priority = if lane == Lane::Control { 1 } else { 0 };
                stream.set_priority(priority).expect("a stream is open when it is opened");
                lanes.push(Outgoing::new(stream, &Hello { from: at, shard, lane }.encode()));
            }
        }
        let (commands, orders) = unbounded_channel();
        self.finish.push(commands.clone());
        let ends = (connection.clone(), flight);
        let notices = inbox.notices.clone();
        let pump = Pump::new(route, ends, (control, data), orders, notices, self.meter.clone());
        self.pumps.spawn(pump.run());
        self.readers.spawn(listen(end, connection, inbox.clone()));
        Ok(commands)
    }

    /// The network in memory, where a test severs links.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Reads what has crossed each link.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Sends what is in hand, says goodbye on every stream, and ends every task.
    ///
    /// Finishing a stream is the goodbye that cannot get lost: it is repeated until acknowledged, where the close
    /// of a connection is one datagram that a full queue may drop.
    pub async fn close(mut self) -> Result<(), TransportError> {
        for pump in &self.finish {
            // A pump that has ended has nothing left to finish.
            let _ = pump.send(Command::Finish);
        }
        let mut unfinished = 0;
        while let Some(done) = self.pumps.join_next().await {
            unfinished += usize::from(!done.unwrap_or(false));
        }
        for endpoint in &self.endpoints {
            endpoint.close(GOODBYE, b"the run is over");
        }
        let closed = async {
            for endpoint in &self.endpoints {
                endpoint.wait_idle().await;
            }
            while self.readers.join_next().await.is_some() {}
        };
        // Past this, what is left is cut off, which hurts nobody who has been told.
        let _ = timeout(self.patience, closed).await;
        self.readers.shutdown().await;
        if unfinished > 0 {
            return Err(TransportError::Unfinished { connections: unfinished });
        }
        Ok(())
    }
}

impl DcTransport {
    fn new(dc: DcId, shards: usize) -> (Self, Inbox) {
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
        let shards = self.shards;
        let no_such_lane = TransportError::NoSuchLane { to, shard, shards };
        let peer = self.peers.get_mut(&to).ok_or_else(|| no_such_lane.clone())?;
        if shard.index() >= shards {
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

    pub fn dc(&self) -> DcId {
        self.dc
    }

    /// Every other data center, in the topology's order.
    pub fn peers(&self) -> impl Iterator<Item = DcId> {
        self.peers.keys().copied()
    }

    /// Whether a frame may be handed over. Never for a peer that is lost.
    pub fn has_room(&self, to: DcId, shard: ShardId, lane: Lane) -> bool {
        shard.index() < self.shards
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

/// How long the end of a run may take: some round trips of the longest path with full queues.
fn patience(topology: &Topology) -> Duration {
    let slowest = topology.links.iter().map(|link| {
        let queued = link.bandwidth.time_for(2 * quantum(link.bandwidth).0);
        link.rtt.0 + queued.min(PATIENCE_MAX)
    });
    (slowest.max().unwrap_or_default() * PATIENCE_ROUNDS).clamp(PATIENCE_MIN, PATIENCE_MAX)
}

/// Frames that a control lane takes before QUIC has sent the first of them.
pub const CONTROL_IN_HAND_MAX: usize = 64;

const PATIENCE_ROUNDS: u32 = 8;
const PATIENCE_MIN: Duration = Duration::from_secs(2);
const PATIENCE_MAX: Duration = Duration::from_secs(10);
