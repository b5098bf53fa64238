//! LAN frames: messages between nodes that are not mirrors, split into frames of bounded size.
//!
//! Messages within a data center, and between nodes and the coordinator, can be longer than a frame should be: the
//! reply to a read of a whole shard is as long as the shard. So a message is sent as one or more frames. All but the
//! last are marked as continued. The receiver, which knows the largest valid size, reassembles the message with
//! [`Gathering`].
//!
//! The envelope has the kind of the message in the field of the bulk kind. A 1 in the field of the value format means
//! that the message continues in the next frame.

use std::borrow::Cow;
use std::io::IoSlice;

use bytes::{Buf, BufMut};

use super::envelope::{self, ENVELOPE_BYTES, Family};
use super::received_body::ReceivedBody;
use super::{FrameError, LanBody};

/// The type of a LAN message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanKind {
    /// The first message on a connection, in both directions.
    Hello,
    /// From a worker to a server of its data center.
    WorkerMessage,
    /// From a server to a worker of its data center.
    RowsRead,
    /// From the coordinator to a node.
    Order,
    /// From a node to the coordinator.
    Report,
    /// A server's copy of its shard, to a worker of its data center or to the coordinator.
    Copy,
    /// The summary of a data center's data, to the coordinator and from it to all nodes.
    Summary,
    /// Between a server and a worker of its data center, of models with sparse tables: which rows of copies the worker
    /// evaluates, and these rows of the server's copy.
    CopyRows,
}

impl LanKind {
    const ALL: [Self; 8] = [
        Self::Hello,
        Self::WorkerMessage,
        Self::RowsRead,
        Self::Order,
        Self::Report,
        Self::Copy,
        Self::Summary,
        Self::CopyRows,
    ];
}

/// Appends the frames of one message to `out`.
pub fn encode_lan(kind: LanKind, body: &LanBody, out: &mut Vec<u8>) {
    out.put(body.frames(kind));
}

/// The bytes of a message's frames, one frame after another: those of the body are not copied.
#[derive(Debug)]
pub struct LanFrames<'a> {
    kind: LanKind,
    pieces: Vec<Cow<'a, [u8]>>,
    /// The piece that the next byte of the body is in, and the position in it.
    at: (usize, usize),
    envelope: [u8; ENVELOPE_BYTES],
    /// The bytes of the envelope that were taken.
    envelope_taken: usize,
    /// The bytes of the body that the frame has left.
    left: usize,
    /// The bytes of the body that are in later frames.
    later: usize,
}

impl<'a> LanFrames<'a> {
    /// Of a body in pieces.
    pub(super) fn new(kind: LanKind, pieces: Vec<Cow<'a, [u8]>>) -> Self {
        let later = pieces.iter().map(|piece| piece.len()).sum();
        let envelope = [0; ENVELOPE_BYTES];
        let mut frames =
            Self { kind, pieces, at: (0, 0), envelope, envelope_taken: 0, left: 0, later };
        frames.begin();
        frames
    }

    /// Begins the next frame.
    fn begin(&mut self) {
        self.left = self.later.min(PART_BYTES_MAX);
        self.later -= self.left;
        let more = u8::from(self.later > 0);
        self.envelope = envelope::of(Family::Lan, self.kind as u8, more, self.body());
        self.envelope_taken = 0;
    }

    /// What the frame has left of the body.
    fn body(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let (first, mut from, mut missing) = (self.at.0, self.at.1, self.left);
        self.pieces[first..].iter().map_while(move |piece| {
            let rest = &piece[std::mem::take(&mut from)..];
            let part = &rest[..rest.len().min(missing)];
            let is_there = missing > 0;
            missing -= part.len();
            is_there.then_some(part)
        })
    }

    /// All that the frame has left, in pieces that are not empty.
    fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let envelope = std::iter::once(&self.envelope[self.envelope_taken..]);
        envelope.chain(self.body()).filter(|chunk| !chunk.is_empty())
    }
}

impl Buf for LanFrames<'_> {
    fn remaining(&self) -> usize {
        let envelopes = self.later.div_ceil(PART_BYTES_MAX) * ENVELOPE_BYTES;
        ENVELOPE_BYTES - self.envelope_taken + self.left + self.later + envelopes
    }

    fn chunk(&self) -> &[u8] {
        self.chunks().next().unwrap_or_default()
    }

    /// Never beyond the frame.
    fn chunks_vectored<'s>(&'s self, chunks: &mut [IoSlice<'s>]) -> usize {
        let mut filled = 0;
        for (slot, chunk) in chunks.iter_mut().zip(self.chunks()) {
            *slot = IoSlice::new(chunk);
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, count: usize) {
        let of_envelope = count.min(ENVELOPE_BYTES - self.envelope_taken);
        self.envelope_taken += of_envelope;
        let mut count = count - of_envelope;
        assert!(count <= self.left, "no chunk is longer than the rest of the frame");
        self.left -= count;

        let (piece, from) = &mut self.at;
        while count > 0 {
            let rest = self.pieces[*piece].len() - *from;
            let taken = rest.min(count);
            (*piece, *from) = if taken == rest { (*piece + 1, 0) } else { (*piece, *from + taken) };
            count -= taken;
        }
        if self.chunk().is_empty() && self.later > 0 {
            self.begin();
        }
    }
}

/// Reassembles the messages of one connection from their frames.
#[derive(Debug, Default)]
pub struct Gathering {
    /// The unfinished message.
    open: Option<OpenMessage>,
}

/// A message of which more is to arrive.
#[derive(Debug)]
struct OpenMessage {
    kind: LanKind,
    /// The memory of the body, as numbers. More than its bytes need, where the memory was larger before.
    numbers: Vec<f32>,
    /// The bytes of the body so far.
    bytes: usize,
    /// The envelope of the latest frame.
    envelope: [u8; ENVELOPE_BYTES],
    /// Where the part of the body begins that the latest frame has.
    from: usize,
}

impl OpenMessage {
    /// Appends so many bytes to the body, for the caller to write.
    fn extend(&mut self, bytes: usize) -> &mut [u8] {
        self.from = self.bytes;
        self.bytes += bytes;
        let numbers = self.bytes.div_ceil(size_of::<f32>());
        if numbers > self.numbers.len() {
            self.numbers.resize(numbers, 0.0);
        }
        &mut bytemuck::cast_slice_mut::<f32, u8>(&mut self.numbers)[self.from..self.bytes]
    }

    /// The part of the body that the latest frame has.
    fn part(&self) -> &[u8] {
        &bytemuck::cast_slice::<f32, u8>(&self.numbers)[self.from..self.bytes]
    }
}

impl Gathering {
    /// Begins a frame with its envelope. Returns the memory for the rest of the frame, which the caller fills before it calls
    /// [`Self::finish_frame`]. `bytes_max` is the largest size of a message of a kind. It bounds the memory that a peer can
    /// make this node allocate. A message is put together in the memory of `spare`, whose numbers nobody needs.
    ///
    /// # Errors
    /// If the frame is of another version or of another kind than the unfinished message, or the message is too long. The
    /// connection must be closed.
    pub fn begin_frame(
        &mut self,
        envelope: &[u8; ENVELOPE_BYTES],
        bytes_max: impl Fn(LanKind) -> usize,
        spare: impl FnOnce() -> Vec<f32>,
    ) -> Result<&mut [u8], FrameError> {
        let (number, more, bytes) = envelope::check_first(Family::Lan, envelope)?;
        let most = LanKind::ALL.len() as u8 - 1;
        let unknown = FrameError::PeerSentUnknownKind { found: number, most };
        let kind = *LanKind::ALL.get(usize::from(number)).ok_or(unknown)?;
        if more > 1 {
            return Err(FrameError::PeerUsedReservedBytes);
        }

        let open = self.open.get_or_insert_with(|| OpenMessage {
            kind,
            numbers: spare(),
            bytes: 0,
            envelope: *envelope,
            from: 0,
        });
        if open.kind != kind {
            let error = format!("a {kind:?} frame within a {:?} message", open.kind);
            return Err(FrameError::PeerSentBadMessage(error));
        }
        let (total, most) = (open.bytes + bytes, bytes_max(kind));
        if total > most {
            return Err(FrameError::PeerSentOutOfBounds {
                what: "a message of size",
                found: total as u64,
                most: most as u64,
            });
        }

        open.envelope = *envelope;
        Ok(open.extend(bytes))
    }

    /// Adds a whole frame.
    ///
    /// # Errors
    /// Those of [`Self::begin_frame`] and [`Self::finish_frame`], and if the frame has not the size that it says.
    pub fn push(
        &mut self,
        frame: &[u8],
        bytes_max: impl Fn(LanKind) -> usize,
        spare: impl FnOnce() -> Vec<f32>,
    ) -> Result<Option<(LanKind, ReceivedBody)>, FrameError> {
        let present = frame.len();
        let Some((envelope, rest)) = frame.split_first_chunk::<ENVELOPE_BYTES>() else {
            let (bytes, expected) = (present, ENVELOPE_BYTES);
            return Err(FrameError::PeerSentShortFrame { bytes, expected });
        };
        let part = self.begin_frame(envelope, bytes_max, spare)?;
        if part.len() != rest.len() {
            let claimed = ENVELOPE_BYTES + part.len();
            return Err(FrameError::PeerSentWrongLength { claimed, present });
        }
        part.copy_from_slice(rest);
        self.finish_frame()
    }

    /// Ends the frame, whose bytes have arrived. Returns the message that it completes, if any.
    ///
    /// # Errors
    /// If the frame is damaged. The connection must be closed.
    pub fn finish_frame(&mut self) -> Result<Option<(LanKind, ReceivedBody)>, FrameError> {
        let Some(open) = &self.open else { return Ok(None) };
        envelope::check_crc(&open.envelope, open.part())?;
        let is_last = envelope::format_of(&open.envelope) == 0;
        let whole = self.open.take_if(|_| is_last);
        Ok(whole.map(|open| (open.kind, ReceivedBody::new(open.numbers, open.bytes))))
    }
}

/// Small enough that a slow link transfers a frame every few seconds. Each frame is a sign of life for the receiver.
const PART_BYTES_MAX: usize = (256 << 10) - ENVELOPE_BYTES;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frame_len;
    use super::*;

    fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
        let mut frames = Vec::new();
        while let Some(length) = frame_len(bytes).unwrap() {
            let (frame, rest) = bytes.split_at(length);
            frames.push(frame);
            bytes = rest;
        }
        assert!(bytes.is_empty());
        frames
    }

    fn encoded(kind: LanKind, body: Vec<u8>) -> Vec<u8> {
        let mut out = Vec::new();
        encode_lan(kind, &body.into(), &mut out);
        out
    }

    #[test]
    fn a_long_message_is_gathered_from_its_frames() {
        for length in [0, 1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 3 * PART_BYTES_MAX] {
            let body: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let out = encoded(LanKind::Copy, body.clone());
            let mut gathering = Gathering::default();
            let mut whole = None;
            for frame in frames(&out) {
                assert!(whole.is_none());
                whole = gathering.push(frame, |_| length, || vec![1.0; 7]).unwrap();
            }
            let (kind, found) = whole.expect("the last frame completes the message");
            assert!(kind == LanKind::Copy && found[..] == body);
        }
    }

    #[test]
    fn a_body_in_pieces_has_the_frames_of_its_bytes() {
        for values in [0, 255, 256, PART_BYTES_MAX / 4, PART_BYTES_MAX / 2 + 1] {
            let mut body = LanBody::from(vec![1, 2, 3]);
            let values: Vec<f32> = (0..values).map(|value| value as f32).collect();
            body.push_values(&values.into());
            body.bytes_mut().extend([4, 5]);
            let whole = encoded(LanKind::RowsRead, body.to_vec());

            let mut pieces = Vec::new();
            encode_lan(LanKind::RowsRead, &body, &mut pieces);
            assert!(pieces == whole);
        }
    }

    /// As a socket takes them: a part of several pieces at a time.
    #[test]
    fn frames_are_the_same_however_many_bytes_are_taken_at_once() {
        let mut body = LanBody::from(vec![7; 300]);
        body.push_values(&vec![1.5; PART_BYTES_MAX / 3].into());
        body.bytes_mut().extend([8; 9]);
        let whole = encoded(LanKind::RowsRead, body.to_vec());
        for most in [1_000, 4_099, PART_BYTES_MAX, usize::MAX] {
            let (mut frames, mut taken) = (body.frames(LanKind::RowsRead), Vec::new());
            while frames.has_remaining() {
                assert_eq!(frames.remaining(), whole.len() - taken.len());
                let mut chunks = [IoSlice::new(&[]); 3];
                let count = frames.chunks_vectored(&mut chunks);
                assert_eq!(&chunks[0][..], frames.chunk());
                let mut at_once: Vec<u8> =
                    chunks[..count].iter().flat_map(|c| c.to_vec()).collect();
                at_once.truncate(most);
                frames.advance(at_once.len());
                taken.extend(at_once);
            }
            assert!(taken == whole, "at most {most} at once");
        }
    }

    #[test]
    fn a_message_is_put_together_in_memory_of_others() {
        let out = encoded(LanKind::Copy, vec![3; 9]);
        for numbers in [0, 2, 3, 100] {
            let spare = vec![1.0; numbers];
            let address = spare.as_ptr();
            let whole = Gathering::default().push(&out, |_| 9, || spare).unwrap();
            let (_, body) = whole.expect("one frame is the message");
            assert_eq!(body[..], [3; 9]);
            assert!(numbers < 3 || body.memory().as_ptr() == address);
        }
    }

    #[test]
    fn a_message_beyond_its_bound_is_refused_at_the_frame_that_breaks_it() {
        let out = encoded(LanKind::Report, vec![7; 2 * PART_BYTES_MAX]);
        let frames = frames(&out);
        let mut gathering = Gathering::default();
        assert!(matches!(gathering.push(frames[0], |_| PART_BYTES_MAX, Vec::new), Ok(None)));
        assert!(matches!(
            gathering.push(frames[1], |_| PART_BYTES_MAX, Vec::new),
            Err(FrameError::PeerSentOutOfBounds { .. })
        ));
    }

    #[test]
    fn a_message_within_another_is_refused() {
        let long = encoded(LanKind::Copy, vec![7; 2 * PART_BYTES_MAX]);
        let short = encoded(LanKind::Report, vec![1]);
        let mut gathering = Gathering::default();
        let first = gathering.push(frames(&long)[0], |_| usize::MAX, Vec::new);
        assert!(matches!(first, Ok(None)));
        let error = gathering.push(&short, |_| usize::MAX, Vec::new);
        assert!(matches!(error, Err(FrameError::PeerSentBadMessage(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Gathering::default().push(&bytes, |_| 1 << 10, Vec::new);
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0_usize..(8 * 24)) {
            let mut out = encoded(LanKind::Order, vec![5; 8]);
            out[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Gathering::default().push(&out, |_| 1 << 10, Vec::new).is_err());
        }
    }
}
