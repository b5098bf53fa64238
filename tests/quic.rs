//! Real QUIC and TLS over the network in memory, in virtual time: the clock is paused, so a second of WAN
//! passes as fast as its packets can be computed and every run of a seed sees the same times.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod mesh;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use gaia_certificates::{Authority, Identity, Validity};
use gaia_core::link::{LinkConfig, Transport, quantum};
use gaia_core::node::Lane;
use gaia_core::topology::Topology;
use gaia_core::types::{Bandwidth, DcId, Seed, ShardId};
use gaia_driver::emulated::{
    Certificates, DcTransport, EmulatedWan, Event, Incoming, LinkTraffic, TransportError,
};
use mesh::{mesh, queue};
use rustls::pki_types::UnixTime;
use tokio::time::Instant;

const SHARD: ShardId = ShardId(0);

fn topology(names: &[&str], mbit: f64, rtt_ms: u64, loss: f64) -> Topology {
    mesh(names, mbit, Duration::from_millis(rtt_ms), loss)
}

async fn pair(mbit: f64, rtt_ms: u64, loss: f64) -> (EmulatedWan, DcTransport, DcTransport) {
    let topology = topology(&["oregon", "tokyo"], mbit, rtt_ms, loss);
    let (wan, transports) = EmulatedWan::start(&topology, 1, Seed(7)).await.unwrap();
    let [oregon, tokyo] = transports.try_into().ok().unwrap();
    (wan, oregon, tokyo)
}

fn frame(bytes: usize) -> Bytes {
    vec![0x5a; bytes].into()
}

/// Keeps the data lane to the first peer full of frames for a while, and gives what QUIC took.
async fn saturate(transport: &mut DcTransport, frame_bytes: usize, time: Duration) -> u64 {
    let to = transport.peers().next().unwrap();
    let until = Instant::now() + time;
    let mut taken = 0;
    while Instant::now() < until {
        while transport.has_room(to, SHARD, Lane::Data) {
            transport.send(to, SHARD, Lane::Data, frame(frame_bytes)).unwrap();
        }
        if let Ok(Event::Room { bytes, .. }) =
            tokio::time::timeout_at(until, transport.event()).await
        {
            taken += bytes;
        }
    }
    taken
}

/// Takes frames until nothing more comes, and gives each with its time of arrival.
async fn collect(mut transport: DcTransport) -> Vec<(Instant, Incoming)> {
    let mut frames = Vec::new();
    loop {
        match transport.event().await {
            Event::Frame(incoming) => frames.push((Instant::now(), incoming)),
            Event::Left { .. } => break,
            _ => {}
        }
    }
    frames
}

fn link(wan: &EmulatedWan, from: u16, to: u16) -> LinkTraffic {
    wan.meter().link(DcId(from), DcId(to))
}

#[tokio::test(start_paused = true)]
async fn a_full_data_lane_uses_the_link_up_to_its_headers() {
    for (mbit, rtt_ms, loss, least) in [
        (50.0, 60, 0.0, 0.95),
        (50.0, 200, 0.0, 0.945),
        (5.0, 60, 0.0, 0.94),
        (50.0, 60, 1e-3, 0.93),
        // Ten times what one stream can have under way.
        (400.0, 200, 0.0, 0.945),
    ] {
        let (wan, mut oregon, tokyo) = pair(mbit, rtt_ms, loss).await;
        let receiver = tokio::spawn(collect(tokyo));
        let bandwidth = Bandwidth::from_mbit(mbit);
        let frame_bytes = quantum(bandwidth).0 as usize;
        let (started, before) = (Instant::now(), link(&wan, 0, 1));
        saturate(&mut oregon, frame_bytes, Duration::from_secs(10)).await;
        let elapsed = started.elapsed();
        let after = link(&wan, 0, 1);
        wan.close().await.unwrap();
        let frames = receiver.await.unwrap();
        let until = started + elapsed + Duration::from_millis(rtt_ms / 2);
        let received = frames.iter().filter(|(at, _)| *at <= until).count() * frame_bytes;
        let share = received as f64 / bandwidth.bytes_in(elapsed);
        let packets = after.stats.carried.packets - before.stats.carried.packets;
        let drops = after.stats.overflowed.packets as f64 / packets as f64;
        println!(
            "{mbit} Mbit/s {rtt_ms} ms loss {loss}: payload share {share:.4}, drops {drops:.5}"
        );
        assert!((least..0.9585).contains(&share), "{share}");
        assert!(drops < 0.01, "{drops}");
    }
}

#[tokio::test(start_paused = true)]
async fn control_overtakes_saturated_data() {
    for (mbit, rtt_ms) in [(50.0, 60), (15.0, 60), (15.0, 200), (2.0, 100)] {
        let (wan, mut oregon, tokyo) = pair(mbit, rtt_ms, 0.0).await;
        let receiver = tokio::spawn(collect(tokyo));
        let bandwidth = Bandwidth::from_mbit(mbit);
        // One frame far longer than a quantum, as BSP sends them.
        let data = frame(5 << 20);
        oregon.send(DcId(1), SHARD, Lane::Data, data).unwrap();
        let mut sent = Vec::new();
        for _ in 0..20 {
            saturate(&mut oregon, 5 << 20, Duration::from_millis(37)).await;
            sent.push(Instant::now());
            oregon.send(DcId(1), SHARD, Lane::Control, frame(100)).unwrap();
        }
        let traffic = link(&wan, 0, 1);
        wan.close().await.ok();
        let frames = receiver.await.unwrap();
        let control = frames.iter().filter(|(_, frame)| frame.lane == Lane::Control);
        let waits: Vec<Duration> =
            sent.iter().zip(control).map(|(sent, (arrived, _))| *arrived - *sent).collect();
        assert_eq!(waits.len(), 20);
        let worst = waits.iter().max().unwrap();
        let quantum = bandwidth.time_for(quantum(bandwidth).0);
        let bound = Duration::from_millis(rtt_ms / 2) + quantum * 2;
        println!("{mbit} Mbit/s {rtt_ms} ms: control took at most {worst:?}, bound {bound:?}");
        assert!(*worst <= bound, "{worst:?} {bound:?} {traffic:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_on_an_idle_link_takes_half_a_round_trip_and_its_own_bytes() {
    let (wan, mut oregon, mut tokyo) = pair(50.0, 60, 0.0).await;
    for bytes in [0, 100, 10_000, 100_000, 1_000_000] {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let sent = Instant::now();
        oregon.send(DcId(1), SHARD, Lane::Data, frame(bytes)).unwrap();
        loop {
            if let Event::Frame(incoming) = tokyo.event().await {
                assert_eq!(incoming.frame.len(), bytes);
                assert_eq!((incoming.from, incoming.lane), (DcId(0), Lane::Data));
                break;
            }
        }
        while !matches!(oregon.event().await, Event::Room { .. }) {}
        let took = sent.elapsed();
        let ideal = Duration::from_millis(30)
            + Bandwidth::from_mbit(50.0).time_for((bytes as f64 / 0.958) as u64);
        let ratio = took.as_secs_f64() / ideal.as_secs_f64();
        println!("{bytes} bytes took {took:?}, ideal {ideal:?}");
        assert!((0.99..1.15).contains(&ratio), "{bytes} bytes: {took:?} for {ideal:?}");
    }
    wan.close().await.unwrap();
}

/// In QUIC nothing can be merged with what follows it, so it must not hold what the link cannot take yet,
/// neither at the start of a burst nor where the link turns out slower than the topology says.
#[tokio::test(start_paused = true)]
async fn little_data_waits_in_quic() {
    let (wan, mut oregon, tokyo) = pair(50.0, 200, 0.0).await;
    let receiver = tokio::spawn(collect(tokyo));
    let bandwidth = Bandwidth::from_mbit(50.0);
    let quantum = quantum(bandwidth).0;
    let before = link(&wan, 0, 1).stats;
    for round in 0..100 {
        if round == 20 {
            wan.network().set_bandwidth(DcId(0), DcId(1), Bandwidth::from_mbit(10.0));
        }
        saturate(&mut oregon, 20_000, Duration::from_millis(50)).await;
        let traffic = link(&wan, 0, 1);
        let offered = traffic.stats.carried.bytes + traffic.stats.overflowed.bytes;
        let sent = offered - before.carried.bytes;
        let unsent = traffic.data.payload_bytes.saturating_sub(sent);
        assert!(unsent <= quantum, "{unsent} bytes wait in QUIC in round {round}");
    }
    wan.close().await.unwrap();
    receiver.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn room_reports_the_rate_of_the_link() {
    let (wan, mut oregon, tokyo) = pair(20.0, 80, 0.0).await;
    let receiver = tokio::spawn(collect(tokyo));
    let (mut bytes_total, mut busy_total) = (0, Duration::ZERO);
    for _ in 0..100 {
        oregon.send(DcId(1), SHARD, Lane::Data, frame(50_000)).unwrap();
        loop {
            if let Event::Room { bytes, busy, .. } = oregon.event().await {
                bytes_total += bytes;
                busy_total += busy;
                break;
            }
        }
    }
    let rate = bytes_total as f64 / busy_total.as_secs_f64();
    let share = rate / Bandwidth::from_mbit(20.0).bytes_per_second();
    println!("reported rate {share:.4} of the link");
    assert!((0.90..0.96).contains(&share), "{share}");
    wan.close().await.unwrap();
    receiver.await.unwrap();
}

/// The simulated driver's arithmetic against QUIC itself: the same frames, whenever their lane has room.
#[tokio::test(start_paused = true)]
async fn frames_cross_in_the_time_that_the_simulated_transport_says() {
    for (mbit, rtt_ms, loss, bytes, count) in [
        (50.0, 60, 0.0, 100_000, 200),
        (15.0, 200, 0.0, 3_000, 500),
        (115.0, 20, 0.0, 256 << 10, 100),
        (2.0, 150, 0.0, 5_000_000, 2),
        (50.0, 60, 1e-3, 100_000, 400),
        (15.0, 150, 1e-2, 20_000, 300),
    ] {
        let (wan, mut oregon, tokyo) = pair(mbit, rtt_ms, loss).await;
        let receiver = tokio::spawn(collect(tokyo));
        let started = Instant::now();
        for _ in 0..count {
            oregon.send(DcId(1), SHARD, Lane::Data, frame(bytes)).unwrap();
            while !matches!(oregon.event().await, Event::Room { .. }) {}
        }
        wan.close().await.unwrap();
        let frames = receiver.await.unwrap();
        let took = frames.last().unwrap().0 - started;

        let config = LinkConfig {
            bandwidth: Bandwidth::from_mbit(mbit),
            delay: Duration::from_millis(rtt_ms) / 2,
            queue: queue(Bandwidth::from_mbit(mbit)),
            loss,
        };
        let mut transport = Transport::new(config, Seed(7));
        let arrivals: Vec<_> = (0..count)
            .map(|_| transport.send_data(transport.room_at(), bytes as u64).arrives)
            .collect();
        let simulated = arrivals.last().unwrap().as_secs_f64();
        let ratio = took.as_secs_f64() / simulated;
        println!(
            "{mbit} Mbit/s {rtt_ms} ms loss {loss}, {count} × {bytes} B: {took:?}, simulated {simulated:.3} s, ratio {ratio:.4}"
        );
        let most = if loss < 1e-2 { 1.02 } else { 1.15 };
        assert!((0.98..most).contains(&ratio), "{ratio}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_real_time_nothing_is_faster_than_its_link() {
    let (wan, mut oregon, mut tokyo) = pair(50.0, 60, 0.0).await;
    let sent = Instant::now();
    let bytes = 500_000;
    oregon.send(DcId(1), SHARD, Lane::Data, frame(bytes)).unwrap();
    while !matches!(tokyo.event().await, Event::Frame(_)) {}
    tokyo.send(DcId(0), SHARD, Lane::Control, frame(1)).unwrap();
    while !matches!(oregon.event().await, Event::Frame(_)) {}
    let least = Duration::from_millis(60) + Bandwidth::from_mbit(50.0).time_for(bytes as u64);
    println!("there and back took {:?}, at least {least:?}", sent.elapsed());
    assert!(sent.elapsed() >= least);
    wan.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn both_directions_are_full_at_once_even_where_one_is_much_slower() {
    let mut topology = topology(&["oregon", "tokyo"], 50.0, 100, 0.0);
    topology.links[1].bandwidth = Bandwidth::from_mbit(5.0);
    topology.links[1].queue = queue(topology.links[1].bandwidth);
    let (wan, transports) = EmulatedWan::start(&topology, 1, Seed(5)).await.unwrap();
    let time = Duration::from_secs(10);
    let directions = transports.into_iter().zip(&topology.links).map(|(transport, link)| {
        let bytes = quantum(link.bandwidth).0 as usize;
        tokio::spawn(saturate_and_take(transport, bytes, time))
    });
    let mut received = Vec::new();
    for direction in directions.collect::<Vec<_>>() {
        received.push(direction.await.unwrap());
    }
    for (received, link) in received.into_iter().rev().zip(&topology.links) {
        let share = received as f64 / link.bandwidth.bytes_in(time);
        println!("{} with the other direction full: payload share {share:.4}", link.bandwidth);
        assert!((0.85..0.96).contains(&share), "{share}");
    }
    wan.close().await.unwrap();
}

/// Keeps the data lane full for a while, and gives the bytes that came from the peer meanwhile.
async fn saturate_and_take(mut transport: DcTransport, bytes: usize, time: Duration) -> usize {
    let to = transport.peers().next().unwrap();
    let until = Instant::now() + time;
    let mut received = 0;
    loop {
        if transport.has_room(to, SHARD, Lane::Data) {
            transport.send(to, SHARD, Lane::Data, frame(bytes)).unwrap();
        }
        match tokio::time::timeout_at(until, transport.event()).await {
            Ok(Event::Frame(incoming)) => received += incoming.frame.len(),
            Ok(_) => {}
            Err(_) => return received,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_scaled_down_a_thousand_times_still_works() {
    let topology = topology(&["oregon", "tokyo"], 0.05, 200, 0.0);
    let (wan, transports) = EmulatedWan::start(&topology, 1, Seed(5)).await.unwrap();
    let [mut oregon, tokyo] = transports.try_into().ok().unwrap();
    let receiver = tokio::spawn(collect(tokyo));
    let started = Instant::now();
    saturate(&mut oregon, 4_096, Duration::from_secs(300)).await;
    let elapsed = started.elapsed();
    wan.close().await.unwrap();
    let frames = receiver.await.unwrap();
    let frames = frames.iter().filter(|(at, _)| *at <= started + elapsed).count();
    let share = (frames * 4_096) as f64 / Bandwidth::from_mbit(0.05).bytes_in(elapsed);
    println!("50 kbit/s: payload share {share:.4}");
    assert!((0.9..0.97).contains(&share), "{share}");
}

#[tokio::test(start_paused = true)]
async fn three_data_centers_exchange_frames_of_every_shard_and_lane() {
    let topology = topology(&["oregon", "tokyo", "sao paulo"], 20.0, 80, 1e-3);
    let shards = 2;
    let (wan, transports) = EmulatedWan::start(&topology, shards, Seed(3)).await.unwrap();
    let mut tasks = Vec::new();
    for transport in transports {
        tasks.push(tokio::spawn(exchange(transport, shards, 40)));
    }
    for task in tasks {
        let received = task.await.unwrap();
        assert_eq!(received.len(), 2 * shards * 2, "two peers, two shards, two lanes");
        for (from, frames) in received {
            let expected: Vec<u8> = (0..40).collect();
            assert_eq!(frames, expected, "every frame of {from:?} once and in order");
        }
    }
    for traffic in wan.meter().traffic() {
        assert_eq!(traffic.control.frames, 80);
        assert_eq!(traffic.data.payload_bytes, 80 * 5_000);
        assert!(traffic.stats.carried.bytes > traffic.data.wire_bytes);
    }
    wan.close().await.unwrap();
}

type Origin = (DcId, ShardId, Lane);

/// Sends `count` numbered frames on every lane, and takes as many from every peer.
async fn exchange(
    mut transport: DcTransport,
    shards: usize,
    count: u8,
) -> BTreeMap<Origin, Vec<u8>> {
    let peers: Vec<DcId> = transport.peers().collect();
    let mut lanes = Vec::new();
    for &to in &peers {
        for shard in (0..shards as u16).map(ShardId) {
            lanes.extend([(to, shard, Lane::Control, 0), (to, shard, Lane::Data, 0)]);
        }
    }
    let mut received: BTreeMap<Origin, Vec<u8>> = BTreeMap::new();
    let expected = lanes.len() * usize::from(count);
    let (mut taken, mut accepted) = (0, 0);
    while taken < expected || accepted < expected {
        for (to, shard, lane, next) in &mut lanes {
            while *next < count && transport.has_room(*to, *shard, *lane) {
                let bytes = if *lane == Lane::Control { 10 } else { 5_000 };
                transport.send(*to, *shard, *lane, vec![*next; bytes].into()).unwrap();
                *next += 1;
            }
        }
        match transport.event().await {
            Event::Frame(incoming) => {
                let origin = (incoming.from, incoming.shard, incoming.lane);
                received.entry(origin).or_default().push(incoming.frame[0]);
                taken += 1;
            }
            Event::Room { .. } => accepted += 1,
            other => panic!("{other:?}"),
        }
    }
    received
}

/// Sydney's certificate in the hands of one of two others: of oregon, which connects, and of tokyo, which accepts.
#[tokio::test(start_paused = true)]
async fn a_certificate_of_another_data_center_is_refused() {
    let three = topology(&["oregon", "tokyo", "sydney"], 50.0, 60, 0.0);
    let two = topology(&["oregon", "tokyo"], 50.0, 60, 0.0);
    for (impostor, expected) in [(0, "tokyo refused oregon: "), (1, "oregon refused tokyo: ")] {
        let mut certificates = Certificates::for_data_centers(&three).unwrap();
        certificates.identities.swap(impostor, 2);
        let started = EmulatedWan::start_with(&two, 1, Seed(1), &certificates).await;
        let error = started.err().expect("an impostor is refused");
        assert!(matches!(error, TransportError::WrongCertificate { .. }), "{error}");
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(error.to_string().contains("gaia://test/sydney/server/0"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_of_another_run_is_refused() {
    let topology = topology(&["oregon", "tokyo"], 50.0, 60, 0.0);
    let mut certificates = Certificates::for_data_centers(&topology).unwrap();
    let mut others = Certificates::for_data_centers(&topology).unwrap();
    std::mem::swap(&mut certificates.identities[0], &mut others.identities[0]);
    let started = EmulatedWan::start_with(&topology, 1, Seed(1), &certificates).await;
    let error = started.err().expect("a stranger is refused");
    println!("{error}");
    assert!(error.to_string().contains("oregon") && error.to_string().contains("tokyo"), "{error}");
}

/// Each kind in the hands of the end that connects and of the end that accepts. Whose error comes first is the error.
#[tokio::test(start_paused = true)]
async fn every_wrong_certificate_is_refused_whoever_connects() {
    let two = topology(&["oregon", "tokyo"], 50.0, 60, 0.0);
    let days = |days: i64| {
        let seconds = UnixTime::now().as_secs().checked_add_signed(days * 86_400).unwrap();
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    };
    let from_to = |from, to| Validity { not_before: days(from), not_after: days(to) };
    let mut authority = Authority::create("test", days(-365)).unwrap();
    let mut namesake = Authority::create("test", days(-365)).unwrap();
    let mut other = Authority::create("other", days(-365)).unwrap();
    for (impostor, dc) in ["oregon", "tokyo"].into_iter().enumerate() {
        let server = Identity::server("test", dc, 0);
        let removed = authority.issue(&server, from_to(-1, 1)).unwrap();
        authority.remove(&server, UnixTime::now()).unwrap();
        let worker = Identity::worker("test", dc, 0);
        let elsewhere = Identity::server("other", dc, 0);
        let cases = [
            (authority.issue(&server, from_to(-9, -2)).unwrap(), "expired at"),
            (authority.issue(&server, from_to(2, 9)).unwrap(), "is valid from"),
            (authority.issue(&worker, from_to(-1, 1)).unwrap(), "expected a server"),
            (removed, "has been revoked"),
            (namesake.issue(&server, from_to(-1, 1)).unwrap(), "is signed by an unknown authority"),
            (other.issue(&elsewhere, from_to(-1, 1)).unwrap(), "is signed by an unknown authority"),
        ];
        let honest = ["oregon", "tokyo"]
            .map(|dc| authority.issue(&Identity::server("test", dc, 0), from_to(-1, 1)).unwrap());
        for (wrong, says) in cases {
            let mut identities = honest.to_vec();
            identities[impostor] = wrong;
            let certificates = Certificates { identities };
            let started = EmulatedWan::start_with(&two, 1, Seed(1), &certificates).await;
            let error = started.err().expect("an impostor is refused");
            assert!(matches!(error, TransportError::WrongCertificate { .. }), "{error}");
            assert!(error.to_string().contains(says), "should say {says:?}: {error}");
            assert!(!error.to_string().contains("OtherError"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_severed_link_ends_in_one_error_that_names_both_ends() {
    let (wan, mut oregon, mut tokyo) = pair(50.0, 60, 0.0).await;
    wan.network().sever(DcId(0), DcId(1), true);
    oregon.send(DcId(1), SHARD, Lane::Data, frame(100_000)).unwrap();
    let severed = Instant::now();
    for (transport, at, peer) in [(&mut oregon, "oregon", "tokyo"), (&mut tokyo, "tokyo", "oregon")]
    {
        let lost = loop {
            match transport.event().await {
                Event::Lost { error, .. } => break error,
                Event::Room { .. } | Event::Silent { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        println!("{lost}");
        assert_eq!(
            lost,
            TransportError::ConnectionLost {
                at: at.into(),
                peer: peer.into(),
                reason: "no packet has arrived".into()
            }
        );
        let to = transport.peers().next().unwrap();
        assert!(!transport.has_room(to, SHARD, Lane::Data));
        assert_eq!(transport.send(to, SHARD, Lane::Control, frame(1)), Err(lost));
    }
    assert!(severed.elapsed() < Duration::from_secs(7));
    assert!(link(&wan, 0, 1).severed_packets > 0);
    assert_eq!(wan.close().await, Err(TransportError::Unfinished { connections: 2 }));
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_a_lane_cannot_take_is_refused() {
    let (wan, mut oregon, _tokyo) = pair(50.0, 60, 0.0).await;
    let (to, data) = (DcId(1), Lane::Data);
    let long = frame((4 << 20) + 1);
    let refused = oregon.send(to, SHARD, Lane::Control, long.clone());
    assert!(matches!(refused, Err(TransportError::FrameTooLong { .. })), "{refused:?}");
    oregon.send(to, SHARD, data, long).unwrap();
    let refused = oregon.send(to, SHARD, data, frame(1));
    assert_eq!(refused, Err(TransportError::NoRoom { to, shard: SHARD, lane: data }));
    let shard = ShardId(1);
    let refused = oregon.send(to, shard, data, frame(1));
    assert_eq!(refused, Err(TransportError::NoSuchLane { to, shard, shards: 1 }));
    let refused = oregon.send(DcId(0), SHARD, data, frame(1));
    assert!(matches!(refused, Err(TransportError::NoSuchLane { .. })), "{refused:?}");
    drop(wan);
}

#[tokio::test(start_paused = true)]
async fn frames_in_hand_arrive_before_the_goodbye() {
    let (wan, mut oregon, tokyo) = pair(5.0, 100, 0.01).await;
    let receiver = tokio::spawn(collect(tokyo));
    oregon.send(DcId(1), SHARD, Lane::Data, frame(1 << 20)).unwrap();
    oregon.send(DcId(1), SHARD, Lane::Control, frame(9)).unwrap();
    wan.close().await.unwrap();
    let frames = receiver.await.unwrap();
    let sizes: Vec<usize> = frames.iter().map(|(_, incoming)| incoming.frame.len()).collect();
    assert_eq!(sizes, [9, 1 << 20]);
}

#[tokio::test(start_paused = true)]
async fn frames_that_nobody_has_taken_yet_come_before_the_news_that_a_peer_has_left() {
    let (wan, mut oregon, tokyo) = pair(50.0, 60, 0.0).await;
    for _ in 0..40 {
        oregon.send(DcId(1), SHARD, Lane::Data, frame(10_000)).unwrap();
        while !matches!(oregon.event().await, Event::Room { .. }) {}
    }
    let closing = tokio::spawn(wan.close());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(collect(tokyo).await.len(), 40);
    closing.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_does_not_take_frames_holds_the_sender_back() {
    let (wan, mut oregon, mut tokyo) = pair(50.0, 60, 0.0).await;
    let taken = saturate(&mut oregon, 100_000, Duration::from_secs(20)).await;
    assert!(taken < 4_000_000, "{taken} bytes were taken though nobody reads");
    let mut received = 0;
    while received < taken {
        let event = tokio::time::timeout(Duration::from_secs(5), tokyo.event()).await;
        if let Event::Frame(incoming) = event.expect("frames flow again") {
            received += incoming.frame.len() as u64;
        }
    }
    drop(wan);
}

#[test]
fn nothing_is_left_behind() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.unwrap();
    runtime.block_on(async {
        let (wan, oregon, tokyo) = pair(50.0, 60, 0.0).await;
        let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert!(alive() > 0);
        wan.close().await.unwrap();
        drop((oregon, tokyo));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(alive(), 0);
    });
}

#[test]
fn a_seed_repeats_every_time_and_byte() {
    let run = || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let started = Instant::now();
            let (wan, mut oregon, tokyo) = pair(20.0, 80, 5e-3).await;
            let receiver = tokio::spawn(collect(tokyo));
            saturate(&mut oregon, 30_000, Duration::from_secs(2)).await;
            let traffic = wan.meter().traffic();
            wan.close().await.unwrap();
            let frames = receiver.await.unwrap();
            let arrived: Vec<Duration> = frames.iter().map(|(at, _)| *at - started).collect();
            (arrived, traffic)
        })
    };
    let (first, second) = (run(), run());
    assert!(first.1[0].stats.lost.packets > 0);
    assert_eq!(first, second);
}
