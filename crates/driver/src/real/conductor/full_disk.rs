//! A coordinator whose disk takes no more state.

use std::fs;

use crate::real::connections::message::Order;
use crate::real::hostile::conduct_with_state;
use crate::real::hostile::reports::ManualNode;
use crate::real::test_run::{self, Stage};
use gaia_checkpoint::StateFile;
use gaia_core::types::{DcId, NodeId, ServerId, ShardId, WorkerId};

#[tokio::test]
async fn a_coordinator_whose_disk_is_full_leaves_its_nodes_to_its_next_process() {
    let mut stage = Stage::new(test_run::plan()).await;
    let acceptor = stage.acceptor.take().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = StateFile::new(&folder.path().join("state"), 1).unwrap();

    let seen = async {
        let worker = |index| NodeId::Worker(WorkerId { dc: DcId(0), index });
        let server = NodeId::Server(ServerId { dc: DcId(0), shard: ShardId(0) });
        let mut first = ManualNode::join(&stage, worker(0)).await;
        // Nothing is written any more: a folder has the name of the draft.
        fs::create_dir(folder.path().join("state.part")).unwrap();
        let (mut second, mut third) =
            tokio::join!(ManualNode::join(&stage, worker(1)), ManualNode::join(&stage, server));
        let mut orders = Vec::new();
        for node in [&mut first, &mut second, &mut third] {
            while let Some(order) = node.order().await {
                orders.push(order);
            }
        }
        orders
    };
    let (conducted, orders) = tokio::join!(conduct_with_state(&stage, acceptor, Some(file)), seen);

    let error = conducted.unwrap_err();
    assert!(error.is_of_disk(), "{error}");
    let is_begin = |order: &Order| matches!(order, Order::Begin { .. });
    assert!(orders.iter().all(is_begin) && orders.len() >= 3, "{orders:?}");
}
