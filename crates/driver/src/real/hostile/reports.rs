//! A worker and a server that report to the coordinator what they may not, over TCP and TLS.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::{HONEST, HOSTILE, Log, NOBODY, SERVER, conduct};
use crate::real::connections::channel::{Parcel, Reader};
use crate::real::connections::message::{
    MESSAGE_BYTES_MAX, Order, Purpose, Report, encode_copy, pack, unpack,
};
use crate::real::node::context::NodeContext;
use crate::real::test_run::{self, Stage};
use crate::recorder::LinkCounters;
use crate::server_stats::ServerStats;
use gaia_core::application::EvaluationSums;
use gaia_core::coordinator::ServerProcess;
use gaia_core::node::Probed;
use gaia_core::recovery::Ledger;
use gaia_core::server::{BrakeStats, Divergence, LinkStats, OutlierStats};
use gaia_core::sync::WaitReason;
use gaia_core::types::limits::CLOCK_MAX;
use gaia_core::types::{Clock, DcId, NodeId, TableId, WorkerId};
use gaia_core::wire::LanKind;

/// A node that reports to the coordinator what a test has it report.
pub(in crate::real) struct ManualNode {
    context: NodeContext,
    reader: Reader,
    parcels: Sender<Parcel>,
}

impl ManualNode {
    pub(in crate::real) async fn join(stage: &Stage, node: NodeId) -> Self {
        let context = stage.run_context.node_context(node).unwrap();
        let (reader, parcels) = connect(stage, &context).await;
        let node = Self { context, reader, parcels };
        node.report(&Report::Ready).await;
        node
    }

    async fn join_again(&mut self, stage: &Stage) {
        (self.reader, self.parcels) = connect(stage, &self.context).await;
    }

    pub(super) async fn report(&self, report: &Report) {
        self.send((LanKind::Report, pack(report).into())).await;
    }

    async fn send(&self, parcel: Parcel) {
        self.parcels.send(parcel).await.unwrap();
    }

    /// The next order that is not a heartbeat. `None` once the connection is closed.
    pub(in crate::real) async fn order(&mut self) -> Option<Order> {
        loop {
            let (_, body) = self.reader.next(|_| MESSAGE_BYTES_MAX, None).await.ok()?;
            match unpack(&body).unwrap() {
                Order::Alive => {}
                order => return Some(order),
            }
        }
    }

    /// Waits for an order that a function takes something of.
    pub(super) async fn await_order<T>(&mut self, take: impl Fn(Order) -> Option<T>) -> T {
        loop {
            let order = self.order().await.expect("the coordinator keeps the connection");
            if let Some(taken) = take(order) {
                return taken;
            }
        }
    }

    async fn is_closed(&mut self) {
        while self.order().await.is_some() {}
    }
}

async fn connect(stage: &Stage, context: &NodeContext) -> (Reader, Sender<Parcel>) {
    let mut hello = context.hello(Purpose::Join);
    if let NodeId::Server(_) = context.node {
        hello.listens = Some(([127, 0, 0, 1], 1).into());
        hello.process = Some(ServerProcess { began: 1, incarnation: 1, is_new: true });
    }
    let channel = context.join(NodeId::Coordinator, &stage.coordinator, &hello).await.unwrap();
    let (reader, parcels, _) = channel.start(16);
    (reader, parcels)
}

/// A measurement of the copy of a data center.
fn probed(of: DcId) -> Probed {
    Probed { of, clock: Clock(10), away: 9.0, home: 1.0, untrained: 2.0 }
}

const TIME: Duration = Duration::from_secs(1);

/// What a worker may not report while the run trains, and what the coordinator says of it.
fn forbidden() -> Vec<(Parcel, &'static str)> {
    let report = |report: Report| (LanKind::Report, pack(&report).into());
    let invalid = "it sent a report that is not valid for this node";
    vec![
        (report(Report::Drained), invalid),
        (report(Report::ClockFinished(Clock(9))), invalid),
        (report(Report::CopyReady(Clock(9))), invalid),
        (report(Report::Kept), invalid),
        (report(Report::Probed(probed(DcId(1)))), invalid),
        (report(Report::Stopped(Clock(1))), "it says that it has stopped, and was not ordered to"),
        (report(Report::Stopped(Clock(CLOCK_MAX + 1))), "received a report of clock"),
        (report(Report::Held(vec![(WaitReason::Updates { from: DcId(9) }, TIME)])), invalid),
        (report(Report::Held(vec![(WaitReason::LocalWorker { worker: NOBODY }, TIME)])), invalid),
        ((LanKind::Copy, encode_copy(1, &[]).into()), "size 8, expected at most 0"),
        ((LanKind::Order, pack(&Order::End).into()), "received Order, expected a report"),
    ]
}

/// What a server may not report while the run trains: figures of data centers, workers and rows that the run does not have.
fn forbidden_of_server(stage: &Stage) -> Vec<(Parcel, &'static str)> {
    let report = |report: Report| (LanKind::Report, pack(&report).into());
    let invalid = "it sent a report that is not valid for this node";
    let stats = |change: fn(&mut ServerStats)| {
        let mut stats = ServerStats {
            server: SERVER,
            links: BTreeMap::new(),
            brakes: BrakeStats::default(),
            outliers: Vec::new(),
            guard: None,
            tightness: 0,
            ledgers: BTreeMap::new(),
        };
        change(&mut stats);
        report(Report::ServerStats(Box::new(stats)))
    };
    let tables = stage.application.layout().tables();
    let diverged = |index, table, row| {
        let (worker, clock) = (WorkerId { dc: DcId(0), index }, Clock(1));
        report(Report::Diverged(Divergence {
            worker,
            clock,
            table: TableId(table),
            row,
            value: 0.0,
        }))
    };
    vec![
        (diverged(2, 0, 0), invalid),
        (diverged(0, tables.len() as u16, 0), invalid),
        (diverged(0, 0, tables[0].rows as u32), invalid),
        (stats(|stats| stats.links = [(DcId(9), LinkStats::default())].into()), invalid),
        (stats(|stats| stats.ledgers = [(DcId(9), Ledger::default())].into()), invalid),
        (report(Report::Refuses { peer: DcId(9), reason: String::new() }), invalid),
        (report(Report::Probed(probed(SERVER.dc))), invalid),
        (report(Report::Probed(probed(DcId(9)))), invalid),
        (
            report(Report::Alive { links: vec![(DcId(9), LinkCounters::default())], lan_bytes: 0 }),
            invalid,
        ),
        (stats(|stats| stats.outliers = vec![OutlierStats::default(); 3]), invalid),
        (report(Report::ClockFinished(Clock(CLOCK_MAX + 1))), "received a report of clock"),
    ]
}

/// Neither ends the run, nor makes it drain at a clock that is not that of its workers.
#[tokio::test]
async fn what_a_worker_may_not_report_is_refused_by_name_and_the_run_goes_on() {
    let mut stage = Stage::new(test_run::plan()).await;
    let acceptor = stage.acceptor.take().unwrap();
    let log = Log::begin();
    tokio::select! {
        conducted = conduct(&stage, acceptor) => panic!("the run has ended: {:?}", conducted.err()),
        () = drains_where_its_workers_are(&stage, &log) => {}
    }
}

/// Sends each of these, after which the coordinator closes the connection and says why.
async fn each_is_refused(
    node: &mut ManualNode,
    name: &str,
    forbidden: Vec<(Parcel, &str)>,
    stage: &Stage,
    log: &Log,
) {
    for (parcel, expected) in forbidden {
        node.send(parcel).await;
        node.is_closed().await;
        node.join_again(stage).await;
        log.says(&format!("{name} is lost: "), expected);
    }
}

async fn drains_where_its_workers_are(stage: &Stage, log: &Log) {
    let (mut server, mut honest, mut hostile) = tokio::join!(
        ManualNode::join(stage, NodeId::Server(SERVER)),
        ManualNode::join(stage, NodeId::Worker(HONEST)),
        ManualNode::join(stage, NodeId::Worker(HOSTILE)),
    );
    honest.await_order(|order| matches!(order, Order::Start { .. }).then_some(())).await;

    each_is_refused(&mut hostile, "worker 1 of a", forbidden(), stage, log).await;
    each_is_refused(&mut server, "server 0 of a", forbidden_of_server(stage), stage, log).await;

    // It answers what it was asked, once, and nothing else.
    server.report(&Report::ClockFinished(Clock(1))).await;
    server.report(&Report::CopyReady(Clock(1))).await;
    let ticket = server.await_order(|order| match order {
        Order::Evaluate { ticket } => Some(ticket),
        _ => None,
    });
    let ticket = ticket.await;
    let evaluated =
        |ticket| Report::Evaluated { ticket, sums: EvaluationSums::default(), digest: 1 };
    for ticket in [ticket + 1, ticket, ticket] {
        hostile.report(&evaluated(ticket)).await;
    }
    honest.report(&evaluated(ticket)).await;

    let last = honest.await_order(|order| match order {
        Order::Stop { last } => Some(last),
        _ => None,
    });
    let last = last.await;
    hostile.report(&Report::Stopped(last)).await;
    honest.report(&Report::Stopped(last)).await;
    let clocks = server.await_order(|order| match order {
        Order::Drain { clocks, .. } => Some(clocks),
        _ => None,
    });
    assert_eq!(clocks.await, [last; 2], "not where the worker has claimed to be before");
}
