//! The envelope: the sixteen bytes at the beginning of each frame.

use super::FrameError;
use crate::types::limits::{BULK_FRAME_BYTES_MAX, CONTROL_FRAME_BYTES_MAX, LAN_FRAME_BYTES_MAX};

/// The version of all formats of this room. A peer rejects the first frame of another version.
pub const PROTOCOL_VERSION: u16 = 1;

/// The size of the envelope in bytes: what [`frame_len`] needs, and the size of the shortest frame.
pub const ENVELOPE_BYTES: usize = 16;

/// The three families of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Bulk,
    Control,
    Lan,
}

/// The size in bytes of the frame that begins with `prefix`. `None` if `prefix` is shorter than the envelope.
///
/// A driver that splits a stream into frames calls this before it allocates memory for a frame. The size never exceeds
/// the limit of the frame's family.
///
/// # Errors
/// If no frame of this version begins with `prefix`, or the frame is too long.
pub fn frame_len(prefix: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some((envelope, _)) = prefix.split_first_chunk::<ENVELOPE_BYTES>() else {
        return Ok(None);
    };
    let family = [Family::Control, Family::Lan]
        .into_iter()
        .find(|family| envelope[..4] == family.magic())
        .unwrap_or(Family::Bulk);
    claimed_len(envelope, family).map(Some)
}

impl Family {
    fn magic(self) -> [u8; 4] {
        match self {
            Self::Bulk => *b"GAIB",
            Self::Control => *b"GAIC",
            Self::Lan => *b"GAIL",
        }
    }

    fn bytes_max(self) -> usize {
        match self {
            Self::Bulk => BULK_FRAME_BYTES_MAX,
            Self::Control => CONTROL_FRAME_BYTES_MAX,
            Self::Lan => LAN_FRAME_BYTES_MAX,
        }
    }
}

/// Whether a frame begins with the magic bytes of this family.
pub(super) fn is_of(family: Family, frame: &[u8]) -> bool {
    frame.starts_with(&family.magic())
}

/// Appends an envelope that [`seal`] fills in. Returns the position at which the frame begins.
pub(super) fn open(kind: u8, format: u8, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; ENVELOPE_BYTES]);
    (out[start + 6], out[start + 7]) = (kind, format);
    start
}

/// Fills in the envelope of the frame that begins at `start` and ends with `out`.
pub(super) fn seal(family: Family, start: usize, out: &mut [u8]) {
    let frame = out[start..].split_first_chunk_mut::<ENVELOPE_BYTES>();
    let (envelope, body) = frame.expect("the frame was opened");
    *envelope = of(family, envelope[6], envelope[7], std::iter::once(&*body));
}

/// The envelope of a frame whose body is in pieces.
pub(super) fn of<'a>(
    family: Family,
    kind: u8,
    format: u8,
    body: impl Iterator<Item = &'a [u8]> + Clone,
) -> [u8; ENVELOPE_BYTES] {
    let bytes = ENVELOPE_BYTES + body.clone().map(<[u8]>::len).sum::<usize>();
    assert!(bytes <= family.bytes_max(), "frames are cut to their limit before they are sealed");
    let mut envelope = [0; ENVELOPE_BYTES];
    envelope[..4].copy_from_slice(&family.magic());
    envelope[4..6].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    (envelope[6], envelope[7]) = (kind, format);
    envelope[8..12].copy_from_slice(&(bytes as u32).to_le_bytes());
    let crc = crc_of(&envelope, body);
    envelope[12..].copy_from_slice(&crc.to_le_bytes());
    envelope
}

/// Checks magic, version, length and CRC, in this order. Returns kind, format and the bytes behind the envelope.
pub(super) fn check(family: Family, frame: &[u8]) -> Result<(u8, u8, &[u8]), FrameError> {
    let Some((envelope, body)) = frame.split_first_chunk::<ENVELOPE_BYTES>() else {
        let bytes = frame.len();
        return Err(FrameError::PeerSentShortFrame { bytes, expected: ENVELOPE_BYTES });
    };
    let claimed = claimed_len(envelope, family)?;
    if claimed != frame.len() {
        return Err(FrameError::PeerSentWrongLength { claimed, present: frame.len() });
    }
    check_crc(envelope, body)?;
    Ok((envelope[6], envelope[7], body))
}

/// Checks magic, version and length of a frame whose body has not arrived. Returns kind, format and the size of the body.
pub(super) fn check_first(
    family: Family,
    envelope: &[u8; ENVELOPE_BYTES],
) -> Result<(u8, u8, usize), FrameError> {
    let bytes = claimed_len(envelope, family)?;
    Ok((envelope[6], envelope[7], bytes - ENVELOPE_BYTES))
}

/// What the envelope has in the field of the value format.
pub(super) fn format_of(envelope: &[u8; ENVELOPE_BYTES]) -> u8 {
    envelope[7]
}

/// Checks the CRC of a frame.
pub(super) fn check_crc(envelope: &[u8; ENVELOPE_BYTES], body: &[u8]) -> Result<(), FrameError> {
    let found = u32_at(envelope, 12);
    let expected = crc_of(envelope, std::iter::once(body));
    if found != expected {
        return Err(FrameError::PeerSentDamagedFrame { found, expected });
    }
    Ok(())
}

fn claimed_len(envelope: &[u8; ENVELOPE_BYTES], family: Family) -> Result<usize, FrameError> {
    let [a, b, c, d, ..] = *envelope;
    let (found, expected) = ([a, b, c, d], family.magic());
    if found != expected {
        return Err(FrameError::PeerSentOtherProtocol { found, expected });
    }
    let theirs = u16::from_le_bytes([envelope[4], envelope[5]]);
    if theirs != PROTOCOL_VERSION {
        return Err(FrameError::PeerSpeaksOtherVersion { theirs, ours: PROTOCOL_VERSION });
    }
    let bytes = u32_at(envelope, 8) as usize;
    if bytes < ENVELOPE_BYTES {
        return Err(FrameError::PeerSentShortFrame { bytes, expected: ENVELOPE_BYTES });
    }
    if bytes > family.bytes_max() {
        return Err(FrameError::PeerSentOversizedFrame { bytes, most: family.bytes_max() });
    }
    Ok(bytes)
}

/// The CRC-32 of a whole frame except its CRC field.
fn crc_of<'a>(envelope: &[u8; ENVELOPE_BYTES], body: impl Iterator<Item = &'a [u8]>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&envelope[..12]);
    body.for_each(|piece| hasher.update(piece));
    hasher.finalize()
}

fn u32_at(envelope: &[u8; ENVELOPE_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([envelope[at], envelope[at + 1], envelope[at + 2], envelope[at + 3]])
}
