//! The links between data centers, one for each directed pair. The servers of the sender share it.

use std::time::Duration;

use crate::recorder::{AllLinkCounters, LinkCounters};
use gaia_core::link::{FrameFate, LinkConfig, Transport};
use gaia_core::persist;
use gaia_core::topology::Topology;
use gaia_core::types::{Bandwidth, DcId, Instant, Seed, ShardId};

/// All directed links.
pub struct SimulatedWan {
    data_centers: usize,
    shards: usize,
    /// By sender, then receiver; `None` on the diagonal.
    links: Vec<Option<DirectedLink>>,
}

struct DirectedLink {
    transport: Transport,
    /// Whether a `LinkReady` is scheduled.
    waiting: bool,
    /// The shard that sends next.
    turn: usize,
    /// The data frame in transmission: its shard, its size in bytes, and for how long it occupies the link.
    leaving: (ShardId, u64, Duration),
}

impl SimulatedWan {
    /// The links of a topology. The seed determines which packets are lost.
    pub fn new(topology: &Topology, shards: usize, seed: Seed) -> Self {
        let data_centers = topology.data_centers.len();
        let pairs = topology.dc_ids().flat_map(|from| topology.dc_ids().map(move |to| (from, to)));
        let links = pairs
            .enumerate()
            .map(|(pair, (from, to))| {
                (from != to).then(|| {
                    let link = topology.link(from, to);
                    let config = LinkConfig {
                        bandwidth: link.bandwidth,
                        delay: link.rtt.0 / 2,
                        queue: link.queue,
                        loss: link.loss,
                    };
                    DirectedLink {
                        transport: Transport::new(config, seed.nth(pair)),
                        waiting: false,
                        turn: 0,
                        leaving: (ShardId(0), 0, Duration::ZERO),
                    }
                })
            })
            .collect();

        Self { data_centers, shards, links }
    }

    /// All shards.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shards as u16).map(ShardId)
    }

    /// The shards in the order in which they may use a link next.
    pub fn turns(&self, from: DcId, to: DcId) -> impl Iterator<Item = ShardId> + use<> {
        let (turn, shards) = (self.link(from, to).turn, self.shards);
        (0..shards).map(move |step| ShardId(((turn + step) % shards) as u16))
    }

    /// Sends a control frame of this size in bytes.
    pub fn send_control(&mut self, from: DcId, to: DcId, now: Instant, bytes: usize) -> FrameFate {
        self.link_mut(from, to).transport.send_control(now, bytes as u64)
    }

    /// Sends a data frame. The caller must schedule a `LinkReady` for the end of its transmission.
    pub fn send_data(
        &mut self,
        from: DcId,
        to: DcId,
        shard: ShardId,
        now: Instant,
        bytes: usize,
    ) -> FrameFate {
        let shards = self.shards;
        let link = self.link_mut(from, to);
        let sent = link.transport.send_data(now, bytes as u64);
        link.waiting = true;
        link.turn = (shard.index() + 1) % shards;
        link.leaving = (shard, bytes as u64, sent.busy);
        sent
    }

    /// Changes a link's bandwidth from `now` on.
    pub fn set_bandwidth(&mut self, from: DcId, to: DcId, now: Instant, bandwidth: Bandwidth) {
        self.link_mut(from, to).transport.set_bandwidth(now, bandwidth);
    }

    /// Charges the reverse link for acknowledgements of packets that arrived at `at` from `of`.
    pub fn acknowledge(&mut self, at: DcId, of: DcId, now: Instant, packets: u64) {
        self.link_mut(at, of).transport.acknowledge(now, packets);
    }

    /// Whether a `LinkReady` is scheduled.
    pub fn is_waiting(&self, from: DcId, to: DcId) -> bool {
        self.link(from, to).waiting
    }

    /// Records that a `LinkReady` is scheduled.
    pub fn wait(&mut self, from: DcId, to: DcId) {
        self.link_mut(from, to).waiting = true;
    }

    /// When the link will have room, or `None` if it has room.
    pub fn room_at(&self, from: DcId, to: DcId, now: Instant) -> Option<Instant> {
        let transport = &self.link(from, to).transport;
        (!transport.has_room(now)).then(|| transport.room_at())
    }

    /// When the control frames sent so far will have left the link.
    pub fn control_idle_at(&self, from: DcId, to: DcId) -> Instant {
        self.link(from, to).transport.control_idle_at()
    }

    /// When control frames in the queue will fit into one quantum of data, or `None` if they do.
    pub fn control_room_at(&self, from: DcId, to: DcId, now: Instant) -> Option<Instant> {
        let at = self.link(from, to).transport.control_room_at();
        (at > now).then_some(at)
    }

    /// The largest data frame that keeps the control lane prompt, in bytes.
    pub fn room(&self, from: DcId, to: DcId) -> usize {
        self.link(from, to).transport.quantum().0 as usize
    }

    /// Handles a `LinkReady`. Returns the data frame that has left since the one before.
    pub fn on_ready(&mut self, from: DcId, to: DcId) -> (ShardId, u64, Duration) {
        let link = self.link_mut(from, to);
        link.waiting = false;
        let left = link.leaving;
        link.leaving = (left.0, 0, Duration::ZERO);
        left
    }

    /// The traffic of each link, in the order of the topology's links.
    pub(crate) fn link_counters(&self) -> AllLinkCounters {
        let links = self.links.iter().flatten();
        links
            .map(|link| {
                let carried = link.transport.stats().carried;
                LinkCounters {
                    bytes: carried.bytes,
                    control_bytes: link.transport.control_bytes(),
                    frames: link.transport.frames(),
                    busy: carried.busy,
                }
            })
            .collect()
    }

    fn link(&self, from: DcId, to: DcId) -> &DirectedLink {
        let index = from.index() * self.data_centers + to.index();
        self.links[index].as_ref().expect("a link joins two different data centers")
    }

    fn link_mut(&mut self, from: DcId, to: DcId) -> &mut DirectedLink {
        let index = from.index() * self.data_centers + to.index();
        self.links[index].as_mut().expect("a link joins two different data centers")
    }
}

persist! {
    impl Persist<()> for SimulatedWan {
        fn walk(Self { data_centers: _, shards, links }, walk, ()) {
            let shards = *shards;
            for (pair, link) in (0..).zip(links) {
                if let Some(link) = link {
                    walk.part(pair, link, shards)?;
                }
            }
            Ok(())
        }
    }
}

persist! {
    /// The argument is the number of shards.
    impl Persist<usize> for DirectedLink {
        fn walk(Self { transport, waiting, turn, leaving }, walk, shards) {
            walk.flatten(transport, ())?;
            walk.record("waiting", waiting)?;
            walk.record_that("turn", turn, |found, _| *found < shards)?;
            walk.record_that("leaving", leaving, |found, _| found.0.index() < shards)
        }
    }
}
