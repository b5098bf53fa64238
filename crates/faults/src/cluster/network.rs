//! The network between data centers: the simulated links, with faults.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::counts::PacketCounts;
use crate::scenario::draws::{unit, within};
use crate::scenario::{Fault, FaultKind, Packets};
use gaia_core::link::FrameFate;
use gaia_core::session::Message;
use gaia_core::topology::Topology;
use gaia_core::types::{DcId, Instant, Lane, Random, Seed, ServerId, ShardId};
use gaia_driver::simulated::wan::SimulatedWan;

pub(crate) struct Network {
    pub(crate) wan: SimulatedWan,
    topology: Topology,
    chance: Random,
    packets: Packets,
    /// The number of partitions in force, by link.
    cut: BTreeMap<(DcId, DcId), u32>,
    /// The time since which at least one partition is in force, by link.
    cut_since: BTreeMap<(DcId, DcId), Instant>,
    /// Until when messages are held back, by link.
    silent_until: BTreeMap<(DcId, DcId), Instant>,
    /// When the latest message of a lane arrives. Delayed messages also delay those behind them.
    floors: BTreeMap<(ServerId, DcId, Lane), Instant>,
    pub(crate) messages: u64,
    pub(crate) counts: PacketCounts,
}

/// A message that has been sent.
pub(crate) struct Sent {
    pub(crate) fate: FrameFate,
    /// The time and bytes of each arrival: none, one or several.
    pub(crate) arrivals: Vec<(Instant, Bytes)>,
}

impl Network {
    pub(crate) fn new(topology: &Topology, shards: usize, packets: Packets, seed: Seed) -> Self {
        Self {
            wan: SimulatedWan::new(topology, shards, seed.child("links")),
            topology: topology.clone(),
            chance: seed.child("packet faults").random(),
            packets,
            cut: BTreeMap::new(),
            cut_since: BTreeMap::new(),
            silent_until: BTreeMap::new(),
            floors: BTreeMap::new(),
            messages: 0,
            counts: PacketCounts::default(),
        }
    }

    pub(crate) fn send(
        &mut self,
        now: Instant,
        from: ServerId,
        to: DcId,
        lane: Lane,
        message: &Message,
    ) -> Sent {
        let fate = match lane {
            Lane::Control => self.wan.send_control(from.dc, to, now, message.len()),
            Lane::Data => self.wan.send_data(from.dc, to, from.shard, now, message.len()),
        };
        self.messages += 1;
        let arrivals = self.arrivals(from, to, lane, fate, message.to_bytes());
        Sent { fate, arrivals }
    }

    fn arrivals(
        &mut self,
        from: ServerId,
        to: DcId,
        lane: Lane,
        fate: FrameFate,
        mut bytes: Bytes,
    ) -> Vec<(Instant, Bytes)> {
        if self.is_cut(from.dc, to) {
            return Vec::new();
        }
        let Packets { loss, repetition, reordering, damage, delay, .. } = self.packets;

        if self.occurs(loss) {
            self.counts.lost += 1;
            return Vec::new();
        }

        if self.occurs(damage) {
            self.counts.damaged += 1;
            bytes = self.damaged(&bytes);
        }

        let rtt = self.topology.link(from.dc, to).rtt.0;
        let floor = self.floors.entry((from, to, lane)).or_default();
        let held_until = self.silent_until.get(&(from.dc, to)).copied().unwrap_or_default();
        let mut at = fate.arrives.max(*floor).max(held_until);
        *floor = at;

        if self.occurs(delay) {
            self.counts.delayed += 1;
            at += rtt.mul_f64(3.0 * unit(&mut self.chance));
            self.floors.insert((from, to, lane), at);
        }

        let mut arrivals = Vec::new();
        if self.occurs(reordering) {
            // The message arrives after later ones, because it does not raise the floor.
            self.counts.reordered += 1;
            at += self.some_time(rtt);
        }

        if self.occurs(repetition) {
            self.counts.repeated += 1;
            arrivals.push((at + self.some_time(rtt), bytes.clone()));
        }

        arrivals.push((at, bytes));
        arrivals
    }

    /// Begins or ends a structural fault.
    pub(crate) fn set(&mut self, now: Instant, fault: &Fault, in_force: bool) {
        let Some(peer) = fault.peer.map(DcId) else { return };
        let (from, to) = (DcId(fault.dc), peer);
        match fault.kind {
            FaultKind::Partition => {
                self.set_cut(now, (from, to), in_force);
                self.set_cut(now, (to, from), in_force);
            }
            FaultKind::OneWayPartition => self.set_cut(now, (from, to), in_force),
            FaultKind::SilentLink if in_force => {
                let until = self.silent_until.entry((from, to)).or_default();
                *until = (*until).max(now + fault.lasts.0);
            }
            FaultKind::SlowLink => {
                let bandwidth = self.topology.link(from, to).bandwidth;
                let factor = if in_force { fault.factor } else { 1.0 };
                self.wan.set_bandwidth(from, to, now, bandwidth.scaled(1.0 / factor));
            }
            _ => {}
        }
    }

    /// Ends packet faults and silences.
    pub(crate) fn end_packet_faults(&mut self) {
        self.packets = Packets::default();
        self.silent_until.clear();
    }

    /// Draws whether a message of a failed connection arrives on the next one.
    pub(crate) fn is_stale(&mut self) -> bool {
        let stale = self.occurs(self.packets.stale);
        self.counts.stale += u64::from(stale);
        stale
    }

    /// The shards in the order in which they use a link next.
    pub(crate) fn turns(&self, from: DcId, to: DcId) -> Vec<ShardId> {
        self.wan.turns(from, to).collect()
    }

    /// The time since which the link between two data centers is cut in at least one direction. `None` if it is not
    /// cut.
    pub(crate) fn dead_since(&self, a: DcId, b: DcId) -> Option<Instant> {
        [(a, b), (b, a)].iter().filter_map(|link| self.cut_since.get(link).copied()).min()
    }

    /// Until when messages between two data centers are or were held back in at least one direction.
    pub(crate) fn silent_until(&self, a: DcId, b: DcId) -> Instant {
        let ways = [(a, b), (b, a)];
        let until = ways.iter().filter_map(|way| self.silent_until.get(way).copied()).max();
        until.unwrap_or_default()
    }

    /// Whether messages from one data center to another are held back.
    pub(crate) fn is_silent(&self, now: Instant, from: DcId, to: DcId) -> bool {
        self.silent_until.get(&(from, to)).is_some_and(|until| *until > now)
    }

    fn set_cut(&mut self, now: Instant, link: (DcId, DcId), in_force: bool) {
        let cuts = self.cut.entry(link).or_default();
        *cuts = if in_force { *cuts + 1 } else { cuts.saturating_sub(1) };
        if *cuts == 0 {
            self.cut_since.remove(&link);
        } else {
            self.cut_since.entry(link).or_insert(now);
        }
    }

    fn is_cut(&self, from: DcId, to: DcId) -> bool {
        self.cut.get(&(from, to)).is_some_and(|cuts| *cuts > 0)
    }

    /// Draws whether a fault of this probability occurs.
    fn occurs(&mut self, chance: f64) -> bool {
        chance > 0.0 && unit(&mut self.chance) < chance
    }

    /// A random time of up to two round trips.
    fn some_time(&mut self, rtt: Duration) -> Duration {
        rtt.mul_f64(2.0 * unit(&mut self.chance))
    }

    /// A copy with one flipped bit.
    fn damaged(&mut self, bytes: &Bytes) -> Bytes {
        let mut damaged = bytes.to_vec();
        let bit = within(&mut self.chance, 0, 8 * damaged.len() as u64 - 1) as usize;
        damaged[bit / 8] ^= 1 << (bit % 8);
        damaged.into()
    }
}
