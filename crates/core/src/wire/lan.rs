//! LAN frames: messages between nodes that are not mirrors, split into frames of bounded size.
//!
//! Messages within a data center, and between nodes and the coordinator, can be longer than a frame should be: the
//! reply to a read of a whole shard is as long as the shard. So a message is sent as one or more frames. All but the
//! last are marked as continued. The receiver, which knows the largest valid size, reassembles the message with
//! [`Gathering`].
//!
//! The envelope has the kind of the message in the field of the bulk kind. A 1 in the field of the value format means
//! that the message continues in the next frame.

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
    let mut rest = body;
    loop {
        let (part, after) = rest.split_at(rest.len().min(PART_BYTES_MAX));
        let more = u8::from(!after.is_empty());
        let start = envelope::open(Family::Lan, kind as u8, more, out);
        out.extend_from_slice(part);
        envelope::seal(Family::Lan, start, out);
        if after.is_empty() {
            return;
        }
        rest = after;
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
    /// of a kind. It bounds the memory that a peer can make this node allocate.
    ///
    /// # Errors
    /// If the frame is damaged, of another version or of another kind than the unfinished message, or the message is
    /// too long. The connection must be closed.
    pub fn push(
        &mut self,
        frame: &[u8],
        bytes_max: impl Fn(LanKind) -> usize,
    ) -> Result<Option<(LanKind, Vec<u8>)>, FrameError> {
        let (number, more, part) = envelope::check(Family::Lan, frame)?;
        let most = LanKind::ALL.len() as u8 - 1;
        let unknown = FrameError::PeerSentUnknownKind { found: number, most };
        let kind = *LanKind::ALL.get(usize::from(number)).ok_or(unknown)?;

        if more > 1 {
            return Err(FrameError::PeerUsedReservedBytes);
        }
        let (open, mut body) = self.open.take().unwrap_or_else(|| (kind, Vec::new()));

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
                whole = gathering.push(frame, |_| length).unwrap();
            }
            assert_eq!(whole, Some((LanKind::Copy, body)));
        }
    }

    #[test]
    fn a_message_beyond_its_bound_is_refused_at_the_frame_that_breaks_it() {
        let mut out = Vec::new();
        encode_lan(LanKind::Report, &vec![7; 2 * PART_BYTES_MAX], &mut out);
        let frames = frames(&out);
        let mut gathering = Gathering::default();
        assert_eq!(gathering.push(frames[0], |_| PART_BYTES_MAX), Ok(None));
        assert!(matches!(
            gathering.push(frames[1], |_| PART_BYTES_MAX),
            Err(FrameError::PeerSentOutOfBounds { .. })
        ));
    }

    #[test]
    fn a_message_within_another_is_refused() {
        let (mut long, mut short) = (Vec::new(), Vec::new());
        encode_lan(LanKind::Copy, &vec![7; 2 * PART_BYTES_MAX], &mut long);
        encode_lan(LanKind::Report, &[1], &mut short);
        let mut gathering = Gathering::default();
        assert_eq!(gathering.push(frames(&long)[0], |_| usize::MAX), Ok(None));
        let error = gathering.push(&short, |_| usize::MAX);
        assert!(matches!(error, Err(FrameError::PeerSentBadMessage(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Gathering::default().push(&bytes, |_| 1 << 10);
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0_usize..(8 * 24)) {
            let mut out = Vec::new();
            encode_lan(LanKind::Order, &[5; 8], &mut out);
            out[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Gathering::default().push(&out, |_| 1 << 10).is_err());
        }
    }
}
