//! A lane over several streams.
//!
//! quinn closes a connection if more than 1024 received spans of one of its streams wait for a gap before them. One
//! overshoot on a link with a large bandwidth-delay product causes as many. A stream with a window of 2.8 MB cannot
//! have them, but carries no more than its window in a round trip: 112 Mbit/s at 200 ms. So a lane that must carry
//! more uses several streams.
//!
//! The bytes of a lane are divided into blocks of [`BLOCK_BYTES`], which use its streams in turn. The reader reads
//! them in the same order. So a lane stays one sequence of frames, and blocks need no numbers. Bytes behind a gap
//! wait in the windows of the streams, which QUIC bounds, and nowhere else. A block begins when QUIC has accepted the
//! one before, so that no credit of the connection is used for bytes that cannot be read yet. One stream is the case
//! of one stripe.

use std::collections::BTreeMap;

use bytes::Bytes;
use quinn::{ReadExactError, RecvStream};

use super::Breach;
use super::frames::{HELLO_BYTES, Hello, PREFIX_BYTES, length};
use gaia_core::node::Lane;
use gaia_core::types::ShardId;

/// The position of the next byte of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct StripePosition {
    stripes: usize,
    stripe: usize,
    /// The bytes that remain of the block.
    left: usize,
}

/// The streams of lanes of which the peer has not opened all streams.
#[derive(Default)]
pub(super) struct Gathering {
    lanes: BTreeMap<(ShardId, Lane), Vec<Option<RecvStream>>>,
}

/// A lane of which all streams are open.
pub(super) struct LaneReader {
    lane: Lane,
    streams: Vec<RecvStream>,
    place: StripePosition,
}

/// Why a lane has ended.
#[derive(Debug)]
pub(super) enum LaneEnd {
    /// The peer has finished it between two frames.
    Finished,
    /// The connection is lost. Its own error has the reason.
    Lost,
    Breach(Breach),
}

impl StripePosition {
    pub(super) fn first(stripes: usize) -> Self {
        Self { stripes, stripe: 0, left: BLOCK_BYTES }
    }

    /// The stripe of the next byte.
    pub(super) fn stripe(&self) -> usize {
        self.stripe
    }

    /// The number of bytes before the next stripe.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Advances by this number of bytes, which must be at most [`Self::left`].
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
    /// Adds a stream whose hello is read. Returns its lane once all its streams are open.
    pub(super) fn insert(
        &mut self,
        hello: Hello,
        stream: RecvStream,
    ) -> Result<Option<LaneReader>, Breach> {
        let Hello { shard, lane, stripe, .. } = hello;
        let count = usize::from(stripe.count);
        let streams = self.lanes.entry((shard, lane)).or_insert_with(|| none(count));

        // A complete lane is empty here, and accepts no stream.
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
    /// Reads the length of the next frame, and checks it against the lane's limit.
    pub(super) async fn length(&mut self) -> Result<usize, LaneEnd> {
        let mut prefix = [0; PREFIX_BYTES];
        self.read(&mut prefix).await?;
        length(prefix, self.lane).map_err(LaneEnd::Breach)
    }

    /// Reads a frame of this length.
    pub(super) async fn frame(&mut self, length: usize) -> Result<Bytes, LaneEnd> {
        let mut frame = Vec::with_capacity(length);
        while frame.len() < length {
            let most = (length - frame.len()).min(self.place.left());
            let chunk = self.streams[self.place.stripe()].read_chunk(most, true).await;
            let chunk = chunk.map_err(|_| LaneEnd::Lost)?;
            let chunk = chunk.ok_or(LaneEnd::Breach(Breach::Truncated))?;
            frame.extend_from_slice(&chunk.bytes);
            self.place.advance(chunk.bytes.len());
        }
        Ok(frame.into())
    }

    /// Fills `bytes`. The lane may end before the first of them.
    async fn read(&mut self, bytes: &mut [u8]) -> Result<(), LaneEnd> {
        let mut rest = &mut bytes[..];
        let mut begun = false;
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

/// Reads the hello of a stream.
pub(super) async fn read_hello(stream: &mut RecvStream) -> Result<Hello, LaneEnd> {
    let mut bytes = [0; HELLO_BYTES];
    stream.read_exact(&mut bytes).await.map_err(|error| end(&error))?;
    Hello::decode(bytes).map_err(LaneEnd::Breach)
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

/// Some packets, and a small part of a stream's window.
const BLOCK_BYTES: usize = 64 << 10;
