//! One directed link: a bottleneck with a queue, then a path with a delay.
//!
//! Bytes leave one after another at the link's bandwidth, behind whatever was accepted before them. What
//! would overfill the queue is dropped at its tail. Loss strikes beyond the bottleneck, so a lost packet
//! has taken its time and, where the link is paid for, its price. The path then adds half a round trip.
//!
//! The whole state is the instant at which the bottleneck falls idle: the bytes still queued are the bandwidth
//! times the time until then, so a question costs the same however long the queue is.

use std::time::Duration;

use rand_core::Rng;
use serde::{Deserialize, Serialize};

use crate::persist;
use crate::types::{Bandwidth, ByteSize, Instant, Random, Seed};

/// What a directed link is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    pub bandwidth: Bandwidth,
    /// One way, from the bottleneck to the far end: half the round trip.
    pub delay: Duration,
    /// What may wait at the bottleneck. A packet that finds it idle is accepted whatever its size.
    pub queue: ByteSize,
    /// The chance that a packet is lost, 0 to below 1.
    pub loss: f64,
}

/// A directed link in use.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    idle_at: Instant,
    chance: Loss,
    stats: LinkStats,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its last byte leaves the bottleneck at `departs` and reaches the far end at `arrives`.
    Delivered {
        departs: Instant,
        arrives: Instant,
    },
    Dropped {
        reason: DropReason,
    },
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// It would have overfilled the queue. It never entered the link.
    QueueFull,
    /// Chance took it beyond the bottleneck.
    Lost,
}

/// What has crossed a link, and what has not. `carried` includes `lost`; `overflowed` never entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStats {
    pub carried: Carried,
    pub lost: Dropped,
    pub overflowed: Dropped,
}

/// What entered a link, and how long the bottleneck worked on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub bytes: u64,
    pub packets: u64,
    pub busy: Duration,
}

/// What was dropped for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    pub bytes: u64,
    pub packets: u64,
}

impl LinkConfig {
    /// The bandwidth-delay product over the round trip, in bytes.
    pub fn bandwidth_delay_product(&self) -> f64 {
        self.bandwidth.bytes_in(self.round_trip())
    }

    /// Twice the one-way delay.
    pub fn round_trip(&self) -> Duration {
        self.delay * 2
    }

    /// How long the bottleneck works on `bytes`, rounded up so that the bandwidth is never exceeded.
    pub fn serialisation(&self, bytes: u64) -> Duration {
        let nanos = bytes as f64 * 1e9 / self.bandwidth.bytes_per_second();
        Duration::from_nanos(nanos.ceil() as u64)
    }
}

impl Link {
    /// An idle link. All its chance comes from `seed`.
    ///
    /// # Panics
    /// Where the loss is not in 0 to below 1.
    pub fn new(config: LinkConfig, seed: Seed) -> Self {
        let chance = Loss::new(config.loss, seed.child("loss"));
        Self { config, idle_at: Instant::ZERO, chance, stats: LinkStats::default() }
    }

    /// Offers one packet of `bytes`, all headers included. Calls come in the order of `now`.
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

    /// Puts a train of packets behind whatever is queued, however much that is, and says when its last byte
    /// leaves. Chance is not asked.
    pub(super) fn carry(&mut self, now: Instant, packets: u64, bytes: u64) -> Instant {
        let busy = self.config.serialisation(bytes);
        self.idle_at = self.idle_at.max(now) + busy;
        self.stats.carried.bytes += bytes;
        self.stats.carried.packets += packets;
        self.stats.carried.busy += busy;
        self.idle_at
    }

    /// Changes the bandwidth from `now` on. What is queued stays queued; fates that have been told stand.
    pub fn set_bandwidth(&mut self, now: Instant, bandwidth: Bandwidth) {
        let queued = self.config.bandwidth.bytes_in(self.idle_at.since(now));
        self.config.bandwidth = bandwidth;
        self.idle_at = now + Duration::from_secs_f64(queued / bandwidth.bytes_per_second());
    }

    /// Whether chance takes the next packet.
    pub(super) fn strikes(&mut self) -> bool {
        self.chance.strikes()
    }

    /// Counts packets that chance took.
    pub(super) fn count_lost(&mut self, packets: u64, bytes: u64) {
        self.stats.lost.add(packets, bytes);
    }

    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Bytes accepted that have not yet left the bottleneck.
    pub fn queued(&self, now: Instant) -> ByteSize {
        ByteSize(self.config.bandwidth.bytes_in(self.idle_at.since(now)) as u64)
    }

    /// When the bottleneck falls idle if nothing more is sent.
    pub fn idle_at(&self) -> Instant {
        self.idle_at
    }

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
    /// The packets that reached, or will reach, the far end.
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

/// Independent losses of one probability.
#[derive(Clone, Debug)]
struct Loss {
    /// A draw below this, of 2⁵³, is a loss.
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
