//! Counters of the frames sent in each lane of one directed link.

use std::sync::atomic::{AtomicU64, Ordering};

use gaia_core::link::Train;
use gaia_core::node::Lane;

/// The frames of one lane that QUIC has accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneTraffic {
    /// The number of frames.
    pub frames: u64,
    /// The size of the frames in bytes, without headers.
    pub payload_bytes: u64,
    /// The size of the frames on the wire in bytes, computed like in the simulated driver.
    pub wire_bytes: u64,
}

/// Counts the frames of one directed link.
#[derive(Debug, Default)]
pub struct LaneCounters {
    control: LaneCounter,
    data: LaneCounter,
}

#[derive(Debug, Default)]
struct LaneCounter {
    frames: AtomicU64,
    payload_bytes: AtomicU64,
    wire_bytes: AtomicU64,
}

impl LaneCounters {
    /// Counts a frame of `bytes`, without its length prefix.
    pub fn count(&self, lane: Lane, bytes: usize) {
        let counter = match lane {
            Lane::Control => &self.control,
            Lane::Data => &self.data,
        };
        counter.frames.fetch_add(1, Ordering::Relaxed);
        counter.payload_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        counter.wire_bytes.fetch_add(Train::of(bytes as u64).bytes, Ordering::Relaxed);
    }

    /// The control lane and the data lane so far.
    pub fn read(&self) -> (LaneTraffic, LaneTraffic) {
        (self.control.read(), self.data.read())
    }
}

impl LaneCounter {
    fn read(&self) -> LaneTraffic {
        LaneTraffic {
            frames: self.frames.load(Ordering::Relaxed),
            payload_bytes: self.payload_bytes.load(Ordering::Relaxed),
            wire_bytes: self.wire_bytes.load(Ordering::Relaxed),
        }
    }
}
