//! What a segment opens with.

use super::LogError;

/// The version of everything in this room.
pub const LOG_VERSION: u16 = 1;

/// Whose log it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Hash of the plan and its data.
    pub plan: u64,
    /// Such as `virginia/server0`, at most 65,535 bytes.
    pub node: String,
}

/// A header that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Number of the segment's first record.
    pub(super) first: u64,
    /// Where the first entry begins.
    pub(super) bytes: usize,
    pub(super) crc: u32,
}

/// Appends a header and answers its CRC.
pub(super) fn encode(owner: &Owner, first: u64, out: &mut Vec<u8>) -> u32 {
    let start = out.len();
    let name_bytes = u16::try_from(owner.node.len()).expect("nodes have names, not stories");
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&LOG_VERSION.to_le_bytes());
    out.extend_from_slice(&name_bytes.to_le_bytes());
    out.extend_from_slice(&owner.plan.to_le_bytes());
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(owner.node.as_bytes());
    let crc = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
    crc
}

/// Reads the header that `segment` begins with.
///
/// # Errors
/// Where it is damaged, of another version or not of this owner's log.
pub(super) fn decode(owner: &Owner, segment: &[u8]) -> Result<Header, LogError> {
    let present = segment.len();
    let short = |expected| LogError::ShortHeader { present, expected };
    let (fixed, rest) =
        segment.split_first_chunk::<FIXED_BYTES>().ok_or_else(|| short(FIXED_BYTES))?;
    let [a, b, c, d, v0, v1, n0, n1, numbers @ ..] = *fixed;
    let found = [a, b, c, d];

    if found != MAGIC {
        return Err(LogError::OtherFile { found, expected: MAGIC });
    }
    let version = u16::from_le_bytes([v0, v1]);

    if version != LOG_VERSION {
        return Err(LogError::OtherVersion { found: version, expected: LOG_VERSION });
    }
    let named = FIXED_BYTES + usize::from(u16::from_le_bytes([n0, n1]));
    let bytes = named + CRC_BYTES;
    let (node, rest) = rest.split_at_checked(named - FIXED_BYTES).ok_or_else(|| short(bytes))?;
    let crc = rest.first_chunk().ok_or_else(|| short(bytes))?;
    let (found, expected) = (u32::from_le_bytes(*crc), crc32fast::hash(&segment[..named]));

    if found != expected {
        return Err(LogError::DamagedHeader { found, expected });
    }
    let (plan, first) = numbers.split_at(size_of::<u64>());
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight of sixteen"));

    if number(plan) != owner.plan {
        return Err(LogError::OtherPlan { found: number(plan), expected: owner.plan });
    }
    if node != owner.node.as_bytes() {
        let found = String::from_utf8_lossy(node);
        let found = found.chars().take(SHOWN_CHARS_MAX).collect();
        return Err(LogError::OtherNode { found, expected: owner.node.clone() });
    }

    let first = number(first);
    if first > FIRST_MAX {
        return Err(LogError::ImpossibleNumber { found: first, most: FIRST_MAX });
    }
    Ok(Header { first, bytes, crc: expected })
}

/// Leaves room to count on from.
const FIRST_MAX: u64 = 1 << 63;

const MAGIC: [u8; 4] = *b"GAIW";

/// Of another's name, which may be long and mean nothing.
const SHOWN_CHARS_MAX: usize = 100;

const FIXED_BYTES: usize = 24;
const CRC_BYTES: usize = 4;
