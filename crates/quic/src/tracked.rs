//! Congestion control for shared links: Cubic, or the provisioned window if the topology calls the link dedicated.
//!
//! The link of a connection, and so its window, is known once the peer has shown its certificate. Until then an
//! accepted connection uses Cubic's defaults. In both cases the pump receives the number of bytes in flight.
//!
//! Cubic starts with one bandwidth-delay product, so that it need not search for a known bandwidth. Measured at 50
//! Mbit/s and 200 ms, a link is then full after 0.2 s instead of 2 s.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use quinn::congestion::{Controller, ControllerFactory, CubicConfig};
use quinn_proto::RttEstimator;

use super::congestion::{Flight, Provision, ProvisionedFactory};
use super::settings::path_bytes;
use gaia_core::link::LinkConfig;

/// The link of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    provision: Provision,
    /// Whether no other traffic uses the link.
    dedicated: bool,
    /// One bandwidth-delay product, in bytes.
    path_bytes: u64,
}

/// Builds the controller of one connection.
#[derive(Debug, Default)]
pub struct TrackedFactory {
    /// The bytes in flight, which the controller updates.
    pub flight: Arc<Flight>,
    /// The window, once the peer is known. Until then the controller keeps to a small one.
    pub chosen: Arc<OnceLock<Chosen>>,
}

struct Tracked {
    inner: Box<dyn Controller>,
    flight: Arc<Flight>,
    /// `None` once the chosen link is in effect.
    chosen: Option<Arc<OnceLock<Chosen>>>,
    mtu: u16,
}

impl Chosen {
    /// For frames over `link`, whose acknowledgements return over `back`.
    pub fn new(link: &LinkConfig, back: &LinkConfig, dedicated: bool) -> Self {
        let path_bytes = path_bytes(link, back);
        Self { provision: Provision::new(link, back), dedicated, path_bytes }
    }

    fn build(self, now: Instant, mtu: u16) -> Box<dyn Controller> {
        if self.dedicated {
            // The outer controller counts the bytes in flight.
            let factory = ProvisionedFactory { provision: self.provision, flight: Arc::default() };
            return Arc::new(factory).build(now, mtu);
        }
        let mut cubic = CubicConfig::default();
        cubic.initial_window(self.path_bytes.max(WINDOW_BYTES_MIN));
        Arc::new(cubic).build(now, mtu)
    }
}

impl Tracked {
    fn follow_choice(&mut self, now: Instant) {
        let Some(chosen) = self.chosen.as_ref().and_then(|chosen| chosen.get()) else { return };
        self.inner = chosen.build(now, self.mtu);
        self.chosen = None;
    }
}

impl Controller for Tracked {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet: u64) {
        self.follow_choice(now);
        self.flight.on_sent_packet(bytes);
        self.inner.on_sent(now, bytes, last_packet);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.flight.on_acknowledged(sent, bytes);
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        self.flight.correct(in_flight);
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.flight.on_lost(now, sent, lost);
        self.inner.on_congestion_event(now, sent, persistent, lost);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.inner.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            flight: self.flight.clone(),
            chosen: self.chosen.clone(),
            mtu: self.mtu,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for TrackedFactory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::new(CubicConfig::default()).build(now, mtu);
        let (flight, chosen) = (self.flight.clone(), Some(self.chosen.clone()));
        let mut tracked = Tracked { inner, flight, chosen, mtu };
        tracked.follow_choice(now);
        Box::new(tracked)
    }
}

/// The smallest initial window of Cubic (RFC 9002, section 7.2).
const WINDOW_BYTES_MIN: u64 = 14_720;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gaia_core::types::{Bandwidth, ByteSize};

    fn chosen(dedicated: bool) -> Chosen {
        let link = LinkConfig {
            bandwidth: Bandwidth::from_mbit(50.0),
            delay: Duration::from_millis(100),
            queue: ByteSize(1 << 20),
            loss: 0.0,
        };
        Chosen::new(&link, &link, dedicated)
    }

    #[test]
    fn the_window_follows_what_the_peer_turns_out_to_be() {
        let now = Instant::now();
        for dedicated in [false, true] {
            let factory = Arc::new(TrackedFactory::default());
            let mut controller = factory.clone().build(now, 1452);
            assert!(controller.window() < 20_000, "nobody is known yet");
            factory.chosen.set(chosen(dedicated)).unwrap();
            controller.on_sent(now, 1452, 0);
            let expected =
                if dedicated { chosen(true).provision.window } else { chosen(false).path_bytes };
            assert_eq!(controller.window(), expected);
            assert_eq!(factory.flight.held(), 1452);
        }
    }
}
