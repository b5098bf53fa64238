//! Which of the streams of its lane a stream is.

use gaia_core::node::Lane;

/// The position of a stream among the streams of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stripe {
    /// The number of the stream in its lane, from 0.
    pub index: u8,
    /// The number of streams of the lane.
    pub count: u8,
}

impl Stripe {
    /// The only stripe of a lane on one stream.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// All stripes of a lane with this number of them.
    pub fn all(count: u8) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count })
    }
}

/// The largest number of streams of a lane.
pub(super) fn stripes_max(lane: Lane) -> u8 {
    match lane {
        Lane::Control => 1,
        Lane::Data => STRIPES_MAX,
    }
}

/// Enough for 1.4 Gbit/s at 200 ms.
pub(super) const STRIPES_MAX: u8 = 16;
