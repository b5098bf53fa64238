//! What nodes and their coordinator say to each other, as MessagePack in LAN frames.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::real::error::ChannelError;
use crate::recorder::LinkCounters;
use crate::server_stats::ServerStats;
use gaia_core::coordinator::{NodeOrder, ServerProcess, StandIns};
use gaia_core::recovery::RequestSeq;
use gaia_core::server::Divergence;
use gaia_core::session::Incarnation;
use gaia_core::sync::WaitReason;
use gaia_core::types::{Clock, DcId, NodeId, ServerId, WorkerId};

/// The first message on a connection: who calls, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::real) struct Hello {
    pub(in crate::real) run: String,
    pub(in crate::real) node: NodeId,
    /// A hash of everything that all nodes must have resolved alike.
    pub(in crate::real) plan: u64,
    pub(in crate::real) purpose: Purpose,
    /// Where the node itself listens, if it does.
    pub(in crate::real) listens: Option<SocketAddr>,
    /// Of a node that calls the coordinator.
    pub(in crate::real) process: Option<ServerProcess>,
    /// Instead, of a server that has nothing to go on from and is to hear as which incarnation to begin: a number that tells
    /// its process from others.
    pub(in crate::real) begins: Option<u64>,
    /// Of a worker that calls a server: what it will say next, if it knows.
    pub(in crate::real) next_requests: Option<RequestSeq>,
    /// The worker that calls, where it stands in for the node.
    pub(in crate::real) stand_in: Option<WorkerId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::real) enum Purpose {
    /// To take part in the run.
    Join,
    /// To see whether it could.
    Check,
}

/// What is answered to a hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::real) enum Answer {
    Welcome,
    /// The same, to a server that begins: as this incarnation.
    Begin {
        incarnation: Incarnation,
    },
    Refused {
        reason: String,
    },
    /// Not now; the caller may try again.
    Later {
        reason: String,
    },
}

/// What the coordinator tells a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::real) enum Order {
    /// All nodes are here; this is where servers listen, and who stands in for whom. Said again where either changes.
    Begin {
        servers: Vec<(ServerId, String)>,
        stand_ins: StandIns,
    },
    /// To a server, before [`Self::Begin`]: what it had is lost, or it joins late, and it is to take the copy of this
    /// mirror. Some data centers take no part.
    Rebuild {
        from: DcId,
        inactive: BTreeSet<DcId>,
    },
    /// To servers: the mirror in this data center has left for good, in this incarnation of its server.
    Left {
        from: DcId,
        process: u64,
    },
    /// To workers: begin the first iteration, or where the process before was, which has stopped at this clock if it has.
    Start {
        stopped: Option<Clock>,
    },
    /// To a worker, before [`Self::Begin`]: others have done its work at times, and it is to go on where its servers say.
    Reset,
    Stop {
        last: Clock,
    },
    /// To servers: make copies equal once workers are at these clocks, with all data centers but those that are inactive.
    Drain {
        clocks: Vec<Clock>,
        inactive: BTreeSet<DcId>,
    },
    /// To servers: send the copy of the shard, under this ticket.
    Copy {
        ticket: u64,
    },
    /// To servers: say what was counted.
    ServerStats,
    /// The run is over.
    End,
    /// The run has failed.
    Abort {
        reason: String,
    },
    /// The run goes on without this node's data center.
    Dismiss {
        reason: String,
    },
    /// The coordinator is there.
    Alive,
}

/// What a node tells the coordinator of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::real) enum Report {
    /// Every node that this one talks to has been met, and a copy that was asked for is whole.
    Ready,
    ClockFinished(Clock),
    CopyReady(Clock),
    Drained,
    Diverged(Divergence),
    Held(Vec<(WaitReason, Duration)>),
    Stopped(Clock),
    /// The node is there, and what it has sent so far.
    Alive {
        links: Vec<(DcId, LinkCounters)>,
        lan_bytes: u64,
    },
    ServerStats(Box<ServerStats>),
    /// Of a server: it has refused what its mirror in this data center says for as long as a node may be away.
    Refuses {
        peer: DcId,
        reason: String,
    },
    Failed {
        reason: String,
    },
}

impl From<NodeOrder> for Order {
    fn from(order: NodeOrder) -> Self {
        match order {
            NodeOrder::Start { stopped } => Self::Start { stopped },
            NodeOrder::Stop { last } => Self::Stop { last },
            NodeOrder::Drain { clocks, inactive } => Self::Drain { clocks, inactive },
            NodeOrder::Left { from, process } => Self::Left { from, process },
        }
    }
}

impl Report {
    /// Reads what a node says.
    ///
    /// # Errors
    /// Where it is no report, or one that no node can have reason for.
    pub(in crate::real) fn read(body: &[u8]) -> Result<Self, ChannelError> {
        let report = unpack(body)?;
        let Self::Held(held) = &report else { return Ok(report) };

        match held.iter().find(|(_, time)| *time > HELD_MAX) {
            None => Ok(report),
            Some((reason, time)) => Err(ChannelError::Other(format!(
                "it reports a read that was held back for {} s ({}), at most {} s are believed",
                time.as_secs(),
                reason.name(),
                HELD_MAX.as_secs()
            ))),
        }
    }
}

pub(in crate::real) fn pack<T: Serialize>(message: &T) -> Vec<u8> {
    rmp_serde::to_vec(message).expect("a vector takes every message")
}

pub(in crate::real) fn unpack<T: DeserializeOwned>(body: &[u8]) -> Result<T, ChannelError> {
    rmp_serde::from_slice(body).map_err(|error| ChannelError::Other(error.to_string()))
}

/// The most bytes of a hello or its answer.
pub(in crate::real) const HELLO_BYTES_MAX: usize = 4 << 10;

/// The most bytes of an order or a report: addresses of a thousand data centers with as many servers are far fewer.
pub(in crate::real) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// How long a read can have been held back: longer than any run takes, and far from what overflows.
const HELD_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = unpack::<Hello>(&body);
            let _ = unpack::<Answer>(&body);
            let _ = unpack::<Order>(&body);
            let _ = Report::read(&body);
        }
    }

    #[test]
    fn a_wait_that_no_run_has_time_for_is_refused() {
        let reason = WaitReason::Updates { from: DcId(1) };
        let read = |time| {
            let report = Report::Held(vec![(reason, Duration::from_secs(3)), (reason, time)]);
            Report::read(&pack(&report)).map_err(|error| error.to_string())
        };
        assert!(read(HELD_MAX).is_ok());
        for time in [HELD_MAX + Duration::from_nanos(1), Duration::MAX] {
            let refused = read(time).unwrap_err();
            assert!(refused.contains(&format!("held back for {} s", time.as_secs())), "{refused}");
        }
    }

    #[test]
    fn messages_read_back_as_said() {
        let inactive = BTreeSet::from([DcId(2)]);
        let order = Order::Drain { clocks: vec![Clock(3), Clock(4)], inactive };
        assert_eq!(unpack::<Order>(&pack(&order)).unwrap(), order);
        let link = (DcId(1), LinkCounters { bytes: 7, ..LinkCounters::default() });
        let report = Report::Alive { links: vec![link], lan_bytes: 9 };
        assert_eq!(unpack::<Report>(&pack(&report)).unwrap(), report);
        let hello = Hello {
            run: "r".into(),
            node: NodeId::Coordinator,
            plan: 1,
            purpose: Purpose::Check,
            listens: Some(([127, 0, 0, 1], 80).into()),
            process: Some(ServerProcess { began: 3, incarnation: 4, is_new: true }),
            begins: Some(5),
            next_requests: Some(RequestSeq { clock: Clock(4), updates: true }),
            stand_in: Some(WorkerId { dc: DcId(1), index: 2 }),
        };

        assert_eq!(unpack::<Hello>(&pack(&hello)).unwrap(), hello);
    }
}
