//! The invariants of a directed link, for packets and for frames.

use std::time::Duration;

use gaia_core::link::{
    DropReason, Fate, FrameFate, Link, LinkConfig, PAYLOAD_SHARE_MAX, Train, Transport, quantum,
};
use gaia_core::types::{Bandwidth, ByteSize, Instant, Seed};
use proptest::prelude::*;

fn config(mbit: f64, delay_ms: u64, queue: u64, loss: f64) -> LinkConfig {
    LinkConfig {
        bandwidth: Bandwidth::from_mbit(mbit),
        delay: Duration::from_millis(delay_ms),
        queue: ByteSize(queue),
        loss,
    }
}

fn after_micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

/// A packet offered: microseconds since the one before, and its size.
fn packets() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0u64..2_000, 1u64..1_500), 1..200)
}

fn configs() -> impl Strategy<Value = LinkConfig> {
    (0.1f64..1_000.0, 0u64..300, 1_500u64..200_000, prop_oneof![Just(0.0), 0.0f64..0.5])
        .prop_map(|(mbit, delay, queue, loss)| config(mbit, delay, queue, loss))
}

struct Sent {
    now: Instant,
    bytes: u64,
    fate: Fate,
}

fn offer(config: LinkConfig, seed: Seed, packets: &[(u64, u64)]) -> (Link, Vec<Sent>) {
    let mut link = Link::new(config, seed);
    let mut micros = 0;
    let sent = packets
        .iter()
        .map(|&(gap, bytes)| {
            micros += gap;
            let now = after_micros(micros);
            let fate = link.send(now, bytes);
            assert!(
                link.queued(now).0 <= config.queue.0.max(bytes),
                "the queue is within its bound after every packet"
            );
            Sent { now, bytes, fate }
        })
        .collect();
    (link, sent)
}

proptest! {
    #[test]
    fn every_packet_is_delivered_lost_or_overflowed_and_counted_once(
        config in configs(), packets in packets(), seed: u64,
    ) {
        let (link, sent) = offer(config, Seed(seed), &packets);
        let sum = |wanted: &dyn Fn(&Fate) -> bool| -> (u64, u64) {
            let chosen = sent.iter().filter(|sent| wanted(&sent.fate));
            chosen.fold((0, 0), |(n, bytes), sent| (n + 1, bytes + sent.bytes))
        };
        let delivered = sum(&|fate| matches!(fate, Fate::Delivered { .. }));
        let lost = sum(&|fate| *fate == Fate::Dropped { reason: DropReason::Lost });
        let overflowed = sum(&|fate| *fate == Fate::Dropped { reason: DropReason::QueueFull });
        let stats = link.stats();
        prop_assert_eq!((stats.delivered().packets, stats.delivered().bytes), delivered);
        prop_assert_eq!((stats.lost.packets, stats.lost.bytes), lost);
        prop_assert_eq!((stats.overflowed.packets, stats.overflowed.bytes), overflowed);
        let total: u64 = packets.iter().map(|&(_, bytes)| bytes).sum();
        prop_assert_eq!(stats.carried.bytes + stats.overflowed.bytes, total);
    }

    #[test]
    fn packets_leave_in_order_and_never_faster_than_the_bandwidth(
        config in configs(), packets in packets(), seed: u64,
    ) {
        let (_, sent) = offer(config, Seed(seed), &packets);
        let delivered: Vec<(Instant, u64)> = sent.iter().filter_map(|sent| match sent.fate {
            Fate::Delivered { departs, .. } => Some((departs, sent.bytes)),
            Fate::Dropped { .. } => None,
        }).collect();
        for (first, &(from, _)) in delivered.iter().enumerate() {
            let mut bytes = 0;
            for &(departs, size) in &delivered[first + 1..] {
                prop_assert!(departs > from, "first in, first out");
                bytes += size;
                prop_assert!(config.serialisation(bytes) <= departs.since(from) + ROUNDING);
            }
        }
    }

    #[test]
    fn no_packet_arrives_before_its_own_bytes_and_the_path_allow(
        config in configs(), packets in packets(), seed: u64,
    ) {
        let (_, sent) = offer(config, Seed(seed), &packets);
        for packet in sent {
            if let Fate::Delivered { departs, arrives } = packet.fate {
                prop_assert_eq!(arrives, departs + config.delay);
                prop_assert!(departs.since(packet.now) >= config.serialisation(packet.bytes));
                let most = config.serialisation(config.queue.0 + packet.bytes);
                prop_assert!(departs.since(packet.now) <= most + ROUNDING);
            }
        }
    }

    #[test]
    fn a_seed_repeats_every_fate(config in configs(), packets in packets(), seed: u64) {
        let fates = |(link, sent): (Link, Vec<Sent>)| {
            (*link.stats(), sent.iter().map(|sent| sent.fate).collect::<Vec<_>>())
        };
        prop_assert_eq!(
            fates(offer(config, Seed(seed), &packets)),
            fates(offer(config, Seed(seed), &packets))
        );
    }

    #[test]
    fn frames_keep_the_order_of_their_lane_and_the_link_works_for_every_byte(
        config in configs(), frames in frames(), seed: u64,
    ) {
        let (transport, sent) = exchange(config, Seed(seed), &frames);
        let mut wire_bytes = 0;
        let mut packets = 0;
        let mut busy = Duration::ZERO;
        for lane in [true, false] {
            let mut earlier: Option<FrameFate> = None;
            for &(now, control, payload, fate) in sent.iter().filter(|sent| sent.1 == lane) {
                prop_assert!(fate.departs >= now + config.serialisation(Train::of(payload).bytes));
                prop_assert!(fate.arrives >= now + config.delay + fate.busy);
                prop_assert!(fate.wire_bytes >= Train::of(payload).bytes);
                if let Some(earlier) = earlier {
                    prop_assert!(earlier.arrives <= fate.arrives);
                    prop_assert!(earlier.departs + fate.busy <= fate.departs + ROUNDING);
                }
                if control && config.loss == 0.0 {
                    let ahead = config.serialisation(quantum(config.bandwidth).0);
                    let before = earlier.map_or(Instant::ZERO, |earlier| earlier.departs);
                    prop_assert!(fate.departs <= before.max(now + ahead) + fate.busy);
                }
                earlier = Some(fate);
                wire_bytes += fate.wire_bytes;
                packets += fate.packets;
                busy += fate.busy;
            }
        }
        prop_assert_eq!(transport.stats().carried.bytes, wire_bytes);
        prop_assert_eq!(transport.stats().carried.packets, packets);
        prop_assert_eq!(transport.stats().carried.busy, busy);
        prop_assert!(transport.room_at() <= after_micros(2_000 * 200) + busy);
    }

    #[test]
    fn frames_repeat_from_their_seed(config in configs(), frames in frames(), seed: u64) {
        let (_, once) = exchange(config, Seed(seed), &frames);
        let (_, again) = exchange(config, Seed(seed), &frames);
        prop_assert_eq!(once, again);
    }
}

/// Each packet's time is rounded up to a nanosecond.
const ROUNDING: Duration = Duration::from_nanos(300);

/// A frame: microseconds since the one before, whether it is control, and its payload bytes.
fn frames() -> impl Strategy<Value = Vec<(u64, bool, u64)>> {
    prop::collection::vec((0u64..2_000, any::<bool>(), 0u64..100_000), 1..60)
}

type SentFrame = (Instant, bool, u64, FrameFate);

fn exchange(
    config: LinkConfig,
    seed: Seed,
    frames: &[(u64, bool, u64)],
) -> (Transport, Vec<SentFrame>) {
    let mut transport = Transport::new(config, seed);
    let mut micros = 0;
    let mut sent = Vec::new();
    for &(gap, control, payload) in frames {
        micros += gap;
        let now = after_micros(micros);
        let fate = if control {
            transport.send_control(now, payload)
        } else {
            transport.send_data(now, payload)
        };
        sent.push((now, control, payload, fate));
    }
    (transport, sent)
}

#[test]
fn a_long_frame_fills_the_link_to_the_share_that_headers_leave() {
    let config = config(50.0, 30, 100_000, 0.0);
    let mut transport = Transport::new(config, Seed(1));
    let payload = 10_000_000;
    let fate = transport.send_data(Instant::ZERO, payload);
    let ideal = config.serialisation(payload).as_secs_f64();
    let share = ideal / fate.departs.as_secs_f64();
    assert!((share - PAYLOAD_SHARE_MAX).abs() < 1e-3, "{share}");
    assert!((0.957..0.959).contains(&PAYLOAD_SHARE_MAX), "{PAYLOAD_SHARE_MAX}");
    assert_eq!(fate.arrives, fate.departs + config.delay);
}

#[test]
fn control_overtakes_data_but_for_one_quantum() {
    let config = config(15.0, 30, 100_000, 0.0);
    let mut transport = Transport::new(config, Seed(1));
    let data = transport.send_data(Instant::ZERO, 5 << 20);
    assert!(data.departs.as_secs_f64() > 2.5);
    let control = transport.send_control(Instant::ZERO, 100);
    assert!(control.arrives.as_secs_f64() < 0.085, "{control:?}");
    let behind = transport.send_data(Instant::ZERO, 100);
    assert_eq!(behind.departs, data.departs + control.busy + behind.busy);
}

#[test]
fn a_lost_packet_costs_bytes_and_a_round_trip_and_holds_back_its_lane() {
    let lossy = config(50.0, 30, 100_000, 0.4);
    let mut transport = Transport::new(lossy, Seed(3));
    let mut held_back = 0;
    let mut arrived = Instant::ZERO;
    for _ in 0..200 {
        let now = transport.room_at();
        let fate = transport.send_data(now, 1_000);
        assert!(fate.arrives >= arrived);
        arrived = fate.arrives;
        if fate.packets > 1 {
            assert!(fate.arrives.since(now) >= Duration::from_millis(30 + 60));
            held_back += 1;
        }
    }
    assert!((50..110).contains(&held_back), "{held_back}");
    let stats = transport.stats();
    assert_eq!(stats.delivered().packets, 200);
}

#[test]
fn a_link_that_slows_down_keeps_what_is_queued() {
    let mut link = Link::new(config(8.0, 10, 100_000, 0.0), Seed(1));
    for _ in 0..10 {
        link.send(Instant::ZERO, 1_000);
    }
    let now = after_micros(5_000);
    assert_eq!(link.queued(now), ByteSize(5_000));
    link.set_bandwidth(now, Bandwidth::from_mbit(0.8));
    assert_eq!(link.queued(now), ByteSize(5_000));
    assert_eq!(link.idle_at(), after_micros(55_000));
    let Fate::Delivered { departs, .. } = link.send(now, 1_000) else { panic!("no loss") };
    assert_eq!(departs, after_micros(65_000));
}

#[test]
fn an_idle_link_accepts_a_packet_larger_than_its_queue() {
    let mut link = Link::new(config(1.0, 10, 100, 0.0), Seed(1));
    assert!(matches!(link.send(Instant::ZERO, 1_480), Fate::Delivered { .. }));
    let full = Fate::Dropped { reason: DropReason::QueueFull };
    assert_eq!(link.send(Instant::ZERO, 1_480), full);
    assert!(matches!(link.send(link.idle_at(), 1_480), Fate::Delivered { .. }));
}

#[test]
fn acknowledgements_cost_the_way_back_two_hundredths_of_the_rate() {
    let config = config(50.0, 30, 100_000, 0.0);
    let mut forward = Transport::new(config, Seed(1));
    let mut back = Transport::new(config, Seed(2));
    let fate = forward.send_data(Instant::ZERO, 1 << 20);
    back.acknowledge(fate.arrives, fate.packets);
    let share = back.stats().carried.bytes as f64 / forward.stats().carried.bytes as f64;
    assert!((0.015..0.03).contains(&share), "{share}");
}
