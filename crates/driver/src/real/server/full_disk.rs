//! A server whose disk takes no model.

use std::fs;

use crate::cluster::Blueprint;
use crate::real::NodeConfig;
use crate::real::connections::acceptor::Acceptor;
use crate::real::connections::message::{
    Answer, CopyUse, KeptModel, MESSAGE_BYTES_MAX, Order, Report, pack, unpack,
};
use crate::real::server::model_keeper::ModelKeeper;
use crate::real::server::serve;
use crate::real::test_run::{self, Stage};
use gaia_config::KeepModel;
use gaia_core::coordinator::StandIns;
use gaia_core::session::Incarnation;
use gaia_core::types::{DcId, NodeId, ServerId, ShardId};
use gaia_core::wire::LanKind;

const SERVER: ServerId = ServerId { dc: DcId(0), shard: ShardId(0) };

/// Gives the server these orders once it has begun. Returns its reports until it closes the connection.
async fn order(acceptor: &mut Acceptor, orders: &[Order]) -> Vec<Report> {
    let mut caller = acceptor.proven_caller().await;
    let begin = Answer::Begin { incarnation: Incarnation::FIRST };
    caller.channel.answer(&begin).await.unwrap();
    let servers = vec![(SERVER, caller.hello.listens.unwrap().to_string())];
    let (mut reader, parcels, _) = caller.channel.start(8);
    let begin = Order::Begin { servers, stand_ins: StandIns::default() };
    for order in std::iter::once(&begin).chain(orders) {
        parcels.send((LanKind::Order, pack(order).into())).await.unwrap();
    }

    let mut reports = Vec::new();
    while let Ok((_, body)) = reader.next(|_| MESSAGE_BYTES_MAX, None).await {
        reports.push(unpack(&body).unwrap());
    }
    reports
}

/// The final model is written by the next process of the server.
#[tokio::test]
async fn a_server_without_room_for_its_model_leaves_out_a_snapshot_and_ends_alone_at_the_end() {
    let mut plan = test_run::plan();
    plan.model.keep = KeepModel::Home;
    let mut stage = Stage::new(plan).await;
    let mut acceptor = stage.acceptor.take().unwrap();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("model");
    fs::write(&folder, "a file in the place of the folder").unwrap();
    let (plan, application) = (&stage.run_context.plan, &stage.application);
    let model_keeper = ModelKeeper::of(plan, application.as_ref(), Some(&folder)).unwrap();
    let node_config = NodeConfig { model_keeper, ..stage.node_config() };

    let context = stage.run_context.node_context(NodeId::Server(SERVER)).unwrap();
    let machine = Blueprint::new(&stage.plan, application).server(SERVER);
    let at = ([127, 0, 0, 1], 0).into();
    let serving = serve(context, SERVER, machine, &node_config, at, None);
    let kept = KeptModel { clock: 1, objective: 1.0, metric: 1.0, is_best: true };
    let orders = [
        Order::Evaluate { ticket: 1 },
        Order::Evaluated { ticket: 1, copy: CopyUse::Write(kept) },
        Order::ServerStats,
        Order::Keep { kept },
    ];
    let (served, reports) = tokio::join!(serving, order(&mut acceptor, &orders));

    let error = served.map(drop).unwrap_err();
    assert!(error.is_of_disk(), "{error}");
    let goes_on = |report: &Report| matches!(report, Report::ServerStats(_));
    let says_end = |report: &Report| matches!(report, Report::Failed { .. } | Report::Kept);
    assert!(reports.iter().any(goes_on) && !reports.iter().any(says_end), "{reports:?}");
}
