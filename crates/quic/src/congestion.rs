//! A congestion window that is provisioned from the topology, and the bytes in flight within it.
//!
//! The links of a run are known, so there is no slow start, no probing, and no reduction after random loss. The window
//! fills the path, and its excess fits the queue of the bottleneck:
//!
//! > window = min(rate × (1.1 × RTT + 25 ms + 8 packets), max(rate × 0.8 × RTT + queue, rate × RTT))
//!
//! The path holds rate × RTT. A tenth more covers the variance of timers, 25 ms is the longest delay of an
//! acknowledgement, and eight packets keep a slow link busy. The time of those packets is that of the slower direction,
//! because acknowledgements queue there behind that direction's data. quinn paces a window over 0.8 of a round trip, so
//! a burst puts all but 0.8 × rate × RTT of it in the queue. Rates here count UDP payload, 1452 bytes of 1480. At 50
//! Mbit/s and 60 ms, with a queue of one bandwidth-delay product (375 kB), this is 0.98 × (375 + 38 + 156 + 12) = 570
//! kB.
//!
//! A guard handles a wrong topology: while more is lost in a window than random loss explains, the window shrinks by a
//! quarter in each round, to an eighth at the least. It grows back at the same rate.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory};
use quinn_proto::RttEstimator;

use gaia_core::link::{DATAGRAM_BYTES_MAX, IP_UDP_HEADER_BYTES, LinkConfig};

/// The provisioned settings of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Provision {
    /// The largest number of bytes in flight.
    pub window: u64,
    /// The round-trip time with empty queues.
    pub round_trip: Duration,
    /// The share of a window that random loss can explain.
    loss_tolerated: f64,
}

/// The bytes in flight of a connection, shared by its congestion controller and its pump.
#[derive(Debug, Default)]
pub struct Flight {
    state: Mutex<FlightState>,
}

#[derive(Debug, Default)]
struct FlightState {
    in_flight: u64,
    gaps: Gaps,
    /// Bytes since the connection began.
    sent: u64,
    wake: Option<(u64, Waker)>,
}

/// The bytes acknowledged behind a lost packet. quinn buffers them until the gap is filled.
#[derive(Debug, Default)]
struct Gaps {
    /// When the lost packets were sent, and when their loss was noticed and they were sent again.
    lost: VecDeque<(Instant, Instant)>,
    /// When packets behind the first gap were sent, and their size.
    beyond: VecDeque<(Instant, u64)>,
    bytes: u64,
}

/// Keeps the provisioned window.
#[derive(Clone, Debug)]
struct Provisioned {
    provision: Provision,
    window: u64,
    round: Round,
    flight: Arc<Flight>,
}

/// The acknowledgements and losses of about one window of bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    acknowledged: u64,
    lost: u64,
}

/// Builds the controller of one direction of a connection.
#[derive(Debug)]
pub struct ProvisionedFactory {
    /// The window of the direction.
    pub provision: Provision,
    /// The bytes in flight, which the controller updates.
    pub flight: Arc<Flight>,
}

impl Provision {
    /// The window of `link`, whose acknowledgements return over `back`.
    pub fn new(link: &LinkConfig, back: &LinkConfig) -> Self {
        let round_trip = link.delay + back.delay;
        let packet = DATAGRAM_BYTES_MAX + IP_UDP_HEADER_BYTES;
        let slower = link.serialisation(packet).max(back.serialisation(packet));
        let margin = round_trip / MARGIN_SHARE + ACKNOWLEDGEMENT_DELAY + slower * MARGIN_PACKETS;
        let wanted = link.bandwidth.bytes_in(round_trip + margin);
        let path = link.bandwidth.bytes_in(round_trip);
        let spared = (path * PACED_SHARE + link.queue.0 as f64).max(path);
        let payload = DATAGRAM_BYTES_MAX as f64 / packet as f64;
        let window = ((wanted.min(spared) * payload) as u64).max(WINDOW_BYTES_MIN);
        let loss_tolerated = (link.loss * LOSS_SPREAD).max(LOSS_TOLERATED_MIN);
        Self { window, round_trip, loss_tolerated }
    }

    fn floor(&self) -> u64 {
        (self.window / WINDOW_SHRINK_MAX).max(WINDOW_BYTES_MIN)
    }
}

impl Flight {
    /// The number of bytes that QUIC has sent and must keep: in flight, or acknowledged behind a gap. The error is at
    /// most a few packets.
    pub fn held(&self) -> u64 {
        let state = self.state();
        state.in_flight + state.gaps.bytes
    }

    /// Wakes the task once, when `bytes` more have been sent.
    pub fn wake_when_sent(&self, bytes: u64, waker: &Waker) {
        let mut state = self.state();
        state.wake = Some((state.sent + bytes, waker.clone()));
    }

    /// Counts a sent packet, unless it only acknowledges.
    pub(super) fn on_sent_packet(&self, bytes: u64) {
        if bytes > ACKNOWLEDGEMENT_BYTES_MAX {
            self.on_sent(bytes);
        }
    }

    fn on_sent(&self, bytes: u64) {
        let waker = {
            let mut state = self.state();
            state.sent += bytes;
            state.in_flight += bytes;
            let sent = state.sent;
            state.wake.take_if(|(at, _)| *at <= sent)
        };
        if let Some((_, waker)) = waker {
            waker.wake();
        }
    }

    pub(super) fn on_acknowledged(&self, sent: Instant, bytes: u64) {
        self.state().gaps.on_acknowledged(sent, bytes);
    }

    pub(super) fn on_lost(&self, now: Instant, sent: Instant, bytes: u64) {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(bytes);
        state.gaps.lost.push_back((sent, now));
    }

    pub(super) fn correct(&self, in_flight: u64) {
        self.state().in_flight = in_flight;
    }

    fn state(&self) -> MutexGuard<'_, FlightState> {
        self.state.lock().expect("a flight is never left half changed")
    }
}

impl Gaps {
    fn on_acknowledged(&mut self, sent: Instant, bytes: u64) {
        if self.lost.is_empty() {
            return;
        }
        while self.lost.front().is_some_and(|&(_, again)| again <= sent) {
            self.lost.pop_front();
        }
        self.beyond.push_back((sent, bytes));
        self.bytes += bytes;
        let first = self.lost.front().map(|&(sent, _)| sent);
        while self.beyond.front().is_some_and(|&(sent, _)| first.is_none_or(|gap| sent < gap)) {
            let filled = self.beyond.pop_front();
            self.bytes -= filled.map_or(0, |(_, bytes)| bytes);
        }
    }
}

impl Provisioned {
    fn new(provision: Provision, flight: Arc<Flight>) -> Self {
        Self { provision, window: provision.window, round: Round::default(), flight }
    }

    fn end_round(&mut self) {
        let total = self.round.acknowledged + self.round.lost;
        if total < self.window {
            return;
        }
        let share = self.round.lost as f64 / total as f64;
        self.window = if share > self.provision.loss_tolerated {
            (self.window / 4 * 3).max(self.provision.floor())
        } else {
            (self.window / 3 * 4).min(self.provision.window)
        };
        self.round = Round::default();
    }
}

impl Controller for Provisioned {
    fn on_sent(&mut self, _: Instant, bytes: u64, _: u64) {
        self.flight.on_sent_packet(bytes);
    }

    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, _: bool, _: &RttEstimator) {
        self.flight.on_acknowledged(sent, bytes);
        self.round.acknowledged += bytes;
    }

    fn on_end_acks(&mut self, _: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        self.flight.correct(in_flight);
        self.end_round();
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.flight.on_lost(now, sent, lost);
        self.round.lost += lost;
        if persistent {
            self.window = self.provision.floor();
            self.round = Round::default();
        }
        self.end_round();
    }

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.provision.window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for ProvisionedFactory {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Provisioned::new(self.provision, self.flight.clone()))
    }
}

/// The margin over the round trip is one part in this many.
const MARGIN_SHARE: u32 = 10;
const MARGIN_PACKETS: u32 = 8;

/// The share of a round trip over which quinn spreads a window.
const PACED_SHARE: f64 = 0.8;

/// The longest time that a receiver delays an acknowledgement (RFC 9000, section 18.2).
const ACKNOWLEDGEMENT_DELAY: Duration = Duration::from_millis(25);

/// The smallest window that a handshake and its acknowledgements fit in.
const WINDOW_BYTES_MIN: u64 = 8 * DATAGRAM_BYTES_MAX;

/// How far the guard may shrink the window.
const WINDOW_SHRINK_MAX: u64 = 8;

/// Independent losses of one window rarely exceed their mean by more than this.
const LOSS_SPREAD: f64 = 4.0;
const LOSS_TOLERATED_MIN: f64 = 0.05;

/// A smaller packet is taken for an acknowledgement, which does not count as in flight.
const ACKNOWLEDGEMENT_BYTES_MAX: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_core::types::{Bandwidth, ByteSize};

    fn link(mbit: f64, delay_ms: u64, queue: u64) -> LinkConfig {
        LinkConfig {
            bandwidth: Bandwidth::from_mbit(mbit),
            delay: Duration::from_millis(delay_ms),
            queue: ByteSize(queue),
            loss: 0.0,
        }
    }

    #[test]
    fn the_window_fills_the_path_and_spares_the_queue() {
        let deep = link(50.0, 30, 375_000);
        let window = Provision::new(&deep, &deep).window;
        assert!((565_000..575_000).contains(&window), "{window}");
        let shallow = link(50.0, 30, 100_000);
        let window = Provision::new(&shallow, &shallow).window;
        assert_eq!(window, (400_000.0 * 1452.0 / 1480.0) as u64);
        let slow = link(0.1, 1, 0);
        assert_eq!(Provision::new(&slow, &slow).window, WINDOW_BYTES_MIN);
    }

    #[test]
    fn loss_beyond_chance_shrinks_the_window_and_its_end_restores_it() {
        let link = link(50.0, 30, 1 << 20);
        let provision = Provision::new(&link, &link);
        let mut controller = Provisioned::new(provision, Arc::default());
        let mut rounds = |share: f64, count: usize| {
            for _ in 0..count {
                let window = controller.window;
                controller.round.acknowledged = ((1.0 - share) * window as f64) as u64 + 2;
                controller.round.lost = (share * window as f64) as u64;
                controller.end_round();
            }
            controller.window
        };
        assert_eq!(rounds(0.01, 5), provision.window);
        assert_eq!(rounds(0.2, 1), provision.window / 4 * 3);
        assert_eq!(rounds(0.2, 50), provision.floor());
        assert_eq!(rounds(0.01, 20), provision.window);
    }

    #[test]
    fn what_is_in_flight_is_corrected_by_each_acknowledgement() {
        let flight = Flight::default();
        flight.on_sent(5_000);
        assert_eq!(flight.held(), 5_000);
        flight.correct(1_452);
        assert_eq!(flight.held(), 1_452);
        let now = Instant::now();
        flight.on_lost(now, now, 10_000);
        assert_eq!(flight.held(), 0);
    }

    #[test]
    fn what_lies_beyond_a_gap_is_held_until_the_gap_is_filled() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut gaps = Gaps::default();
        let mut check = |loss: Option<(u64, u64)>, sent: u64, held: u64| {
            gaps.lost.extend(loss.map(|(sent, again)| (at(sent), at(again))));
            gaps.on_acknowledged(at(sent), 100);
            assert_eq!(gaps.bytes, held, "after the packet sent at {sent}");
        };
        check(None, 1, 0);
        check(Some((2, 62)), 3, 100);
        check(None, 4, 200);
        check(Some((5, 65)), 6, 300);
        check(None, 62, 200);
        check(None, 64, 300);
        check(None, 65, 0);
        check(None, 66, 0);
    }
}
