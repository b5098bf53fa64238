//! Many links in one process, in the time of the machine: whether each has its rate.

use std::time::Duration;

use gaia_core::link::quantum;
use gaia_core::types::{Bandwidth, Lane, Seed};
use gaia_driver::emulated::{DcTransport, EmulatedWan, Event};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::links::{SHARD, frame};
use super::mesh::mesh;
use super::rows::Rows;

const DATA_CENTERS: u16 = 11;
const MBIT: f64 = 5.0;
const ROUND_TRIP: Duration = Duration::from_millis(100);
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(4);

pub(super) fn measure(rows: &mut Rows) {
    let runtime = || Builder::new_multi_thread().enable_all().build().unwrap();
    let seeds = (1..=rows.runs() as u64).map(Seed);
    let slowest: Vec<f64> = seeds.map(|seed| runtime().block_on(slowest(seed))).collect();
    let links = DATA_CENTERS * (DATA_CENTERS - 1) / 2;
    let name = format!("a MB on the slowest of {links} links, both ways");
    let ideal = vec![8e3 / MBIT; slowest.len()];
    rows.print(&name, "ms", &slowest, ("the rate of the link, 5 Mbit/s", &ideal));
}

/// The milliseconds of a MB on the direction of a link that carries least while all are full.
async fn slowest(seed: Seed) -> f64 {
    let names: Vec<String> = (0..DATA_CENTERS).map(|number| format!("dc{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let topology = mesh(&names, MBIT, ROUND_TRIP, 0.0);
    let (wan, transports) = EmulatedWan::start(&topology, 1, seed).await.unwrap();
    let begins = Instant::now() + WARM_UP;
    let mut exchanges = JoinSet::new();
    for transport in transports {
        exchanges.spawn(exchange(transport, begins, begins + MEASURED));
    }
    let least = exchanges.join_all().await.into_iter().min().unwrap();
    // What is on its way is not waited for.
    drop(wan);
    1e3 * MEASURED.as_secs_f64() / (least as f64 / 1e6)
}

/// Keeps the lanes to all peers full, and gives the fewest bytes that a peer has sent meanwhile.
async fn exchange(mut transport: DcTransport, begins: Instant, ends: Instant) -> usize {
    let peers: Vec<_> = transport.peers().collect();
    let frame = frame(quantum(Bandwidth::from_mbit(MBIT)).0 as usize);
    let mut received = vec![0; usize::from(DATA_CENTERS)];
    loop {
        for to in &peers {
            if transport.has_room(*to, SHARD, Lane::Data) {
                transport.send(*to, SHARD, Lane::Data, frame.clone()).unwrap();
            }
        }
        match timeout_at(ends, transport.event()).await {
            Ok(Event::Frame(incoming)) if Instant::now() >= begins => {
                received[incoming.from.index()] += incoming.frame.len();
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    peers.iter().map(|peer| received[peer.index()]).min().unwrap()
}
