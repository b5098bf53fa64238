//! The sessions between all mirrors, and the connections under them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver::cluster::server_ids;
use crate::link::quantum;
use crate::session::{HEADER_BYTES, Incarnation, Session, SessionConfig};
use crate::topology::Topology;
use crate::types::{DcId, Lane, ServerId, ShardId};
use crate::wire::BULK_HEADER_BYTES;

/// Two mirrors: their data centers, the lower first, and their shard.
pub(super) type Pair = (DcId, DcId, ShardId);

pub(super) struct Ends {
    /// By server and mirror.
    sessions: BTreeMap<(ServerId, DcId), Session>,
    connections: BTreeMap<Pair, Connection>,
}

/// What carries messages between two mirrors at a time.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// How many there have been before: what is still on an earlier one is lost.
    pub(super) epoch: u64,
    pub(super) up: bool,
    /// What was acknowledged by each end in each lane when it was last looked at, where something was under way.
    watched: [Option<u64>; 4],
}

impl Ends {
    pub(super) fn new(topology: &Topology) -> Self {
        let incarnation = Incarnation::FIRST;
        let mut ends = Self { sessions: BTreeMap::new(), connections: BTreeMap::new() };
        for server in server_ids(topology) {
            for peer in topology.dc_ids().filter(|peer| *peer != server.dc) {
                let config = SessionConfig {
                    incarnation,
                    sent_bytes_max: WINDOW_BYTES,
                    early_bytes_max: WINDOW_BYTES,
                };
                ends.sessions.insert((server, peer), Session::new(config));
                ends.connections.insert(pair_of(server, peer), Connection::default());
            }
        }
        ends
    }

    pub(super) fn session(&mut self, server: ServerId, peer: DcId) -> &mut Session {
        self.sessions.get_mut(&(server, peer)).expect("mirrors have a session")
    }

    pub(super) fn connection(&mut self, pair: Pair) -> &mut Connection {
        self.connections.get_mut(&pair).expect("mirrors have a connection")
    }

    pub(super) fn pairs(&self) -> Vec<Pair> {
        self.connections.keys().copied().collect()
    }

    pub(super) fn sessions(&self) -> impl Iterator<Item = (&(ServerId, DcId), &Session)> {
        self.sessions.iter()
    }

    /// Whether messages may leave: the connection is up, and the mirror has said hello on it.
    pub(super) fn is_open(&self, server: ServerId, peer: DcId) -> bool {
        self.connections[&pair_of(server, peer)].up && self.sessions[&(server, peer)].has_met()
    }

    /// Whether a connection has come to nothing since it was last looked at: no hello, or something under way and
    /// nothing acknowledged.
    pub(super) fn is_stalled(&mut self, pair: Pair) -> bool {
        let mut stalled = false;
        let mut watched = [None; 4];
        let before = self.connections[&pair].watched;
        for (end, (server, peer)) in ends_of(pair).into_iter().enumerate() {
            let session = &self.sessions[&(server, peer)];
            stalled |= !session.has_met();
            for lane in Lane::ALL {
                let acknowledged = session.acknowledged(lane);
                if session.pushed(lane) > acknowledged {
                    let place = 2 * end + lane.index();
                    watched[place] = Some(acknowledged);
                    stalled |= before[place] == Some(acknowledged);
                }
            }
        }
        let connection = self.connection(pair);
        connection.watched = if stalled { [None; 4] } else { watched };
        connection.up && stalled
    }

    /// Whether all mirrors are joined, everything that was sent has arrived, and both ends know.
    pub(super) fn are_quiet(&self) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.all(|((server, peer), session)| {
            self.is_open(*server, *peer) && held_bytes(session) == 0
        })
    }
}

/// Bytes that a session holds in both lanes.
pub(super) fn held_bytes(session: &Session) -> usize {
    Lane::ALL.map(|lane| session.held_bytes(lane)).iter().sum()
}

/// The most that a session of a server of `parameters` may hold of data: what may be under way each way, and a frame
/// beyond.
pub(super) fn held_bytes_max(parameters: usize) -> usize {
    2 * (WINDOW_BYTES + HEADER_BYTES + BULK_HEADER_BYTES + CHANGE_BYTES_MAX * parameters)
}

/// How long a connection may stand still: the time of some round trips, and of frames that slow links take long for.
pub(super) fn patience(topology: &Topology, (a, b, _): Pair) -> Duration {
    let link = topology.link(a, b).rtt.0 + topology.link(b, a).rtt.0;
    let slowest = [topology.link(a, b), topology.link(b, a)]
        .map(|link| link.bandwidth.time_for(2 * quantum(link.bandwidth).0));
    PATIENCE_MIN + 2 * link + 2 * slowest[0].max(slowest[1])
}

pub(super) fn pair_of(server: ServerId, peer: DcId) -> Pair {
    (server.dc.min(peer), server.dc.max(peer), server.shard)
}

/// Both ends, each with its mirror.
pub(super) fn ends_of((a, b, shard): Pair) -> [(ServerId, DcId); 2] {
    [(ServerId { dc: a, shard }, b), (ServerId { dc: b, shard }, a)]
}

/// Small, as the models are, so that windows close.
const WINDOW_BYTES: usize = 2 << 10;

/// Of one change, its index and what its block of values has beside.
const CHANGE_BYTES_MAX: usize = 16;

const PATIENCE_MIN: Duration = Duration::from_millis(200);
