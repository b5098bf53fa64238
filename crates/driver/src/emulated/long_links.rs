//! Connections as the real driver sets them up, over links that are long, fat, slow, lossy or bloated.
#![allow(clippy::print_stdout, reason = "the shares are the result")]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::wire::{Joined, Like, OREGON, SHARD, TOKYO, Wire};
use gaia_core::node::Lane;
use gaia_core::types::Bandwidth;
use gaia_quic::{Event, TrackedFactory, Windows};

/// Sends one frame and returns how long it took. No connection may fail meanwhile.
async fn one_frame(joined: &mut Joined, bytes: usize) -> Duration {
    let sent = Instant::now();
    joined.oregon.send(TOKYO, SHARD, Lane::Data, vec![1; bytes].into()).unwrap();
    loop {
        tokio::select! {
            event = joined.oregon.event() => {
                assert!(matches!(event, Event::Room { .. } | Event::Silent { .. }), "{event:?}");
            }
            event = joined.tokyo.event() => match event {
                Event::Silent { .. } => {}
                Event::Frame(incoming) => {
                    assert_eq!(incoming.frame.len(), bytes);
                    return sent.elapsed();
                }
                other => panic!("{other:?}"),
            },
        }
    }
}

/// One shard's updates at 400 Mbit/s over 200 ms: one stream with a window of 2.8 MB carries no more than that in a
/// round trip.
#[tokio::test(start_paused = true)]
async fn stripes_fill_a_long_fat_link_that_one_stream_cannot() {
    let time = Duration::from_secs(4);
    for (dedicated, loss) in [(true, 0.0), (true, 1e-3), (false, 0.0)] {
        let like = Like { mbit: 400.0, dedicated, loss, ..Like::default() };
        let mut wire = Wire::new(like);
        let stripes = wire.windows.stripes;
        let striped = wire.share(time).await;
        wire = Wire::new(like);
        wire.windows.stripes = 1;
        wire.windows.stream = 2_800_000;
        let whole = wire.share(time).await;
        println!(
            "dedicated {dedicated}, loss {loss}: payload share {striped:.3} on {stripes} streams, {whole:.3} on one"
        );
        let least = if dedicated { 0.9 } else { 0.8 };
        assert!((least..0.9585).contains(&striped), "{striped}");
        assert!(whole < 0.3, "{whole}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overshoot_into_any_queue_leaves_the_connection_whole() {
    for (mbit, queue, loss) in [(50.0, 4.0, 0.0), (300.0, 1.0, 0.0), (300.0, 0.25, 1e-3)] {
        for dedicated in [false, true] {
            let wire = Wire::new(Like { mbit, queue, loss, dedicated, ..Like::default() });
            let share = wire.share(Duration::from_secs(4)).await;
            println!(
                "{mbit} Mbit/s, queue {queue}, loss {loss}, dedicated {dedicated}: {share:.3}"
            );
            assert!(share > 0.05, "{share}");
        }
    }
}

/// The effect of a window that is too large for a stream: quinn ends the connection, and the run with it.
#[tokio::test(start_paused = true)]
async fn only_a_stream_with_too_large_a_window_dies_where_a_link_turns_slow() {
    let large = Windows { stream: 64 << 20, data: 64 << 20, stripes: 1 };
    for windows in [None, Some(large)] {
        let mut wire = Wire::new(Like { mbit: 100.0, ..Like::default() });
        wire.windows = windows.unwrap_or(wire.windows);
        let (share, ()) = tokio::join!(wire.try_share(Duration::from_secs(6)), async {
            sleep(Duration::from_secs(1)).await;
            wire.network.set_bandwidth(OREGON, TOKYO, Bandwidth::from_mbit(25.0));
        });
        match (windows, share) {
            (None, Ok(share)) => assert!(share > 0.25, "{share}"),
            (Some(_), Err(error)) => assert!(error.to_string().contains("too many gaps")),
            (windows, share) => panic!("{windows:?}: {share:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cubic_need_not_search_for_what_the_topology_says() {
    let time = Duration::from_secs(1);
    let known = Wire::new(Like::default()).share(time).await;
    let mut wire = Wire::new(Like::default());
    wire.is_known = false;
    let searched = wire.share(time).await;
    println!("payload share of the first second: {known:.3}, by slow start {searched:.3}");
    assert!(known > 0.85, "{known}");
    assert!(searched < 0.5, "{searched}");
}

/// A provisioned window does not mistake random loss for congestion, as Cubic does.
#[tokio::test(start_paused = true)]
async fn a_dedicated_link_is_full_in_spite_of_loss() {
    let time = Duration::from_secs(10);
    let lossy = Like { loss: 1e-3, ..Like::default() };
    let dedicated = Wire::new(Like { dedicated: true, ..lossy }).share(time).await;
    let shared = Wire::new(lossy).share(time).await;
    println!("payload share with a packet in a thousand lost: {dedicated:.3}, Cubic {shared:.3}");
    assert!(dedicated > 0.9, "{dedicated}");
    assert!(shared < 0.7, "{shared}");
}

#[tokio::test(start_paused = true)]
async fn a_transfer_of_minutes_over_a_slow_link_is_life() {
    for (dedicated, loss, bytes, most) in [
        (false, 0.0, 20 << 20, 1.1),
        (true, 0.0, 20 << 20, 1.1),
        (false, 0.3, 500 << 10, 100.0),
        (true, 0.3, 4 << 20, 100.0),
    ] {
        let wire = Wire::new(Like { mbit: 1.0, loss, dedicated, ..Like::default() });
        let mut joined = wire.join().await;
        let took = one_frame(&mut joined, bytes).await;
        println!("1 Mbit/s, loss {loss}, dedicated {dedicated}: {bytes} bytes in {took:?}");
        assert!(took > Duration::from_secs(60), "{took:?}");
        let ideal = wire.link().bandwidth.time_for((bytes as f64 / 0.958) as u64);
        assert!(took < ideal.mul_f64(most), "{took:?} for {ideal:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_with_nothing_to_say_is_alive_though_packets_are_lost() {
    let mut joined = 0;
    for seed in 0..8 {
        let wire = Wire::new(Like { loss: 0.3, seed, ..Like::default() });
        let Some(mut pair) = wire.try_join().await else { continue };
        joined += 1;
        sleep(Duration::from_secs(600)).await;
        one_frame(&mut pair, 10).await;
    }
    assert!(joined >= 4, "most handshakes get through: {joined} of 8");
}

/// Another connection fills a queue of seconds, and keep-alives wait behind it.
#[tokio::test(start_paused = true)]
async fn keep_alives_that_come_seconds_late_are_life() {
    let wire = Wire::new(Like { mbit: 10.0, queue: 10.0, ..Like::default() });
    let mut idle = wire.join().await;
    let mut busy = wire.join().await;
    wire.network.set_bandwidth(OREGON, TOKYO, Bandwidth::from_mbit(0.6));
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        let whole = tokio::spawn(async move {
            let took = one_frame(&mut busy, 2 << 20).await;
            (busy, took)
        });
        sleep(Duration::from_secs(15)).await;
        slowest = slowest.max(one_frame(&mut idle, 10).await);
        busy = whole.await.unwrap().0;
    }
    println!("a frame of ten bytes took {slowest:?} at worst");
    assert!(slowest > Duration::from_secs(2), "the queue holds seconds: {slowest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_peer_is_noticed_within_seconds_whatever_is_under_way() {
    for bytes in [0, 4 << 20] {
        let wire = Wire::new(Like::default());
        let mut joined = wire.join().await;
        joined.oregon.send(TOKYO, SHARD, Lane::Data, vec![1; bytes].into()).unwrap();
        sleep(Duration::from_millis(350)).await;
        wire.network.sever(OREGON, TOKYO, true);
        let severed = Instant::now();
        for transport in [&mut joined.oregon, &mut joined.tokyo] {
            while !matches!(transport.event().await, Event::Lost { .. }) {}
        }
        println!("with {bytes} bytes under way noticed after {:?}", severed.elapsed());
        assert!(severed.elapsed() < Duration::from_secs(7), "{:?}", severed.elapsed());
    }
}

/// The owner hears of a silence before the connection is given up, and no frame is lost with it.
#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_suspected_within_two_seconds_and_heard_again_on_the_same_connection() {
    let wire = Wire::new(Like::default());
    let mut joined = wire.join().await;
    sleep(Duration::from_secs(60)).await;
    for transport in [&mut joined.oregon, &mut joined.tokyo] {
        let event = timeout(Duration::from_secs(1), transport.event()).await;
        assert!(event.is_err(), "an idle peer is not silent: {event:?}");
    }
    wire.network.sever(OREGON, TOKYO, true);
    let severed = Instant::now();
    for transport in [&mut joined.oregon, &mut joined.tokyo] {
        let event = transport.event().await;
        assert!(matches!(event, Event::Silent { .. }), "{event:?}");
    }
    println!("suspected after {:?}", severed.elapsed());
    assert!(severed.elapsed() < Duration::from_secs(2), "{:?}", severed.elapsed());

    joined.oregon.send(TOKYO, SHARD, Lane::Data, vec![2; 10].into()).unwrap();
    sleep(Duration::from_secs(1)).await;
    wire.network.sever(OREGON, TOKYO, false);
    let arrived = loop {
        match joined.tokyo.event().await {
            Event::Silent { .. } => {}
            Event::Frame(incoming) => break incoming.frame,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(arrived, [2; 10][..]);
    while !matches!(joined.oregon.event().await, Event::Room { .. }) {}
    one_frame(&mut joined, 10).await;
}

/// Who still receives learns from the other end that the link is dead, and not by its own silence only after that.
#[tokio::test(start_paused = true)]
async fn a_link_that_is_dead_in_one_direction_is_noticed_at_both_ends_at_once() {
    let wire = Wire::new(Like::default());
    let mut joined = wire.join().await;
    sleep(Duration::from_secs(1)).await;
    wire.network.sever_one_way(OREGON, TOKYO, true);
    let severed = Instant::now();
    for transport in [&mut joined.tokyo, &mut joined.oregon] {
        while !matches!(transport.event().await, Event::Lost { .. }) {}
        println!("noticed after {:?}", severed.elapsed());
        assert!(severed.elapsed() < Duration::from_secs(7), "{:?}", severed.elapsed());
    }
}

/// An owner that takes no frames receives no more than its windows and its inbox hold.
#[tokio::test(start_paused = true)]
async fn a_flood_that_nobody_takes_is_held_back() {
    let wire = Wire::new(Like::default());
    for (lane, bytes, most) in [
        // The windows of both ends and the longest frame, but not the thousand frames that the inbox may have.
        (Lane::Control, 1 << 20, 12 << 20),
        (Lane::Control, 100, 12 << 20),
        (Lane::Data, 1 << 20, 14 << 20),
        // Fewer long frames than the inbox may have: no more bytes than the longest frame.
        (Lane::Data, 20 << 20, 110 << 20),
    ] {
        let Joined { mut oregon, mut tokyo, _carriers } = wire.join().await;
        let until = Instant::now() + Duration::from_secs(60);
        let (mut sent, mut frames) = (0, 0);
        while Instant::now() < until {
            while oregon.has_room(TOKYO, SHARD, lane) {
                oregon.send(TOKYO, SHARD, lane, vec![frames as u8; bytes].into()).unwrap();
                sent += bytes;
                frames += 1;
            }
            let event = timeout_at(until, oregon.event()).await;
            assert!(!matches!(event, Ok(Event::Lost { .. })), "{event:?}");
        }
        println!("{frames} frames of {bytes} bytes were taken in hand");
        assert!(sent < most, "{sent} bytes of {lane:?} though nobody takes them");
        for frame in 0..frames {
            let Event::Frame(incoming) = tokyo.event().await else { panic!("a frame is due") };
            assert_eq!(incoming.frame[0], frame as u8, "every one, in order");
        }
    }
}

/// An attacker could replay early data, and resumption would skip the certificates.
#[tokio::test(start_paused = true)]
async fn no_connection_begins_with_early_data() {
    let wire = Wire::new(Like::default());
    for _ in 0..2 {
        let factories = [(); 2].map(|()| Arc::<TrackedFactory>::default());
        let connecting = wire.connecting(&factories[0]).into_0rtt();
        let connecting = connecting.err().expect("nothing is known of the peer before it answers");
        let (one, other) = tokio::join!(connecting, async {
            let accepting = wire.accepting(&factories[1]).await;
            accepting.await
        });
        one.unwrap();
        other.unwrap();
        // Enough time for a session ticket to arrive.
        sleep(Duration::from_secs(1)).await;
    }
}
