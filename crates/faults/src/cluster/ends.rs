//! The connections between all mirrors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gaia_core::link::quantum;
use gaia_core::session::{HEADER_BYTES, Progress, Session};
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, Lane, ServerId, ShardId};
use gaia_core::wire::BULK_HEADER_BYTES;
use gaia_driver::cluster::server_ids;

/// Two mirrors: their data centers, the lower first, and their shard.
pub(crate) type Pair = (DcId, DcId, ShardId);

#[derive(Default)]
pub(crate) struct Ends {
    connections: BTreeMap<Pair, Connection>,
}

/// The current connection between two mirrors.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// The number of earlier connections. Messages on an earlier one are lost.
    pub(crate) epoch: u64,
    pub(crate) up: bool,
    /// Which ends have sent their hello on it, the lower data center's first.
    pub(crate) hello_sent: [bool; 2],
    /// Which ends have received a message on it.
    pub(crate) received: [bool; 2],
    /// The progress of each end at the last check.
    progress: [Progress; 2],
}

impl Ends {
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut ends = Self::default();
        for server in server_ids(topology) {
            for peer in topology.dc_ids().filter(|peer| *peer != server.dc) {
                ends.connections.insert(pair_of(server, peer), Connection::default());
            }
        }
        ends
    }

    pub(crate) fn connection(&mut self, pair: Pair) -> &mut Connection {
        self.connections.get_mut(&pair).expect("mirrors have a connection")
    }

    pub(crate) fn epoch(&self, server: ServerId, peer: DcId) -> u64 {
        self.connections[&pair_of(server, peer)].epoch
    }

    pub(crate) fn is_up(&self, server: ServerId, peer: DcId) -> bool {
        self.connections[&pair_of(server, peer)].up
    }

    pub(crate) fn pairs(&self) -> Vec<Pair> {
        self.connections.keys().copied().collect()
    }

    /// Records that a server has sent its hello on the current connection.
    pub(crate) fn on_hello_sent(&mut self, server: ServerId, peer: DcId) {
        self.connection(pair_of(server, peer)).hello_sent[end_of(server, peer)] = true;
    }

    /// Records that a server has received a message of a mirror on the current connection.
    pub(crate) fn on_received(&mut self, server: ServerId, peer: DcId) {
        self.connection(pair_of(server, peer)).received[end_of(server, peer)] = true;
    }

    /// Whether both ends have received a message on the current connection. A transport's handshake needs both directions.
    pub(crate) fn is_established(&self, server: ServerId, peer: DcId) -> bool {
        let connection = &self.connections[&pair_of(server, peer)];
        connection.up && connection.received == [true; 2]
    }

    /// Whether a server may send messages: it is connected and has sent its hello.
    pub(crate) fn is_open(&self, server: ServerId, peer: DcId) -> bool {
        let connection = &self.connections[&pair_of(server, peer)];
        connection.up && connection.hello_sent[end_of(server, peer)]
    }

    /// Whether a connection has made no progress since the last check. `sessions` are those of [`ends_of`].
    pub(crate) fn is_stalled(&mut self, pair: Pair, sessions: [&Session; 2]) -> bool {
        let connection = self.connections.get_mut(&pair).expect("mirrors have a connection");
        let mut stalled = connection.hello_sent.contains(&false);
        for (progress, session) in connection.progress.iter_mut().zip(sessions) {
            stalled |= progress.is_stalled(session);
        }
        if stalled {
            connection.progress = Default::default();
        }
        connection.up && stalled
    }

    /// Whether all mirrors are connected, except `inactive` ones.
    pub(crate) fn are_up(&self, inactive: &BTreeSet<DcId>) -> bool {
        let there = |pair: &Pair| !inactive.contains(&pair.0) && !inactive.contains(&pair.1);
        let mut connections = self.connections.iter().filter(|(pair, _)| there(pair));
        connections.all(|(_, connection)| connection.up && connection.hello_sent == [true; 2])
    }
}

/// The size of the frames that a session holds in both lanes, in bytes.
pub(crate) fn held_bytes(session: &Session) -> usize {
    Lane::ALL.map(|lane| session.held_bytes(lane)).iter().sum()
}

/// The largest size of the data frames that a session may hold, for a shard of `parameters`: the window of each
/// direction, and one frame beyond.
pub(crate) fn held_bytes_max(parameters: usize) -> usize {
    2 * (WINDOW_BYTES + HEADER_BYTES + BULK_HEADER_BYTES + CHANGE_BYTES_MAX * parameters)
}

/// How long a connection may make no progress: some round trips, and the transfer of frames on slow links.
pub(crate) fn patience(topology: &Topology, (a, b, _): Pair) -> Duration {
    let link = topology.link(a, b).rtt.0 + topology.link(b, a).rtt.0;
    let slowest = [topology.link(a, b), topology.link(b, a)]
        .map(|link| link.bandwidth.time_for(2 * quantum(link.bandwidth).0));
    PATIENCE_MIN + 2 * link + 2 * slowest[0].max(slowest[1])
}

pub(crate) fn pair_of(server: ServerId, peer: DcId) -> Pair {
    (server.dc.min(peer), server.dc.max(peer), server.shard)
}

/// Both ends, each with its mirror.
pub(crate) fn ends_of((a, b, shard): Pair) -> [(ServerId, DcId); 2] {
    [(ServerId { dc: a, shard }, b), (ServerId { dc: b, shard }, a)]
}

fn end_of(server: ServerId, peer: DcId) -> usize {
    usize::from(server.dc > peer)
}

/// The window of a link. It is small, as the models are, so that windows become full.
pub(crate) const WINDOW_BYTES: usize = 2 << 10;

/// The largest size of one change in a frame: its value, its index and its share of the block's overhead.
const CHANGE_BYTES_MAX: usize = 16;

const PATIENCE_MIN: Duration = Duration::from_millis(200);
