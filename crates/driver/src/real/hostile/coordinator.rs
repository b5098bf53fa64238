//! A coordinator that closes the connections of a node, over TCP and TLS.

use super::{HONEST, Log};
use crate::real::connections::acceptor::Acceptor;
use crate::real::connections::message::Answer;
use crate::real::node::coordinator_client::CoordinatorClient;
use crate::real::test_run::{self, Stage};

/// Accepts the next connection of a node, and closes it.
async fn accept_and_close(acceptor: &mut Acceptor) {
    let mut caller = acceptor.proven_caller().await;
    caller.channel.answer(&Answer::Welcome).await.unwrap();
}

#[tokio::test]
async fn a_coordinator_that_closes_each_connection_does_not_fill_the_log_of_a_node() {
    let mut stage = Stage::new(test_run::plan()).await;
    let mut acceptor = stage.acceptor.take().unwrap();
    let context = stage.worker(HONEST);
    let log = Log::begin();

    let (client, ()) = tokio::join!(
        CoordinatorClient::open(&context, &stage.coordinator, None, None),
        accept_and_close(&mut acceptor),
    );
    let _client = client.unwrap();
    // Each further connection shows that the node has noticed the end of the one before.
    for _ in 0..CONNECTIONS {
        accept_and_close(&mut acceptor).await;
    }

    let text = log.text();
    let lost = "the connection to the coordinator is lost";
    let lines = text.lines().filter(|line| line.contains(lost)).count();
    assert!((1..CONNECTIONS / 2).contains(&lines), "{lines} lines:\n{text}");
}

/// Many times the lines that are admitted at once.
const CONNECTIONS: usize = 100;
