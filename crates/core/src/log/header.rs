//! The header of a segment.

use super::LogError;

/// The version of all formats of this room.
pub const LOG_VERSION: u16 = 1;

/// The run and the node to which a log belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// A hash of the plan and its data.
    pub plan: u64,
    /// The node's name, such as `virginia/server0`. At most 65,535 bytes.
    pub node: String,
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The number of the segment's first record.
    pub(super) first: u64,
    /// The size of the header, which is the position of the first entry.
    pub(super) bytes: usize,
    pub(super) crc: u32,
}

/// Appends a header and returns its CRC.
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

/// Decodes the header of `segment`.
///
/// # Errors
/// If the header is damaged, of another version or of another owner's log.
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

/// The largest number of a first record. Record numbers counted from it do not overflow.
const FIRST_MAX: u64 = 1 << 63;

const MAGIC: [u8; 4] = *b"GAIW";

/// The largest length of another node's name in an error. The name may be long and arbitrary.
const SHOWN_CHARS_MAX: usize = 100;

const FIXED_BYTES: usize = 24;
const CRC_BYTES: usize = 4;
