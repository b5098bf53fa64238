//! A node's connection to the coordinator, which lasts for the whole run: if it is lost, the node reconnects.
//!
//! Reports that stay valid, such as the clock that the node has finished, are sent again on each new connection. The
//! coordinator does the same with its orders. So either end may be disconnected for a while, and training continues
//! without the coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::real::HEARTBEAT;
use crate::real::SILENCE_MAX;
use crate::real::connections::channel::{Channel, Parcel, Reader};
use crate::real::connections::message::{
    Hello, MESSAGE_BYTES_MAX, Order, Purpose, Report, encode_copy, pack, unpack,
};
use crate::real::connections::throttle::LogThrottle;
use crate::real::error::{ChannelError, RealError};
use crate::real::node::context::NodeContext;
use gaia_core::coordinator::{ServerProcess, StandIns};
use gaia_core::session::Incarnation;
use gaia_core::topology::Address;
use gaia_core::types::{DcId, NodeId, ServerId};
use gaia_core::wire::LanKind;
use gaia_telemetry::TOLD;

/// Receives orders of the coordinator, and sends reports and copies to it.
pub(in crate::real) struct CoordinatorClient {
    /// The name of the node.
    name: String,
    orders: Receiver<Result<Order, RealError>>,
    says: Sender<Said>,
    is_connected: watch::Receiver<bool>,
    keeping: JoinHandle<()>,
}

/// The state of the run when it begins for a node.
pub(in crate::real) struct Begun {
    /// The addresses of servers.
    pub(in crate::real) servers: BTreeMap<ServerId, Address>,
    pub(in crate::real) stand_ins: StandIns,
    /// The mirror whose copy a server without a copy is to take, and the data centers that take no part.
    pub(in crate::real) copy_from: Option<(DcId, BTreeSet<DcId>)>,
    /// Whether stand-ins have done a worker's work.
    pub(in crate::real) reset: bool,
}

/// A message of a node to the coordinator.
#[derive(Clone, Debug)]
enum Said {
    Report(Report),
    /// A copy with its ticket, encoded.
    Copy(Vec<u8>),
}

/// The task that keeps the connection open.
struct Keeper {
    context: NodeContext,
    coordinator: Address,
    hello: Hello,
    says: Receiver<Said>,
    orders: Sender<Result<Order, RealError>>,
    is_connected: watch::Sender<bool>,
    latest: LatestReports,
    /// Of lost connections: the coordinator may close each one at once.
    lost_lines: LogThrottle,
}

/// The reports of a node that stay valid until it sends newer ones.
#[derive(Debug, Default)]
struct LatestReports {
    /// The latest of each kind, in the order of their kinds.
    reports: BTreeMap<u8, Report>,
}

/// Why a connection has ended.
enum Over {
    Lost(ChannelError),
    /// The node has closed it.
    Done,
}

impl CoordinatorClient {
    /// Connects to the coordinator, and waits for it to start, for a server without state. Returns the incarnation
    /// that it begins as, and the connection, for [`Self::over`].
    pub(in crate::real) async fn call_to_begin(
        context: &NodeContext,
        coordinator: &Address,
        listens: SocketAddr,
    ) -> Result<(Incarnation, Channel), RealError> {
        let hello = Hello { listens: Some(listens), begins: true, ..context.hello(Purpose::Join) };
        let joined = meet(context, context.join(NodeId::Coordinator, coordinator, &hello)).await?;
        tell_connected(context);
        let incarnation = joined.incarnation().ok_or_else(|| RealError::Broken {
            from: "the coordinator".into(),
            reason: "its answer has no incarnation, expected one".into(),
        })?;
        Ok((incarnation, joined))
    }

    /// Connects to the coordinator, and waits for it to start. A node that has taken part in the run waits no longer than
    /// for any lost node, since the run may have ended.
    pub(in crate::real) async fn open(
        context: &NodeContext,
        coordinator: &Address,
        listens: Option<SocketAddr>,
        process: Option<ServerProcess>,
    ) -> Result<Self, RealError> {
        let hello = Hello { listens, process, ..context.hello(Purpose::Join) };
        let joining = context.join(NodeId::Coordinator, coordinator, &hello);
        let joined = match process {
            Some(ServerProcess { is_new: false, .. }) => rejoin(context, joining).await?,
            _ => meet(context, joining).await?,
        };
        tell_connected(context);
        Ok(Self::start(context, coordinator, hello, joined))
    }

    /// A client over an existing connection.
    pub(in crate::real) fn over(
        context: &NodeContext,
        coordinator: &Address,
        listens: Option<SocketAddr>,
        process: Option<ServerProcess>,
        joined: Channel,
    ) -> Self {
        let hello = Hello { listens, process, ..context.hello(Purpose::Join) };
        Self::start(context, coordinator, hello, joined)
    }

    /// Starts the task that keeps the connection open. `hello` is sent on each reconnect.
    fn start(context: &NodeContext, coordinator: &Address, hello: Hello, joined: Channel) -> Self {
        let (sender, orders) = channel(ORDERS_MAX);
        let (says, said) = channel(SAID_MAX);
        let (connection, is_connected) = watch::channel(true);
        let keeper = Keeper {
            context: context.clone(),
            coordinator: coordinator.clone(),
            hello,
            says: said,
            orders: sender,
            is_connected: connection,
            latest: LatestReports::default(),
            lost_lines: LogThrottle::default(),
        };

        let keeping = tokio::spawn(keeper.keep(joined));
        Self { name: context.name(), orders, says, is_connected, keeping }
    }

    /// Waits until all nodes are connected. Sends heartbeats meanwhile.
    pub(in crate::real) async fn begin(&mut self) -> Result<Begun, RealError> {
        let (mut copy_from, mut reset) = (None, false);
        let mut beat = tokio::time::interval(HEARTBEAT);
        loop {
            let order = tokio::select! {
                biased;
                _ = beat.tick() => {
                    self.report(&Report::Alive { links: Vec::new(), lan_bytes: 0 }).await;
                    continue;
                }
                order = self.order() => order?,
            };
            match order {
                Order::Begin { servers, stand_ins } => {
                    let servers = addresses_of(servers)?;
                    info!(target: TOLD, "{}: all nodes are connected, training begins", self.name);
                    return Ok(Begun { servers, stand_ins, copy_from, reset });
                }
                Order::Rebuild { from, inactive } => copy_from = Some((from, inactive)),
                Order::Reset => reset = true,
                Order::Alive => {}
                other => return Err(Self::unexpected(&other)),
            }
        }
    }

    /// The next order. An order may be received again. Cancel safe.
    ///
    /// # Errors
    /// If the coordinator has ended the run, refuses this node, or was away for longer than the node waits for it.
    pub(in crate::real) async fn order(&mut self) -> Result<Order, RealError> {
        match self.orders.recv().await {
            Some(Ok(Order::Abort { reason })) => Err(RealError::Ended { reason }),
            Some(Ok(Order::Dismiss { reason })) => Err(RealError::Dismissed { reason }),
            Some(order) => order,
            None => Err(RealError::Lost {
                node: "the coordinator".into(),
                reason: ChannelError::Closed.to_string(),
            }),
        }
    }

    /// Whether the connection is open, as far as is known: a coordinator that hangs is found silent after a while.
    pub(in crate::real) fn is_connected(&self) -> bool {
        *self.is_connected.borrow()
    }

    pub(in crate::real) async fn report(&self, report: &Report) {
        // A caller that waits for orders receives the error of a connection that has ended.
        let _over = self.says.send(Said::Report(report.clone())).await;
    }

    /// Sends a requested copy, with its ticket.
    pub(in crate::real) async fn send_copy(&self, ticket: u64, copy: &[f32]) {
        let _over = self.says.send(Said::Copy(encode_copy(ticket, copy))).await;
    }

    /// Reports a failure that the coordinator does not know and that ends the run, if there is one. Sends all queued
    /// messages, and closes the connection.
    pub(in crate::real) async fn finish<T>(
        self,
        done: Result<T, RealError>,
    ) -> Result<T, RealError> {
        if let Err(error) = &done
            && !matches!(error, RealError::Ended { .. } | RealError::Dismissed { .. })
            && !error.is_of_disk()
        {
            self.report(&Report::Failed { reason: error.to_string() }).await;
        }
        drop((self.says, self.orders));
        let mut keeping = self.keeping;
        if timeout(SILENCE_MAX, &mut keeping).await.is_err() {
            keeping.abort();
        }
        done
    }

    pub(in crate::real) fn unexpected(order: &Order) -> RealError {
        RealError::Broken {
            from: "the coordinator".into(),
            reason: format!("it sent an order that was not expected: {order:?}"),
        }
    }
}

/// The addresses of servers in an order.
pub(in crate::real) fn addresses_of(
    servers: Vec<(ServerId, String)>,
) -> Result<BTreeMap<ServerId, Address>, RealError> {
    let parsed = servers.into_iter().map(|(server, text)| {
        let address = text.parse::<Address>().map_err(|error| RealError::Broken {
            from: "the coordinator".into(),
            reason: error.to_string(),
        })?;
        Ok((server, address))
    });
    parsed.collect()
}

impl Keeper {
    async fn keep(mut self, mut joined: Channel) {
        loop {
            let error = match self.hold(joined).await {
                Over::Done => return,
                Over::Lost(error) => error,
            };
            self.on_lost(&error);
            joined = match self.call_again().await {
                Ok(Some(joined)) => joined,
                Ok(None) => return,
                Err(error) => {
                    // A node that has ended receives no orders.
                    let _over = self.orders.send(Err(error)).await;
                    return;
                }
            };
        }
    }

    fn on_lost(&self, error: &ChannelError) {
        self.is_connected.send_replace(false);
        self.context.on_lost(NodeId::Coordinator);
        if let Some(left_out) = self.lost_lines.pass() {
            warn!(
                "the connection to the coordinator is lost: {error}; this node continues and reconnects{left_out}"
            );
        }
    }

    /// Passes messages in both directions until the connection is lost or the node closes it.
    async fn hold(&mut self, joined: Channel) -> Over {
        self.is_connected.send_replace(true);
        self.context.on_connected(NodeId::Coordinator);
        let (reader, parcels, writing) = joined.start(SAID_MAX);
        let mut reading = JoinSet::new();
        reading.spawn(read(reader, self.orders.clone()));

        for report in self.latest.reports.values() {
            // The reader detects a lost connection.
            let _lost = parcels.send((LanKind::Report, pack(report).into())).await;
        }

        loop {
            tokio::select! {
                biased;
                Some(read) = reading.join_next() => {
                    // After the last order the node sends its last reports and closes the connection.
                    if let Ok(Some(error)) = read {
                        return Over::Lost(error);
                    }
                }
                said = self.says.recv() => match said {
                    Some(said) => {
                        self.latest.note(&said);
                        // A coordinator that is disconnected accepts nothing. The wait ends after its silence.
                        tokio::select! {
                            biased;
                            _lost = parcels.send(said.parcel()) => {}
                            Some(Ok(Some(error))) = reading.join_next() => {
                                return Over::Lost(error);
                            }
                        }
                    }
                    None => {
                        drop(parcels);
                        // The last reports are sent once the writer has ended.
                        let _written = writing.await;
                        return Over::Done;
                    }
                },
            }
        }
    }

    /// Reconnects until the coordinator answers. `None` if the node closes the connection meanwhile.
    async fn call_again(&mut self) -> Result<Option<Channel>, RealError> {
        let (context, address, hello) =
            (self.context.clone(), self.coordinator.clone(), self.hello.clone());
        let calling = rejoin(&context, context.join_again(NodeId::Coordinator, &address, &hello));
        tokio::pin!(calling);

        loop {
            tokio::select! {
                biased;
                called = &mut calling => return called.map(Some),
                // Reports that stay valid are sent again. Others are dropped.
                said = self.says.recv() => match said {
                    Some(said) => self.latest.note(&said),
                    None => return Ok(None),
                },
            }
        }
    }
}

impl LatestReports {
    fn note(&mut self, said: &Said) {
        let Said::Report(report) = said else { return };
        let kind = match report {
            Report::Ready => 0,
            Report::ClockFinished(_) => 1,
            Report::CopyReady(_) => 2,
            Report::Stopped(_) => 3,
            Report::Drained => 4,
            Report::Failed { .. } => 5,
            Report::Diverged(_) => 6,
            Report::Whole => 7,
            Report::Evaluated { .. } => 8,
            Report::Kept => 9,
            Report::Ended => 10,
            // A link that is still refused is reported again, and copies are measured again.
            Report::Held(_)
            | Report::Probed(_)
            | Report::Alive { .. }
            | Report::ServerStats(_)
            | Report::Refuses { .. }
            | Report::Data { .. } => {
                return;
            }
        };

        self.reports.insert(kind, report.clone());
    }
}

impl Said {
    fn parcel(self) -> Parcel {
        match self {
            Self::Report(report) => (LanKind::Report, pack(&report).into()),
            Self::Copy(body) => (LanKind::Copy, body.into()),
        }
    }
}

fn tell_connected(context: &NodeContext) {
    info!(target: TOLD, "{}: connected to the coordinator, waiting for the other nodes", context.name());
}

/// Connects to the coordinator of a run in which the node has taken no part, as far as it knows: nodes may be started before
/// their coordinator, and one without a state may have been part of a run that has ended.
async fn meet(
    context: &NodeContext,
    joining: impl Future<Output = Result<Channel, RealError>>,
) -> Result<Channel, RealError> {
    let patience = context.run_context.plan.failures.give_up_after.0.max(FIRST_WAIT_MIN);
    let seconds = patience.as_secs();
    let reason = format!(
        "it was not reached for {seconds} s; it may not have been started, or the run may have ended without this node"
    );
    let lost = RealError::Lost { node: "the coordinator".into(), reason };
    timeout(patience, joining).await.unwrap_or(Err(lost))
}

/// Connects to the coordinator of a run in which the node has taken part. Fails once a node would be given up.
async fn rejoin(
    context: &NodeContext,
    joining: impl Future<Output = Result<Channel, RealError>>,
) -> Result<Channel, RealError> {
    let given_up = context.run_context.plan.failures.give_up_after.0;
    let joined = timeout(given_up, joining).await;
    joined.unwrap_or_else(|_| Err(lost_for(given_up)))
}

/// The error of a coordinator that does not come back.
pub(in crate::real) fn lost_for(time: Duration) -> RealError {
    let seconds = time.as_secs();
    let reason =
        format!("it was disconnected for {seconds} s; the run may have ended without this node");
    RealError::Lost { node: "the coordinator".into(), reason }
}

/// Passes orders on until the last one, until the receiver is dropped, or until the connection is lost. Returns the
/// error of a lost connection.
async fn read(
    mut reader: Reader,
    orders: Sender<Result<Order, RealError>>,
) -> Option<ChannelError> {
    loop {
        let next = reader.next(|_| MESSAGE_BYTES_MAX, Some(SILENCE_MAX)).await;
        let order = next.and_then(|(kind, body)| match kind {
            LanKind::Order => unpack(&body),
            other => Err(ChannelError::Other(format!("received {other:?}, expected an order"))),
        });
        match order {
            Ok(order) => {
                let last =
                    matches!(order, Order::End | Order::Abort { .. } | Order::Dismiss { .. });
                if orders.send(Ok(order)).await.is_err() || last {
                    return None;
                }
            }
            Err(error) => return Some(error),
        }
    }
}

const SAID_MAX: usize = 256;
const ORDERS_MAX: usize = 256;

/// How long a node without a state waits for its coordinator at least, so that there is time to start all nodes.
const FIRST_WAIT_MIN: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_core::types::Clock;

    #[test]
    fn what_stands_is_the_latest_of_its_kind_and_nothing_of_the_moment() {
        let mut latest = LatestReports::default();
        let alive = Report::Alive { links: Vec::new(), lan_bytes: 0 };
        let said = [
            Report::CopyReady(Clock(1)),
            Report::ClockFinished(Clock(1)),
            alive,
            Report::ClockFinished(Clock(2)),
            Report::Ready,
        ];
        said.into_iter().for_each(|report| latest.note(&Said::Report(report)));
        let kept: Vec<Report> = latest.reports.into_values().collect();
        let expected =
            [Report::Ready, Report::ClockFinished(Clock(2)), Report::CopyReady(Clock(1))];
        assert_eq!(kept, expected);
    }
}
