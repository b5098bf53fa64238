//! The messages between nodes and their coordinator, as MessagePack in LAN frames.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::real::agreement::Chosen;
use crate::real::error::ChannelError;
use crate::recorder::LinkCounters;
use crate::server_stats::ServerStats;
use gaia_core::application::EvaluationSums;
use gaia_core::coordinator::{NodeOrder, ServerProcess, StandIns};
use gaia_core::node::{ProbeRequest, Probed};
use gaia_core::recovery::RequestSeq;
use gaia_core::server::Divergence;
use gaia_core::session::Incarnation;
use gaia_core::sync::WaitReason;
use gaia_core::topology::Topology;
use gaia_core::types::limits::CLOCK_MAX;
use gaia_core::types::packed::numbers_of;
use gaia_core::types::{Clock, DcId, NodeId, ServerId, WorkerId, messagepack};

/// The first message on a connection: who connects, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::real) struct Hello {
    pub(in crate::real) run: String,
    pub(in crate::real) node: NodeId,
    /// A hash of the settings that all nodes must have resolved alike.
    pub(in crate::real) plan: u64,
    /// Digests of the tables of the model and their initial values, if the node knows them.
    pub(in crate::real) tables: Vec<u32>,
    pub(in crate::real) purpose: Purpose,
    /// The address that the node listens on, if it does.
    pub(in crate::real) listens: Option<SocketAddr>,
    /// The process of the node, if it connects to the coordinator.
    pub(in crate::real) process: Option<ServerProcess>,
    /// A random number that distinguishes the process from others of the same node.
    pub(in crate::real) instance: u64,
    /// Whether a server without state requests the incarnation to begin as.
    pub(in crate::real) begins: bool,
    /// For a worker that connects to a server: its next request, if it knows that.
    pub(in crate::real) next_requests: Option<RequestSeq>,
    /// The worker that connects, if it stands in for the node.
    pub(in crate::real) stand_in: Option<WorkerId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::real) enum Purpose {
    /// To take part in the run.
    Join,
    /// To report its data to the coordinator, and to receive what all nodes agree on.
    Agree,
    /// To check whether it could take part.
    Check,
}

/// The answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::real) enum Answer {
    Welcome,
    /// The answer to a server that begins: the incarnation that it begins as.
    Begin {
        incarnation: Incarnation,
    },
    Refused {
        reason: String,
    },
    /// Refused for the moment. The caller may try again.
    Later {
        reason: String,
    },
}

/// What a server does with the copy of its shard that was evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::real) enum CopyUse {
    /// It forgets it.
    Nothing,
    /// It sends it to the coordinator, with the ticket of the evaluation.
    Send,
    /// It writes it.
    Write(KeptModel),
}

/// A model that servers write, each its shard.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::real) struct KeptModel {
    pub(in crate::real) clock: u64,
    pub(in crate::real) objective: f64,
    pub(in crate::real) metric: f64,
    pub(in crate::real) is_best: bool,
}

/// An order of the coordinator to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::real) enum Order {
    /// All nodes are connected. Has the addresses of servers, and the stand-ins. Sent again if either changes.
    Begin {
        servers: Vec<(ServerId, String)>,
        stand_ins: StandIns,
    },
    /// To a server, before [`Self::Begin`]: take the copy of this mirror, because the server has lost its own or
    /// joins late. The inactive data centers take no part.
    Rebuild {
        from: DcId,
        inactive: BTreeSet<DcId>,
    },
    /// To servers: the mirror in this data center has left for good, with this incarnation of its server.
    Left {
        from: DcId,
        process: u64,
    },
    /// To workers: begin the first iteration, or continue from the log. `stopped` is the clock at which the worker
    /// has stopped, if it has.
    Start {
        stopped: Option<Clock>,
    },
    /// To a worker, before [`Self::Begin`]: stand-ins have done its work, and it continues at the requests that its
    /// servers expect.
    Reset,
    Stop {
        last: Clock,
    },
    /// To servers: make copies equal once workers are at these clocks. Inactive data centers take no part.
    Drain {
        clocks: Vec<Clock>,
        inactive: BTreeSet<DcId>,
    },
    /// To servers: send the copy of the shard to the workers of the data center, with this ticket, and to those that
    /// connect later.
    Evaluate {
        ticket: u64,
    },
    /// To servers: the evaluation with this ticket is complete.
    Evaluated {
        ticket: u64,
        copy: CopyUse,
    },
    /// To servers, at the end of the run: write the copy of the shard, and report that.
    Keep {
        kept: KeptModel,
    },
    /// To servers: send the copy of the shard to the coordinator, with this ticket. At the end of the run only.
    Copy {
        ticket: u64,
    },
    /// To a node that asks what all agree on: the remote model of the run.
    Use(Chosen),
    /// To servers: report the counters.
    ServerStats,
    /// The run is over.
    End,
    /// The run has failed.
    Abort {
        reason: String,
    },
    /// The run continues without this node's data center.
    Dismiss {
        reason: String,
    },
    /// A heartbeat of the coordinator.
    Alive,
}

/// A report of a node to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::real) enum Report {
    /// The node is connected to all its peers, and has its whole copy.
    Ready,
    /// From a server: it has its whole copy.
    Whole,
    ClockFinished(Clock),
    CopyReady(Clock),
    Drained,
    Diverged(Divergence),
    Held(Vec<(WaitReason, Duration)>),
    Stopped(Clock),
    /// From a worker: its task has no more to do.
    Ended,
    /// From a worker: the evaluation of its data center's copy on its own examples.
    Evaluated {
        ticket: u64,
        sums: EvaluationSums,
        /// A digest of the copy.
        digest: u64,
    },
    /// A heartbeat, with the traffic that the node has sent.
    Alive {
        links: Vec<(DcId, LinkCounters)>,
        lan_bytes: u64,
    },
    ServerStats(Box<ServerStats>),
    /// From a server: it has written its shard of the final model.
    Kept,
    /// From the first server of a data center: a worker there has measured another data center's copy.
    Probed(Probed),
    /// From a server: it has refused the messages of its mirror in this data center for the longest absence of a
    /// node.
    Refuses {
        peer: DcId,
        reason: String,
    },
    Failed {
        reason: String,
    },
    /// The data whose summary follows, in a few words.
    Data {
        description: String,
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
    /// Decodes and validates a report.
    ///
    /// # Errors
    /// If it is not a report, or has values that no correct node sends.
    pub(in crate::real) fn read(body: &[u8]) -> Result<Self, ChannelError> {
        let report = unpack(body)?;
        match &report {
            Self::Held(held) => check_held("a report of a read", held)?,
            Self::Evaluated { sums, .. } => check_sums(sums)?,
            Self::ClockFinished(clock) | Self::CopyReady(clock) | Self::Stopped(clock) => {
                check_clock(*clock)?;
            }
            Self::Probed(probed) => check_clock(probed.clock)?,
            _ => {}
        }
        Ok(report)
    }
}

/// Whether the run has the data center or the worker that a read is said to have waited for.
pub(in crate::real) fn exists(reason: WaitReason, topology: &Topology) -> bool {
    match reason {
        WaitReason::LocalWorker { worker: WorkerId { dc, index } } => {
            topology.has(dc) && usize::from(index) < topology.dc(dc).workers
        }
        other => other.from().is_none_or(|from| topology.has(from)),
    }
}

/// Checks what an answered read is said to have waited for. The worker reports it on: a coordinator that refused it would blame
/// the worker for what the server has said.
pub(in crate::real) fn check_waits(
    held: &[(WaitReason, Duration)],
    topology: &Topology,
) -> Result<(), ChannelError> {
    check_held("a read", held)?;
    match held.iter().find(|(reason, _)| !exists(*reason, topology)) {
        None => Ok(()),
        Some((reason, _)) => Err(ChannelError::Other(format!(
            "received a read that was held back since {reason}, expected data centers and workers of the run"
        ))),
    }
}

/// Checks which copies an answered read asks a worker of a data center to measure. The worker makes room for two models for
/// each data center that is named.
///
/// # Errors
/// If a copy is not of another data center of the run, or two are of the same.
pub(in crate::real) fn check_probes(
    probes: &[ProbeRequest],
    own: DcId,
    topology: &Topology,
) -> Result<(), ChannelError> {
    let mut named = BTreeSet::new();
    let mut is_due = |of| of != own && topology.has(of) && named.insert(of);
    match probes.iter().find(|probe| !is_due(probe.of)) {
        None => Ok(()),
        Some(probe) => Err(ChannelError::Other(format!(
            "received a copy of {} to measure, expected at most one of each other data center of the run",
            probe.of
        ))),
    }
}

fn check_held(what: &str, held: &[(WaitReason, Duration)]) -> Result<(), ChannelError> {
    match held.iter().find(|(_, time)| *time > HELD_MAX) {
        None => Ok(()),
        Some((reason, time)) => Err(ChannelError::Other(format!(
            "received {what} that was held back for {} s ({}), expected at most {} s",
            time.as_secs(),
            reason.name(),
            HELD_MAX.as_secs()
        ))),
    }
}

fn check_clock(clock: Clock) -> Result<(), ChannelError> {
    if clock.0 <= CLOCK_MAX {
        return Ok(());
    }
    let said = format!("received a report of clock {clock}, expected at most {CLOCK_MAX}");
    Err(ChannelError::Other(said))
}

/// Sums may be infinite or not a number where training diverges. The number of examples is finite.
fn check_sums(sums: &EvaluationSums) -> Result<(), ChannelError> {
    let weights = [sums.objective.weight, sums.metric.weight];
    match weights.iter().find(|weight| !(0.0..=EXAMPLES_MAX).contains(*weight)) {
        None => Ok(()),
        Some(weight) => Err(ChannelError::Other(format!(
            "received an evaluation on {weight} examples, expected 0 to {EXAMPLES_MAX}"
        ))),
    }
}

pub(in crate::real) fn pack<T: Serialize>(message: &T) -> Vec<u8> {
    messagepack::encode(message)
}

pub(in crate::real) fn unpack<T: DeserializeOwned>(body: &[u8]) -> Result<T, ChannelError> {
    messagepack::decode(body).map_err(|error| ChannelError::Other(error.to_string()))
}

/// Encodes a copy of a shard, with its ticket.
pub(in crate::real) fn encode_copy(ticket: u64, copy: &[f32]) -> Vec<u8> {
    let mut body = Vec::with_capacity(8 + 4 * copy.len());
    body.extend_from_slice(&ticket.to_le_bytes());
    copy.iter().for_each(|value| body.extend_from_slice(&value.to_le_bytes()));
    body
}

/// Decodes a copy of a shard, and its ticket. The caller has to check the number of values.
///
/// # Errors
/// If there is no ticket, or the bytes after it are no whole values.
pub(in crate::real) fn decode_copy(body: &[u8]) -> Result<(u64, Vec<f32>), ChannelError> {
    let (ticket, values) = body
        .split_first_chunk::<8>()
        .ok_or_else(|| ChannelError::Other("received a copy without a ticket".into()))?;
    let (values, []) = values.as_chunks::<4>() else {
        return Err(ChannelError::Other("received a copy that ends within a value".into()));
    };
    Ok((u64::from_le_bytes(*ticket), numbers_of(values).collect()))
}

/// Encodes some rows of a copy of a shard, with its ticket and the digest of the shard's sparse tables.
pub(in crate::real) fn encode_copy_rows(ticket: u64, sparse: u64, values: &[f32]) -> Vec<u8> {
    let mut body = Vec::with_capacity(16 + 4 * values.len());
    body.extend_from_slice(&sparse.to_le_bytes());
    body.extend_from_slice(&encode_copy(ticket, values));
    body
}

/// Decodes rows of a copy of a shard: the ticket, the digest of the shard's sparse tables, and the values. The caller has to
/// check the number of values.
///
/// # Errors
/// If there is no digest or no ticket, or the bytes after them are no whole values.
pub(in crate::real) fn decode_copy_rows(body: &[u8]) -> Result<(u64, u64, Vec<f32>), ChannelError> {
    let (sparse, body) = body
        .split_first_chunk::<8>()
        .ok_or_else(|| ChannelError::Other("received a copy without a digest".into()))?;
    let (ticket, values) = decode_copy(body)?;
    Ok((ticket, u64::from_le_bytes(*sparse), values))
}

/// The largest size of a hello or its answer, in bytes.
pub(in crate::real) const HELLO_BYTES_MAX: usize = 4 << 10;

/// The largest size of an order or a report, in bytes. The addresses of a thousand data centers with a thousand
/// servers each need far less.
pub(in crate::real) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The longest time for which a read can have been held back. It is longer than any run, and sums of it do not
/// overflow.
const HELD_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

/// More examples, and more tokens in them, than a worker can have.
const EXAMPLES_MAX: f64 = 1e18;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table_digests::DIGESTS_MAX;
    use crate::test_topology::{link, mesh};
    use gaia_core::application::WeightedSum;
    use gaia_core::types::Bandwidth;

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
    fn a_server_cannot_make_its_workers_report_what_no_coordinator_takes() {
        let link = link(Bandwidth::from_mbit(100.0), Duration::from_millis(20), 1 << 20);
        let topology = mesh(&["north", "south"], link);
        let worker =
            |dc, index| WaitReason::LocalWorker { worker: WorkerId { dc: DcId(dc), index } };
        let of = |dc| WaitReason::Updates { from: DcId(dc) };
        let (short, workers) = (Duration::from_secs(3), topology.dc(DcId(0)).workers as u16);
        let check = |held: &[(WaitReason, Duration)]| {
            check_waits(held, &topology).map_err(|error| error.to_string())
        };
        assert!(check(&[(of(1), short), (worker(0, workers - 1), HELD_MAX)]).is_ok());
        for reason in [of(2), of(u16::MAX), worker(0, workers), worker(2, 0)] {
            let refused = check(&[(of(1), short), (reason, short)]).unwrap_err();
            assert!(refused.contains("expected data centers and workers of the run"), "{refused}");
        }
        let refused = check(&[(of(1), Duration::from_nanos(u64::MAX))]).unwrap_err();
        assert!(refused.contains("a read that was held back for 18446744073 s"), "{refused}");
    }

    #[test]
    fn a_worker_measures_one_copy_of_each_other_data_center_at_most() {
        let link = link(Bandwidth::from_mbit(100.0), Duration::from_millis(20), 1 << 20);
        let topology = mesh(&["north", "south", "west"], link);
        let check = |of: &[u16]| {
            let probe = |of: &u16| {
                let (clock, away, home) = (Clock(1), vec![0.5], vec![0.5]);
                ProbeRequest { of: DcId(*of), clock, away, home }
            };
            let probes: Vec<ProbeRequest> = of.iter().map(probe).collect();
            check_probes(&probes, DcId(1), &topology).map_err(|error| error.to_string())
        };
        for of in [&[][..], &[0], &[2, 0]] {
            assert!(check(of).is_ok(), "{of:?}");
        }
        for (of, wrong) in [(&[0, 1][..], 1), (&[3], 3), (&[u16::MAX, 0], u16::MAX), (&[2, 2], 2)] {
            let refused = check(of).unwrap_err();
            assert!(refused.contains(&format!("a copy of dc{wrong} to measure")), "{refused}");
        }
    }

    #[test]
    fn a_clock_that_no_run_reaches_is_refused() {
        let probed = |clock| {
            Report::Probed(Probed { of: DcId(1), clock, away: 1.0, home: 1.0, untrained: 2.0 })
        };
        for report in [Report::ClockFinished, Report::CopyReady, Report::Stopped, probed] {
            let read = |clock| Report::read(&pack(&report(Clock(clock))));
            assert!(read(CLOCK_MAX).is_ok());
            for clock in [CLOCK_MAX + 1, u64::MAX] {
                let refused = read(clock).unwrap_err().to_string();
                assert!(refused.contains(&format!("a report of clock {clock}")), "{refused}");
            }
        }
    }

    #[test]
    fn an_evaluation_on_a_number_of_examples_that_cannot_be_is_refused() {
        let read = |sum: f64, weight: f64| {
            let objective = WeightedSum { sum, weight };
            let sums = EvaluationSums { objective, metric: WeightedSum::default() };
            Report::read(&pack(&Report::Evaluated { ticket: 1, sums, digest: 2 })).is_ok()
        };
        assert!(read(3.5, 7.0) && read(f64::NAN, 7.0) && read(0.0, 0.0));
        for weight in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(!read(3.5, weight), "{weight}");
        }
    }

    #[test]
    fn rows_of_a_copy_read_back_as_said() {
        let body = encode_copy_rows(7, u64::MAX - 1, &[0.5, f32::NEG_INFINITY]);
        let (ticket, sparse, values) = decode_copy_rows(&body).unwrap();
        assert_eq!((ticket, sparse), (7, u64::MAX - 1));
        assert_eq!(values, [0.5, f32::NEG_INFINITY]);
        for length in (0..16).chain([17, 23]) {
            assert!(decode_copy_rows(&body[..length]).is_err(), "{length}");
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
            tables: vec![u32::MAX; DIGESTS_MAX],
            purpose: Purpose::Check,
            listens: Some(([127, 0, 0, 1], 80).into()),
            process: Some(ServerProcess { began: 3, incarnation: 4, is_new: true }),
            instance: 5,
            begins: true,
            next_requests: Some(RequestSeq { clock: Clock(4), updates: true }),
            stand_in: Some(WorkerId { dc: DcId(1), index: 2 }),
        };

        assert_eq!(unpack::<Hello>(&pack(&hello)).unwrap(), hello);
        assert!(
            pack(&hello).len() < HELLO_BYTES_MAX * 3 / 4,
            "there is room for the name of a run"
        );
    }
}
