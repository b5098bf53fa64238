//! Frames that are whole again after a change, as a peer with a bug would send them.

use gaia_core::wire::ENVELOPE_BYTES;

/// The same frame with magic, version, length and CRC made right; `None` where there is no room for them.
pub fn sealed(frame: &[u8], magic: &[u8; 4]) -> Option<Vec<u8>> {
    let mut frame = frame.to_vec();
    frame.get(..ENVELOPE_BYTES)?;
    frame[..4].copy_from_slice(magic);
    frame[4..6].copy_from_slice(&gaia_core::wire::PROTOCOL_VERSION.to_le_bytes());
    let bytes = u32::try_from(frame.len()).ok()?;
    frame[8..12].copy_from_slice(&bytes.to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&frame[..12]);
    crc.update(&frame[16..]);
    frame[12..16].copy_from_slice(&crc.finalize().to_le_bytes());
    Some(frame)
}

/// How bulk frames and control frames begin.
pub const BULK: &[u8; 4] = b"GAIB";
pub const CONTROL: &[u8; 4] = b"GAIC";
