//! The way of each chunk of a shard: over which links its sum is formed, and over which its total comes back.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::server::blocks::Blocks;
use crate::server::config::{ExchangeRoute, ServerConfig};
use crate::types::DcId;

/// The chunks of a shard in the order in which this data center works on them, and their ways through it.
///
/// A frame does not say to which chunk it belongs. Chunks go over a link in the order of both ends, which is the same
/// for the chunks that the two share.
#[derive(Debug)]
pub(super) struct Route {
    chunks: Vec<Chunk>,
    /// The chunks of which a data center sends partial sums, and totals, in order.
    partials: BTreeMap<DcId, Vec<usize>>,
    totals: BTreeMap<DcId, Vec<usize>>,
}

/// A chunk of the shard, and its way through this data center.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) range: Range<usize>,
    /// The data centers whose partial sums are added up here, with this one, ascending.
    pub(super) summed: Vec<DcId>,
    /// Where the sum and its total are exchanged. `None` if the sum here is the total.
    pub(super) up: Option<Up>,
    /// The data centers to which this one sends the total.
    pub(super) down: Vec<DcId>,
}

/// The data centers between which and this one a chunk goes, towards the one that forms the total.
#[derive(Clone, Copy, Debug)]
pub(super) struct Up {
    /// The receiver of the sum that is formed here.
    pub(super) to: DcId,
    /// The sender of the total.
    pub(super) from: DcId,
}

impl Route {
    pub(super) fn new(config: &ServerConfig, parameters: usize) -> Self {
        let own = config.id.dc;
        let mut all: Vec<DcId> = config.links.keys().copied().chain([own]).collect();
        all.sort_unstable();

        let chunks = match &config.route {
            ExchangeRoute::Homes => homes(own, &all, &config.blocks, parameters),
            ExchangeRoute::Ring(order) => ring(own, order, parameters),
            ExchangeRoute::Tree(parents) => tree(own, parents, parameters),
        };

        let mut route = Self { chunks, partials: BTreeMap::new(), totals: BTreeMap::new() };
        for (number, chunk) in route.chunks.iter().enumerate() {
            for from in chunk.summed.iter().filter(|dc| **dc != own) {
                route.partials.entry(*from).or_default().push(number);
            }
            if let Some(up) = chunk.up {
                route.totals.entry(up.from).or_default().push(number);
            }
        }
        route
    }

    pub(super) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The chunks whose partial sums a data center sends to this one, in order.
    pub(super) fn partials_of(&self, from: DcId) -> &[usize] {
        self.partials.get(&from).map_or(&[], Vec::as_slice)
    }

    /// The chunks whose totals a data center sends to this one, in order.
    pub(super) fn totals_of(&self, from: DcId) -> &[usize] {
        self.totals.get(&from).map_or(&[], Vec::as_slice)
    }
}

impl Chunk {
    /// Whether no other data center's changes are added to those of this one here.
    pub(super) fn is_leaf(&self) -> bool {
        self.summed.len() == 1
    }

    /// The place of a data center among those that are summed here, in the form of a sum's parts.
    pub(super) fn place_of(&self, dc: DcId) -> Option<DcId> {
        self.summed.binary_search(&dc).ok().map(|place| DcId(place as u16))
    }
}

/// All data centers send their part of a chunk to its home, which sends the total back.
///
/// The shard is cut into stripes, and each stripe into one chunk for each home. So a home has a sample of the whole shard:
/// where workers change few parameters, they change some regions of the shard more than others.
fn homes(own: DcId, all: &[DcId], blocks: &Blocks, parameters: usize) -> Vec<Chunk> {
    let others = || all.iter().copied().filter(move |dc| *dc != own);
    let count = pieces(parameters / all.len(), HOME_CHUNKS_MAX);
    let chunks = (0..count).flat_map(|piece| {
        let stripe = cut(&(0..parameters), piece, count);
        all.iter().map(move |home| {
            let within = blocks.range(stripe.len(), *home);
            (*home, stripe.start + within.start..stripe.start + within.end)
        })
    });
    let chunk = |(home, range)| match home == own {
        true => Chunk { range, summed: all.to_vec(), up: None, down: others().collect() },
        false => Chunk {
            range,
            summed: vec![own],
            up: Some(Up { to: home, from: home }),
            down: Vec::new(),
        },
    };
    chunks.map(chunk).collect()
}

/// One chunk for each data center. Its sum goes once around the ring, from the data center behind the one that it
/// belongs to up to that one, and its total goes around in the same direction (Patarasuk and Yuan, 2009).
fn ring(own: DcId, order: &[DcId], parameters: usize) -> Vec<Chunk> {
    let count = order.len();
    let place = order.iter().position(|dc| *dc == own).expect("a ring has all data centers");
    let (before, behind) = (order[(place + count - 1) % count], order[(place + 1) % count]);

    let numbers = (1..=count).map(|back| (place + count - back) % count);
    let chunk = |(back, number): (usize, usize)| {
        let mut summed = if back == 0 { vec![own] } else { vec![own, before] };
        summed.sort_unstable();
        let is_total = number == place;
        let ends_behind = number == (place + 1) % count;
        Chunk {
            range: cut(&(0..parameters), number, count),
            summed,
            up: (!is_total).then_some(Up { to: behind, from: before }),
            down: if ends_behind { Vec::new() } else { vec![behind] },
        }
    };
    numbers.enumerate().map(chunk).collect()
}

/// Sums go to the root of a tree, from each data center to its parent, and totals back, chunk by chunk.
fn tree(own: DcId, parents: &[Option<DcId>], parameters: usize) -> Vec<Chunk> {
    let children: Vec<DcId> = (0..parents.len() as u16)
        .map(DcId)
        .filter(|child| parents[child.index()] == Some(own))
        .collect();
    let mut summed = children.clone();
    summed.push(own);
    summed.sort_unstable();

    let count = pieces(parameters, TREE_CHUNKS_MAX);
    let chunk = |piece| Chunk {
        range: cut(&(0..parameters), piece, count),
        summed: summed.clone(),
        up: parents[own.index()].map(|parent| Up { to: parent, from: parent }),
        down: children.clone(),
    };
    (0..count).map(chunk).collect()
}

/// How many chunks are worth their frames, at least 1.
fn pieces(parameters: usize, most: usize) -> usize {
    (parameters / CHUNK_LEAST).clamp(1, most)
}

fn cut(range: &Range<usize>, piece: usize, count: usize) -> Range<usize> {
    let at = |piece| range.start + range.len() * piece / count;
    at(piece)..at(piece + 1)
}

/// The parameters of a chunk, at least on average, unless there are fewer. They are 4 KiB, against some 50 bytes of a
/// frame.
const CHUNK_LEAST: usize = 1 << 10;

/// The number of chunks of a home. The home sends the first totals while it receives the last parts.
const HOME_CHUNKS_MAX: usize = 32;

/// The number of chunks in a tree. An exchange takes the time of as many more chunks as the longest path has links.
const TREE_CHUNKS_MAX: usize = 1024;
