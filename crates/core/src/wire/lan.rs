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

use super::FrameError;
use super::envelope::{self, ENVELOPE_BYTES, Family};

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
pub fn encode_lan(kind: LanKind, body: &[u8], out: &mut Vec<u8>) {
    let mut frames = LanFrames::new(kind, vec![Cow::Borrowed(body)]);
    while frames.append_next(out) {}
}

/// The frames of one message, which are made one after another.
#[derive(Debug)]
pub struct LanFrames<'a> {
    kind: LanKind,
    pieces: Vec<Cow<'a, [u8]>>,
    /// The piece that the next frame begins with, and the position in it.
    at: (usize, usize),
    /// The bytes of the body that no frame has. `None` once the last frame was made.
    left: Option<usize>,
}

impl<'a> LanFrames<'a> {
    /// Of a body in pieces.
    pub(super) fn new(kind: LanKind, pieces: Vec<Cow<'a, [u8]>>) -> Self {
        let left = Some(pieces.iter().map(|piece| piece.len()).sum());
        Self { kind, pieces, at: (0, 0), left }
    }

    /// Appends the next frame to `out`. Returns whether there was one.
    pub fn append_next(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(left) = self.left else { return false };
        let bytes = left.min(PART_BYTES_MAX);
        self.left = (left > bytes).then_some(left - bytes);

        let more = u8::from(self.left.is_some());
        let start = envelope::open(Family::Lan, self.kind as u8, more, out);
        self.append_body(bytes, out);
        envelope::seal(Family::Lan, start, out);
        true
    }

    fn append_body(&mut self, bytes: usize, out: &mut Vec<u8>) {
        let (mut missing, (mut piece, mut from)) = (bytes, self.at);
        while missing > 0 {
            let rest = &self.pieces[piece][from..];
            let part = &rest[..rest.len().min(missing)];
            out.extend_from_slice(part);
            missing -= part.len();
            (piece, from) =
                if part.len() == rest.len() { (piece + 1, 0) } else { (piece, from + part.len()) };
        }
        self.at = (piece, from);
    }
}

/// Reassembles the messages of one connection from their frames.
#[derive(Debug, Default)]
pub struct Gathering {
    /// The unfinished message and the part of it that was received.
    open: Option<(LanKind, Vec<u8>)>,
}

impl Gathering {
    /// Adds a whole frame. Returns the message that it completes, if any. `bytes_max` is the largest size of a message
    /// of a kind. It bounds the memory that a peer can make this node allocate. A message is put together in the memory of
    /// `spare`, whose bytes nobody needs.
    ///
    /// # Errors
    /// If the frame is damaged, of another version or of another kind than the unfinished message, or the message is
    /// too long. The connection must be closed.
    pub fn push(
        &mut self,
        frame: &[u8],
        bytes_max: impl Fn(LanKind) -> usize,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<(LanKind, Vec<u8>)>, FrameError> {
        let (number, more, part) = envelope::check(Family::Lan, frame)?;
        let most = LanKind::ALL.len() as u8 - 1;
        let unknown = FrameError::PeerSentUnknownKind { found: number, most };
        let kind = *LanKind::ALL.get(usize::from(number)).ok_or(unknown)?;

        if more > 1 {
            return Err(FrameError::PeerUsedReservedBytes);
        }
        let (open, mut body) = self.open.take().unwrap_or_else(|| {
            let mut body = spare();
            body.clear();
            (kind, body)
        });

        if open != kind {
            let error = format!("a {kind:?} frame within a {open:?} message");
            return Err(FrameError::PeerSentBadMessage(error));
        }

        let (bytes, most) = (body.len() + part.len(), bytes_max(kind));
        if bytes > most {
            return Err(FrameError::PeerSentOutOfBounds {
                what: "a message of size",
                found: bytes as u64,
                most: most as u64,
            });
        }

        body.extend_from_slice(part);
        if more == 1 {
            self.open = Some((kind, body));
            return Ok(None);
        }

        Ok(Some((kind, body)))
    }
}

/// Small enough that a slow link transfers a frame every few seconds. Each frame is a sign of life for the receiver.
const PART_BYTES_MAX: usize = (256 << 10) - ENVELOPE_BYTES;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{LanBody, frame_len};
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

    #[test]
    fn a_long_message_is_gathered_from_its_frames() {
        for length in [0, 1, PART_BYTES_MAX, PART_BYTES_MAX + 1, 3 * PART_BYTES_MAX] {
            let body: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let mut out = Vec::new();
            encode_lan(LanKind::Copy, &body, &mut out);
            let mut gathering = Gathering::default();
            let mut whole = None;
            for frame in frames(&out) {
                assert_eq!(whole, None);
                whole = gathering.push(frame, |_| length, || vec![1; 7]).unwrap();
            }
            assert_eq!(whole, Some((LanKind::Copy, body)));
        }
    }

    #[test]
    fn a_body_in_pieces_has_the_frames_of_its_bytes() {
        for values in [0, 255, 256, PART_BYTES_MAX / 4, PART_BYTES_MAX / 2 + 1] {
            let mut body = LanBody::from(vec![1, 2, 3]);
            let values: Vec<f32> = (0..values).map(|value| value as f32).collect();
            body.push_values(&values.into());
            body.bytes_mut().extend([4, 5]);
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            encode_lan(LanKind::RowsRead, &body.to_vec(), &mut whole);
            let mut frames = body.frames(LanKind::RowsRead);
            while frames.append_next(&mut pieces) {}
            assert!(pieces == whole);
        }
    }

    #[test]
    fn a_message_beyond_its_bound_is_refused_at_the_frame_that_breaks_it() {
        let mut out = Vec::new();
        encode_lan(LanKind::Report, &vec![7; 2 * PART_BYTES_MAX], &mut out);
        let frames = frames(&out);
        let mut gathering = Gathering::default();
        assert_eq!(gathering.push(frames[0], |_| PART_BYTES_MAX, Vec::new), Ok(None));
        assert!(matches!(
            gathering.push(frames[1], |_| PART_BYTES_MAX, Vec::new),
            Err(FrameError::PeerSentOutOfBounds { .. })
        ));
    }

    #[test]
    fn a_message_within_another_is_refused() {
        let (mut long, mut short) = (Vec::new(), Vec::new());
        encode_lan(LanKind::Copy, &vec![7; 2 * PART_BYTES_MAX], &mut long);
        encode_lan(LanKind::Report, &[1], &mut short);
        let mut gathering = Gathering::default();
        assert_eq!(gathering.push(frames(&long)[0], |_| usize::MAX, Vec::new), Ok(None));
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
            let mut out = Vec::new();
            encode_lan(LanKind::Order, &[5; 8], &mut out);
            out[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Gathering::default().push(&out, |_| 1 << 10, Vec::new).is_err());
        }
    }
}
