//! A lane on several streams.
//!
//! quinn ends a connection on one of whose streams more than 1024 spans wait for a gap before them, and one
//! overshoot on a long fat link leaves as many. A stream whose window is 2.8 MB cannot have them, but carries no more than
//! that in a round trip: 112 Mbit/s at 200 ms. So a lane that must carry more lies on several streams.
//!
//! The bytes of a lane are cut into blocks of [`BLOCK_BYTES`] which go to its streams in turn, and the reader takes
//! them in the same turn. So a lane stays one sequence of frames, whoever reads it; blocks need no numbers; and what waits
//! for a gap waits in the windows of the streams, which QUIC bounds, and nowhere else. A block is begun when QUIC has taken
//! the one before, so that no credit of the connection is spent on what cannot be read yet. One stream is the case of one
//! stripe.

use std::collections::BTreeMap;

use bytes::Bytes;
use quinn::{ReadExactError, RecvStream};

use super::Breach;
use super::frames::{HELLO_BYTES, Hello, PREFIX_BYTES, length};
use gaia_core::node::Lane;
use gaia_core::types::ShardId;

/// Which of its lane's streams a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stripe {
    pub index: u8,
    /// How many there are.
    pub count: u8,
}

/// Where the next byte of a lane lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct StripePosition {
    stripes: usize,
    stripe: usize,
    /// Bytes of the block that are to come.
    left: usize,
}

/// The streams of the lanes that a peer has yet to open whole.
#[derive(Default)]
pub(super) struct Gathering {
    lanes: BTreeMap<(ShardId, Lane), Vec<Option<RecvStream>>>,
}

/// A lane whose streams are all there.
pub(super) struct LaneReader {
    lane: Lane,
    streams: Vec<RecvStream>,
    place: StripePosition,
}

/// Why a lane gave no more.
#[derive(Debug)]
pub(super) enum LaneEnd {
    /// The peer finished it between two frames.
    Finished,
    /// The connection is gone; its own reason says why.
    Lost,
    Breach(Breach),
}

impl Stripe {
    /// All of a lane that lies on one stream.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Every stripe of a lane that has so many.
    pub fn all(count: u8) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count })
    }

    pub(super) fn checked(index: u8, count: u8, lane: Lane) -> Result<Self, Breach> {
        if index < count && count <= stripes_max(lane) {
            Ok(Self { index, count })
        } else {
            Err(Breach::Stripe { lane, index, count })
        }
    }
}

impl StripePosition {
    pub(super) fn first(stripes: usize) -> Self {
        Self { stripes, stripe: 0, left: BLOCK_BYTES }
    }

    /// The stripe that the next byte lies on.
    pub(super) fn stripe(&self) -> usize {
        self.stripe
    }

    /// How many bytes lie there before another stripe has its turn.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Goes on by so many bytes, at most those that are left.
    pub(super) fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.left, "a block is not passed over");
        self.left -= bytes;
        if self.left == 0 {
            self.stripe = (self.stripe + 1) % self.stripes;
            self.left = BLOCK_BYTES;
        }
    }
}

impl Gathering {
    /// Takes a stream whose hello has been read, and gives its lane once all of its streams are there.
    pub(super) fn insert(
        &mut self,
        hello: Hello,
        stream: RecvStream,
    ) -> Result<Option<LaneReader>, Breach> {
        let Hello { shard, lane, stripe, .. } = hello;
        let count = usize::from(stripe.count);
        let streams = self.lanes.entry((shard, lane)).or_insert_with(|| none(count));

        // A lane that is whole was emptied, and takes no more.
        let vacant = streams.len() == count && streams[usize::from(stripe.index)].is_none();
        if !vacant {
            return Err(Breach::StreamTwice { shard, lane, stripe });
        }
        streams[usize::from(stripe.index)] = Some(stream);

        if streams.iter().any(Option::is_none) {
            return Ok(None);
        }
        let streams: Vec<RecvStream> = streams.drain(..).flatten().collect();
        Ok(Some(LaneReader { lane, place: StripePosition::first(streams.len()), streams }))
    }
}

impl LaneReader {
    /// Reads the length of the next frame, which is within the lane's limit.
    pub(super) async fn length(&mut self) -> Result<usize, LaneEnd> {
        let mut prefix = [0; PREFIX_BYTES];
        self.read(&mut prefix, true).await?;
        length(prefix, self.lane).map_err(LaneEnd::Breach)
    }

    /// Reads the frame behind a length.
    pub(super) async fn frame(&mut self, length: usize) -> Result<Bytes, LaneEnd> {
        let mut frame = vec![0; length];
        self.read(&mut frame, false).await?;
        Ok(frame.into())
    }

    /// Fills `bytes`; the lane may end before the first of them where `may_end`.
    async fn read(&mut self, bytes: &mut [u8], may_end: bool) -> Result<(), LaneEnd> {
        let mut rest = &mut bytes[..];
        let mut begun = !may_end;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(rest.len().min(self.place.left()));
            let stream = &mut self.streams[self.place.stripe()];
            match stream.read_exact(now).await {
                Ok(()) => {}
                Err(ReadExactError::FinishedEarly(0)) if !begun => return Err(LaneEnd::Finished),
                Err(error) => return Err(end(&error)),
            }
            begun = true;
            self.place.advance(now.len());
            rest = later;
        }
        Ok(())
    }
}

/// Reads the hello that begins a stream.
pub(super) async fn read_hello(stream: &mut RecvStream) -> Result<Hello, LaneEnd> {
    let mut bytes = [0; HELLO_BYTES];
    stream.read_exact(&mut bytes).await.map_err(|error| end(&error))?;
    Hello::decode(bytes).map_err(LaneEnd::Breach)
}

/// On how many streams a lane may lie.
pub(super) fn stripes_max(lane: Lane) -> u8 {
    match lane {
        Lane::Control => 1,
        Lane::Data => STRIPES_MAX,
    }
}

fn none(count: usize) -> Vec<Option<RecvStream>> {
    std::iter::repeat_with(|| None).take(count).collect()
}

fn end(error: &ReadExactError) -> LaneEnd {
    match error {
        ReadExactError::FinishedEarly(_) => LaneEnd::Breach(Breach::Truncated),
        ReadExactError::ReadError(_) => LaneEnd::Lost,
    }
}

/// Enough for 1.4 Gbit/s at 200 ms.
pub(super) const STRIPES_MAX: u8 = 16;

/// Some packets, and a small part of a stream's window.
const BLOCK_BYTES: usize = 64 << 10;
