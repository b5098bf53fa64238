//! The entry header: the thirty-two bytes before each body.

use crc32fast::Hasher;

use super::Broken;

pub(super) const ENTRY_BYTES: usize = 32;

/// The fields of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// 0 for a mark.
    pub(super) body_bytes: u32,
    pub(super) body_crc: u32,
    pub(super) number: u64,
    /// All records below this number were synced.
    pub(super) synced: u64,
    /// The CRC of the entry before, or of the header.
    pub(super) before: u32,
}

impl Entry {
    /// Appends the entry without its body, and returns the entry's CRC. `segment` is the CRC of the segment's header.
    pub(super) fn encode(&self, segment: u32, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        out.extend_from_slice(&self.body_bytes.to_le_bytes());
        out.extend_from_slice(&self.body_crc.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.synced.to_le_bytes());
        out.extend_from_slice(&self.before.to_le_bytes());
        let crc = crc_of(segment, &out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Decodes an entry and checks its CRC. Returns the entry and the CRC.
    pub(super) fn decode(segment: u32, bytes: &[u8; ENTRY_BYTES]) -> Result<(Self, u32), Broken> {
        let (entry, found) = Self::unchecked(bytes);
        let expected = crc_of(segment, &bytes[..ENTRY_BYTES - 4]);
        if found != expected {
            return Err(Broken::Checksum { found, expected });
        }
        Ok((entry, found))
    }

    /// The `synced` and `number` fields of an entry, without a check of its CRC.
    pub(super) fn claims(bytes: &[u8; ENTRY_BYTES]) -> (u64, u64) {
        let (entry, _) = Self::unchecked(bytes);
        (entry.synced, entry.number)
    }

    fn unchecked(bytes: &[u8; ENTRY_BYTES]) -> (Self, u32) {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << 32;
        let entry = Self {
            body_bytes: word(0),
            body_crc: word(1),
            number: long(2),
            synced: long(4),
            before: word(6),
        };
        (entry, word(7))
    }
}

fn crc_of(segment: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(segment);
    hasher.update(bytes);
    hasher.finalize()
}
