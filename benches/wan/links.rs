//! One link in virtual time. A seed decides what is lost, so a row without loss has no range.

use std::time::Duration;

use bytes::Bytes;
use gaia_core::link::quantum;
use gaia_core::types::{Bandwidth, DcId, Lane, Seed, ShardId};
use gaia_driver::emulated::{DcTransport, EmulatedWan, Event};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout_at};

use super::mesh::mesh;
use super::rows::Rows;

pub(super) const SHARD: ShardId = ShardId(0);

/// The round trip of most rows.
const ROUND_TRIP: Duration = Duration::from_millis(200);
/// How long a link is full before its rate is measured, and how long that takes.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(4);
/// What arrives in this time is a rate.
const RATE_OVER: Duration = Duration::from_millis(50);
/// The share of a steady rate that a link from idle has to reach.
const REACHED: f64 = 0.95;
const BURST_BYTES: usize = 1_000_000;
/// What control frames may wait beyond a round trip.
const CONTROL_MARGIN: Duration = Duration::from_millis(50);
const CONTROL_FRAMES: u32 = 40;

pub(super) fn measure(rows: &mut Rows) {
    for mbit in [10.0, 50.0, 100.0, 300.0] {
        let times = each_seed(rows, |seed| in_virtual_time(steady(mbit, 0.0, seed)));
        let name = format!("a MB, {mbit} Mbit/s, 200 ms");
        let ideal = vec![8e3 / mbit; times.len()];
        rows.print(&name, "ms", &times, ("the rate of the link", &ideal));
    }

    let lossy = each_seed(rows, |seed| in_virtual_time(steady(50.0, 0.01, seed)));
    let clean = each_seed(rows, |seed| in_virtual_time(steady(50.0, 0.0, seed)));
    rows.print("a MB, 50 Mbit/s, 200 ms, 1 % lost", "ms", &lossy, ("without loss", &clean));

    let reached = each_seed(rows, |seed| in_virtual_time(from_idle(100.0, seed)));
    let two = vec![2.0 * milliseconds(ROUND_TRIP); reached.len()];
    let name = "idle to 0.95 of its rate, 100 Mbit/s";
    rows.print(name, "ms", &reached, ("two round trips", &two));

    for mbit in [10.0, 50.0] {
        let bursts = each_seed(rows, |seed| in_virtual_time(burst(mbit, seed)));
        let link = Bandwidth::from_mbit(mbit);
        let ideal = ROUND_TRIP / 2 + link.time_for(BURST_BYTES as u64);
        let ideal = vec![milliseconds(ideal); bursts.len()];
        let name = format!("a MB to an idle link, {mbit} Mbit/s");
        rows.print(&name, "ms", &bursts, ("half a round trip and its bytes", &ideal));
    }

    let waits = each_seed(rows, |seed| in_virtual_time(control_beside_data(50.0, seed)));
    let most = vec![milliseconds(ROUND_TRIP + CONTROL_MARGIN); waits.len()];
    let name = "a control frame beside data, the slowest of 40";
    rows.print(name, "ms", &waits, ("a round trip and 50 ms", &most));
}

/// The value of each run.
fn each_seed(rows: &Rows, run: impl Fn(Seed) -> f64) -> Vec<f64> {
    (0..rows.runs()).map(|number| run(Seed(1 + number as u64))).collect()
}

fn in_virtual_time(run: impl Future<Output = f64>) -> f64 {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(run)
}

/// The milliseconds of a MB on a link that is full.
async fn steady(mbit: f64, loss: f64, seed: Seed) -> f64 {
    let (wan, mut from, to) = pair(mbit, loss, seed).await;
    let receiving = tokio::spawn(arrivals(to));
    let begins = Instant::now() + WARM_UP;
    saturate(&mut from, mbit, begins + MEASURED + ROUND_TRIP).await;
    wan.close().await.unwrap();

    let arrived = receiving.await.unwrap();
    let bytes = bytes_between(&arrived, begins, begins + MEASURED);
    1e3 * MEASURED.as_secs_f64() / (bytes as f64 / 1e6)
}

/// The milliseconds from the first frame of a link that was idle until frames arrive at its rate.
async fn from_idle(mbit: f64, seed: Seed) -> f64 {
    let (wan, mut from, to) = pair(mbit, 0.0, seed).await;
    let receiving = tokio::spawn(arrivals(to));
    sleep(WARM_UP).await;
    let began = Instant::now();
    saturate(&mut from, mbit, began + WARM_UP + MEASURED + ROUND_TRIP).await;
    wan.close().await.unwrap();

    let arrived = receiving.await.unwrap();
    let rate = |begins, lasts: Duration| {
        bytes_between(&arrived, begins, begins + lasts) as f64 / lasts.as_secs_f64()
    };
    let steady = rate(began + WARM_UP, MEASURED);
    let is_full = |begins: &Instant| rate(*begins, RATE_OVER) >= REACHED * steady;
    let mut times = (0..).map(|step| began + Duration::from_millis(step));
    milliseconds(times.find(is_full).unwrap() - began)
}

/// The milliseconds from the sending of a frame over an idle link to its arrival.
async fn burst(mbit: f64, seed: Seed) -> f64 {
    let (wan, mut from, to) = pair(mbit, 0.0, seed).await;
    let receiving = tokio::spawn(arrivals(to));
    sleep(WARM_UP).await;
    let began = Instant::now();
    from.send(DcId(1), SHARD, Lane::Data, frame(BURST_BYTES)).unwrap();
    while !matches!(from.event().await, Event::Room { .. }) {}
    wan.close().await.unwrap();
    milliseconds(receiving.await.unwrap()[0].at - began)
}

/// The milliseconds of the slowest of some control frames from end to end, while the link is full of data.
async fn control_beside_data(mbit: f64, seed: Seed) -> f64 {
    let (wan, mut from, to) = pair(mbit, 0.0, seed).await;
    let receiving = tokio::spawn(arrivals(to));
    saturate(&mut from, mbit, Instant::now() + WARM_UP).await;
    let mut sent = Vec::new();
    for number in 0..CONTROL_FRAMES {
        let until = Instant::now() + Duration::from_millis(u64::from(20 + number % 7));
        saturate(&mut from, mbit, until).await;
        sent.push(Instant::now());
        from.send(DcId(1), SHARD, Lane::Control, frame(100)).unwrap();
    }
    wan.close().await.unwrap();

    let arrived = receiving.await.unwrap();
    let control = arrived.iter().filter(|arrived| arrived.lane == Lane::Control);
    let waits = sent.iter().zip(control).map(|(sent, arrived)| arrived.at - *sent);
    milliseconds(waits.max().unwrap())
}

/// A frame that has arrived.
struct Arrived {
    at: Instant,
    lane: Lane,
    bytes: usize,
}

/// Takes frames until the peer leaves.
async fn arrivals(mut transport: DcTransport) -> Vec<Arrived> {
    let mut arrived = Vec::new();
    loop {
        match transport.event().await {
            Event::Frame(incoming) => arrived.push(Arrived {
                at: Instant::now(),
                lane: incoming.lane,
                bytes: incoming.frame.len(),
            }),
            Event::Left { .. } => return arrived,
            _ => {}
        }
    }
}

fn bytes_between(arrived: &[Arrived], begins: Instant, ends: Instant) -> usize {
    let during = arrived.iter().filter(|arrived| (begins..ends).contains(&arrived.at));
    during.map(|arrived| arrived.bytes).sum()
}

/// Keeps the data lane to the first peer full until then.
async fn saturate(transport: &mut DcTransport, mbit: f64, until: Instant) {
    let to = transport.peers().next().unwrap();
    let frame = frame(quantum(Bandwidth::from_mbit(mbit)).0 as usize);
    while Instant::now() < until {
        while transport.has_room(to, SHARD, Lane::Data) {
            transport.send(to, SHARD, Lane::Data, frame.clone()).unwrap();
        }
        let _ = timeout_at(until, transport.event()).await;
    }
}

pub(super) fn frame(bytes: usize) -> Bytes {
    vec![0x5a; bytes].into()
}

async fn pair(mbit: f64, loss: f64, seed: Seed) -> (EmulatedWan, DcTransport, DcTransport) {
    let topology = mesh(&["north", "south"], mbit, ROUND_TRIP, loss);
    let (wan, transports) = EmulatedWan::start(&topology, 1, seed).await.unwrap();
    let [from, to] = transports.try_into().ok().unwrap();
    (wan, from, to)
}

fn milliseconds(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
