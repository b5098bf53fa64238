//! The headers of sessions' messages, read and written field by field, to observe and to forge messages.

use bytes::Bytes;

use gaia_core::session::{HEADER_BYTES, Message};
use gaia_core::types::Lane;

/// The lane of a message's frame. `None` if it has no frame.
pub(crate) fn lane_of(message: &[u8]) -> Option<Lane> {
    match message.get(KIND) {
        Some(1) => Some(Lane::Control),
        Some(2) => Some(Lane::Data),
        _ => None,
    }
}

/// The field that begins at a byte.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, field: u64) {
    bytes[at..at + 8].copy_from_slice(&field.to_le_bytes());
}

/// Whether the message has a header with a valid checksum.
pub(crate) fn is_whole(message: &[u8]) -> bool {
    let crc = |header: &[u8]| crc32fast::hash(&header[..HEADER_BYTES - 4]).to_le_bytes();
    let header = message.get(..HEADER_BYTES);
    header.is_some_and(|header| header[HEADER_BYTES - 4..] == crc(header))
}

/// Recomputes the checksum of a header.
pub(crate) fn reseal(bytes: &mut [u8]) {
    let crc = crc32fast::hash(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// A message with another frame.
pub(crate) fn remade(mut message: Message, frame: Bytes) -> Message {
    if frame != message.frame {
        message.header[FRAME_BYTES..FRAME_BYTES + 4]
            .copy_from_slice(&(frame.len() as u32).to_le_bytes());
        let crc = crc32fast::hash(&frame);
        message.header[FRAME_CRC..FRAME_CRC + 4].copy_from_slice(&crc.to_le_bytes());
        reseal(&mut message.header);
        message.frame = frame;
    }
    message
}

/// A message with a recomputed checksum of its frame.
pub(crate) fn with_valid_crc(message: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    let crc = crc32fast::hash(&bytes[HEADER_BYTES..]);
    bytes[FRAME_CRC..FRAME_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    reseal(&mut bytes);
    bytes
}

/// The positions of the fields in a session's header.
pub(crate) const KIND: usize = 6;
const FRAME_BYTES: usize = 8;
const FRAME_CRC: usize = 12;
pub(crate) const FROM: usize = 16;
pub(crate) const TO: usize = 24;
pub(crate) const NUMBER: usize = 32;
pub(crate) const RECEIVED: usize = 40;

pub(crate) const HELLO: u8 = 0;
