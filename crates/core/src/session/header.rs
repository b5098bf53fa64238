//! The header: the sixty bytes at the beginning of each message.

use std::num::NonZeroU64;

use bytes::Bytes;

use super::{Incarnation, SessionError};
use crate::types::Lane;
use crate::types::limits::{BULK_FRAME_BYTES_MAX, CONTROL_FRAME_BYTES_MAX};
use crate::wire::PROTOCOL_VERSION;

/// The size of the header in bytes: what [`message_len`] needs, and the size of the shortest message.
pub const HEADER_BYTES: usize = 60;

/// A message from one end of a link to the other: a header, followed by a frame if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The encoded header.
    pub header: [u8; HEADER_BYTES],
    /// The frame. Empty for hellos and acknowledgements.
    pub frame: Bytes,
}

/// The contents of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) from: Incarnation,
    /// The incarnation whose frames `received` counts. The sender of a hello may have received none.
    pub(super) to: Option<Incarnation>,
    /// The number of frames received and passed on, per lane.
    pub(super) received: [u64; 2],
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first message on a connection, with the incarnation that began the sender's state.
    Hello { began: Incarnation },
    /// The frame of this number, counted from 1 in each lane.
    Frame { lane: Lane, number: u64 },
    /// Acknowledgements without a frame.
    Acknowledgement,
}

impl Message {
    pub(super) fn new(header: &Header, frame: Bytes) -> Self {
        let (kind, number) = match header.kind {
            Kind::Hello { began } => (HELLO, began.0.get()),
            Kind::Frame { lane: Lane::Control, number } => (CONTROL, number),
            Kind::Frame { lane: Lane::Data, number } => (DATA, number),
            Kind::Acknowledgement => (ACKNOWLEDGEMENT, 0),
        };

        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        bytes[6] = kind;
        bytes[8..12].copy_from_slice(&(frame.len() as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&crc32fast::hash(&frame).to_le_bytes());
        let to = header.to.map_or(0, |to| to.0.get());
        let [control, data] = header.received;

        for (at, field) in [header.from.0.get(), to, number, control, data].iter().enumerate() {
            let at = 16 + 8 * at;
            bytes[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }

        let crc = crc32fast::hash(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        Self { header: bytes, frame }
    }

    /// The size of the message in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        HEADER_BYTES + self.frame.len()
    }

    /// Always `false`: a message has a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Header and frame, which is not copied.
    #[must_use]
    pub fn to_parts(&self) -> (Bytes, Bytes) {
        (Bytes::copy_from_slice(&self.header), self.frame.clone())
    }

    /// Header and frame in one buffer, for transports that do not take two.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        [&self.header[..], &self.frame[..]].concat().into()
    }
}

/// The size in bytes of the message that begins with `prefix`. `None` if `prefix` is shorter than [`HEADER_BYTES`].
///
/// A driver that splits a stream into messages calls this before it allocates memory for a message. The header's CRC is
/// checked, and the size never exceeds the limit of the message's kind.
///
/// # Errors
/// If no message of this version begins with `prefix`.
pub fn message_len(prefix: &[u8]) -> Result<Option<usize>, SessionError> {
    let Some((header, _)) = prefix.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    check(header).map(|(_, frame_bytes)| Some(HEADER_BYTES + frame_bytes))
}

/// Decodes a whole message, and checks all that does not depend on its sender.
pub(super) fn decode(message: &Bytes) -> Result<(Header, Bytes), SessionError> {
    let Some((header, frame)) = message.split_first_chunk::<HEADER_BYTES>() else {
        let bytes = message.len();
        return Err(SessionError::PeerSentShortMessage { bytes, expected: HEADER_BYTES });
    };
    let (decoded, frame_bytes) = check(header)?;
    if frame_bytes != frame.len() {
        let claimed = HEADER_BYTES + frame_bytes;
        return Err(SessionError::PeerSentWrongLength { claimed, present: message.len() });
    }
    check_crc("frame", u32_at(header, 12), crc32fast::hash(frame))?;
    Ok((decoded, message.slice(HEADER_BYTES..)))
}

/// Checks magic and version first, so that the error of another release names its version, then the CRC, then the
/// fields. Returns the header and the size of the frame that follows.
fn check(header: &[u8; HEADER_BYTES]) -> Result<(Header, usize), SessionError> {
    let [a, b, c, d, ..] = *header;
    if [a, b, c, d] != MAGIC {
        let found = [a, b, c, d];
        return Err(SessionError::PeerSentOtherProtocol { found, expected: MAGIC });
    }

    let theirs = u16::from_le_bytes([header[4], header[5]]);
    if theirs != PROTOCOL_VERSION {
        return Err(SessionError::PeerSpeaksOtherVersion { theirs, ours: PROTOCOL_VERSION });
    }
    check_crc("header", u32_at(header, CRC_AT), crc32fast::hash(&header[..CRC_AT]))?;

    if header[7] != 0 {
        return Err(SessionError::PeerUsedReservedBytes);
    }
    let [from, to, number, control, data] = [0, 1, 2, 3, 4].map(|field| u64_at(header, field));
    let from = incarnation(from).ok_or(SessionError::PeerHasNoIncarnation)?;
    let (kind, frame_bytes_max) = match header[6] {
        HELLO => {
            let began = incarnation(number).ok_or_else(|| wrong_number("hello", number))?;
            (Kind::Hello { began }, 0)
        }
        CONTROL => (frame_of(Lane::Control, number)?, CONTROL_FRAME_BYTES_MAX),
        DATA => (frame_of(Lane::Data, number)?, BULK_FRAME_BYTES_MAX),
        ACKNOWLEDGEMENT if number != 0 => return Err(wrong_number("acknowledgement", number)),
        ACKNOWLEDGEMENT => (Kind::Acknowledgement, 0),
        found => return Err(SessionError::PeerSentUnknownKind { found, most: ACKNOWLEDGEMENT }),
    };

    let bytes = u32_at(header, 8) as usize;
    if bytes > frame_bytes_max {
        return Err(SessionError::PeerSentOversizedFrame { bytes, most: frame_bytes_max });
    }
    Ok((Header { kind, from, to: incarnation(to), received: [control, data] }, bytes))
}

fn check_crc(part: &'static str, found: u32, expected: u32) -> Result<(), SessionError> {
    if found == expected {
        Ok(())
    } else {
        Err(SessionError::PeerSentDamage { part, found, expected })
    }
}

fn frame_of(lane: Lane, number: u64) -> Result<Kind, SessionError> {
    if number == 0 { Err(wrong_number("frame", number)) } else { Ok(Kind::Frame { lane, number }) }
}

fn wrong_number(kind: &'static str, number: u64) -> SessionError {
    SessionError::PeerSentWrongNumber { kind, number }
}

fn incarnation(number: u64) -> Option<Incarnation> {
    NonZeroU64::new(number).map(Incarnation)
}

fn u32_at(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// The `field`-th of the header's five numbers.
fn u64_at(header: &[u8; HEADER_BYTES], field: usize) -> u64 {
    let at = 16 + 8 * field;
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_le_bytes(bytes)
}

const MAGIC: [u8; 4] = *b"GAIS";
const CRC_AT: usize = HEADER_BYTES - 4;
const HELLO: u8 = 0;
const CONTROL: u8 = 1;
const DATA: u8 = 2;
const ACKNOWLEDGEMENT: u8 = 3;
