//! One directed link: a bottleneck with a queue, followed by a path with a delay.
//!
//! Bytes leave the bottleneck in order, at the link's bandwidth. A packet that would exceed the queue is dropped (tail
//! drop). Losses occur behind the bottleneck, so a lost packet takes time on the link and, if traffic is paid for, has
//! a price. The path then adds half a round-trip time.
//!
//! The state is the instant at which the bottleneck becomes idle. The size of the queue is the bandwidth times the time
//! until then. So each operation takes constant time, however long the queue is.

use std::time::Duration;

use rand_core::Rng;
use serde::{Deserialize, Serialize};

use crate::persist;
use crate::types::{Bandwidth, ByteSize, Instant, Random, Seed};

/// The properties of a directed link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// The bandwidth of the bottleneck.
    pub bandwidth: Bandwidth,
    /// The one-way delay from the bottleneck to the far end: half the round-trip time.
    pub delay: Duration,
    /// The size of the queue at the bottleneck. An idle bottleneck accepts a packet of any size.
    pub queue: ByteSize,
    /// The probability that a packet is lost, 0 to below 1.
    pub loss: f64,
}

/// The state of a directed link.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    idle_at: Instant,
    chance: Loss,
    stats: LinkStats,
}

/// The outcome of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet reaches the far end.
    Delivered {
        /// When its last byte leaves the bottleneck.
        departs: Instant,
        /// When its last byte reaches the far end.
        arrives: Instant,
    },
    /// The packet does not reach the far end.
    Dropped {
        /// Why it was dropped.
        reason: DropReason,
    },
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// It would have exceeded the queue. It did not enter the link.
    QueueFull,
    /// It was lost behind the bottleneck.
    Lost,
}

/// The traffic of a link since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStats {
    /// Packets that entered the link, including those that were lost behind the bottleneck.
    pub carried: Carried,
    /// Packets that were lost behind the bottleneck.
    pub lost: Dropped,
    /// Packets that did not enter the link because the queue was full.
    pub overflowed: Dropped,
}

/// The traffic that entered a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// The number of bytes, including headers.
    pub bytes: u64,
    /// The number of packets.
    pub packets: u64,
    /// How long the bottleneck was busy with them.
    pub busy: Duration,
}

/// The traffic that was dropped for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The number of bytes, including headers.
    pub bytes: u64,
    /// The number of packets.
    pub packets: u64,
}

impl LinkConfig {
    /// The bandwidth-delay product in bytes: bandwidth times round-trip time.
    pub fn bandwidth_delay_product(&self) -> f64 {
        self.bandwidth.bytes_in(self.round_trip())
    }

    /// The round-trip time: twice the one-way delay.
    pub fn round_trip(&self) -> Duration {
        self.delay * 2
    }

    /// How long the bottleneck is busy with `bytes`, rounded up so that the bandwidth is never exceeded.
    pub fn serialisation(&self, bytes: u64) -> Duration {
        let nanos = bytes as f64 * 1e9 / self.bandwidth.bytes_per_second();
        Duration::from_nanos(nanos.ceil() as u64)
    }
}

impl Link {
    /// An idle link. All its random numbers come from `seed`.
    ///
    /// # Panics
    /// If the loss probability is not in 0 to below 1.
    pub fn new(config: LinkConfig, seed: Seed) -> Self {
        let chance = Loss::new(config.loss, seed.child("loss"));
        Self { config, idle_at: Instant::ZERO, chance, stats: LinkStats::default() }
    }

    /// Sends one packet of `bytes`, including all headers. `now` must not decrease from call to call.
    pub fn send(&mut self, now: Instant, bytes: u64) -> Fate {
        let queued = self.queued(now).0;
        if queued > 0 && queued + bytes > self.config.queue.0 {
            self.stats.overflowed.add(1, bytes);
            return Fate::Dropped { reason: DropReason::QueueFull };
        }
        let departs = self.carry(now, 1, bytes);
        if self.strikes() {
            self.stats.lost.add(1, bytes);
            return Fate::Dropped { reason: DropReason::Lost };
        }
        Fate::Delivered { departs, arrives: departs + self.config.delay }
    }

    /// Appends a train of packets to the queue, however long it is, and returns when its last byte leaves. No packet is
    /// lost.
    pub(super) fn carry(&mut self, now: Instant, packets: u64, bytes: u64) -> Instant {
        let busy = self.config.serialisation(bytes);
        self.idle_at = self.idle_at.max(now) + busy;
        self.stats.carried.bytes += bytes;
        self.stats.carried.packets += packets;
        self.stats.carried.busy += busy;
        self.idle_at
    }

    /// Changes the bandwidth from `now` on. Queued bytes stay queued. Outcomes that were returned before do not change.
    pub fn set_bandwidth(&mut self, now: Instant, bandwidth: Bandwidth) {
        let queued = self.config.bandwidth.bytes_in(self.idle_at.since(now));
        self.config.bandwidth = bandwidth;
        self.idle_at = now + Duration::from_secs_f64(queued / bandwidth.bytes_per_second());
    }

    /// Draws whether the next packet is lost.
    pub(super) fn strikes(&mut self) -> bool {
        self.chance.strikes()
    }

    /// Counts lost packets.
    pub(super) fn count_lost(&mut self, packets: u64, bytes: u64) {
        self.stats.lost.add(packets, bytes);
    }

    /// The properties of the link, with the latest bandwidth.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// The size of the queue: bytes that were accepted and have not left the bottleneck.
    pub fn queued(&self, now: Instant) -> ByteSize {
        ByteSize(self.config.bandwidth.bytes_in(self.idle_at.since(now)) as u64)
    }

    /// When the bottleneck becomes idle if nothing more is sent.
    pub fn idle_at(&self) -> Instant {
        self.idle_at
    }

    /// The traffic of the link so far.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }
}

persist! {
    impl Persist<()> for Link {
        fn walk(Self { config: _, idle_at, chance: Loss { random, .. }, stats }, walk, ()) {
            walk.record("idle_at", idle_at)?;
            walk.record("chance", random)?;
            walk.record("stats", stats)
        }
    }
}

impl LinkStats {
    /// The traffic that has reached or will reach the far end.
    pub fn delivered(&self) -> Dropped {
        Dropped {
            bytes: self.carried.bytes - self.lost.bytes,
            packets: self.carried.packets - self.lost.packets,
        }
    }
}

impl Dropped {
    fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// Independent losses with a fixed probability.
#[derive(Clone, Debug)]
struct Loss {
    /// A random number of 0 to 2⁵³ - 1 below this is a loss.
    threshold: u64,
    random: Random,
}

impl Loss {
    fn new(probability: f64, seed: Seed) -> Self {
        assert!((0.0..1.0).contains(&probability), "a loss is 0 to below 1");
        Self { threshold: (probability * DRAWS as f64) as u64, random: seed.random() }
    }

    fn strikes(&mut self) -> bool {
        self.threshold > 0 && self.random.next_u64() % DRAWS < self.threshold
    }
}

const DRAWS: u64 = 1 << 53;
