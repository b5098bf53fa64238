//! Bulk frames: changes to the parameters of one shard.
//!
//! The envelope is followed by 32 bytes that identify the changes, and by the two sections of [`crate::codec`].
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 16 | 2 | origin data center |
//! | 18 | 2 | shard |
//! | 20 | 2 | flags: 1 the last of its clock or batch, 2 relayed by a hub |
//! | 22 | 1 | of a part: the tightness that the origin requests |
//! | 23 | 1 | zero |
//! | 24 | 8 | sequence number |
//! | 32 | 8 | clock |
//! | 40 | 4 | number of changes in the frame |
//! | 44 | 4 | size of the index section; the rest is the value section |

use serde::{Deserialize, Serialize};

use super::FrameError;
use super::envelope::{self, ENVELOPE_BYTES, Family};
use crate::codec::{self, Buffers, Changes, ValueFormat};
use crate::types::limits::CLOCK_MAX;
use crate::types::{Clock, DcId, ShardId, Tightness};

/// The size of a bulk frame without changes, in bytes.
pub const BULK_HEADER_BYTES: usize = 48;

/// The identification of the changes in a bulk frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkHeader {
    /// The purpose of the changes.
    pub kind: BulkKind,
    /// The data center that sends the changes.
    pub origin: DcId,
    /// The shard of the changes.
    pub shard: ShardId,
    /// The number of the frame on its link. The numbers of one origin have no gaps.
    pub sequence: u64,
    /// The clock of the changes.
    pub clock: Clock,
    /// Whether this is the last frame of its clock or batch.
    pub last: bool,
    /// Whether a hub forwards changes of other data centers.
    pub relayed: bool,
    /// Of a part: the tightness that the origin requests for all data centers. Of other kinds: none.
    pub tightness: Tightness,
}

/// The purpose of the changes in a bulk frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BulkKind {
    /// The changes of one data center, which a mirror adds to its values.
    Update,
    /// The changes of one data center to a block, which the block's home adds up.
    Partial,
    /// The sum of a block over all data centers.
    Total,
    /// A whole copy, as input of the drain.
    DrainCopy,
    /// The changes that bring a copy to the drain's common values.
    DrainResult,
    /// The number of workers that change each parameter.
    Workers,
    /// A whole copy, which a worker of another data center measures.
    Probe,
    /// A whole copy, for a mirror that has lost its own.
    Copy,
    /// The steps that momentum has yet to add to such a copy.
    CopyStep,
    /// Changes that belong to such a copy and that the sender received after it took the copy. The last frame marks the
    /// end.
    Backlog,
    /// The parameters that a data center's workers have changed: at the first of each run of consecutive ones, how many
    /// the run has.
    Changed,
    /// How many of the receiver's last parts the next total does not include: one change, of the first parameter of the
    /// block.
    Missing,
    /// The sender is home to no further total.
    Closed,
}

impl BulkKind {
    /// All kinds, in the order of their numbers on the wire.
    pub const ALL: [Self; 13] = [
        Self::Update,
        Self::Partial,
        Self::Total,
        Self::DrainCopy,
        Self::DrainResult,
        Self::Workers,
        Self::Probe,
        Self::Copy,
        Self::CopyStep,
        Self::Backlog,
        Self::Changed,
        Self::Missing,
        Self::Closed,
    ];

    /// The kind's name in errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Partial => "partial",
            Self::Total => "total",
            Self::DrainCopy => "drain copy",
            Self::DrainResult => "drain result",
            Self::Workers => "workers",
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Closed => "closed",
            Self::Probe => "probe",
            Self::Copy => "copy",
            Self::CopyStep => "copy step",
            Self::Backlog => "backlog",
        }
    }
}

/// Appends one frame to `out`.
///
/// # Panics
/// If the frame exceeds [`BULK_FRAME_BYTES_MAX`](crate::types::limits::BULK_FRAME_BYTES_MAX).
pub fn encode_bulk(
    header: &BulkHeader,
    changes: Changes<'_>,
    format: ValueFormat,
    out: &mut Vec<u8>,
) {
    let start = envelope::open(header.kind as u8, format_number(format), out);
    let flags = (LAST * u16::from(header.last)) | (RELAYED * u16::from(header.relayed));
    out.extend_from_slice(&header.origin.0.to_le_bytes());
    out.extend_from_slice(&header.shard.0.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&[header.tightness.steps(), 0]);
    out.extend_from_slice(&header.sequence.to_le_bytes());
    out.extend_from_slice(&header.clock.0.to_le_bytes());
    out.extend_from_slice(&[0; 8]);

    let encoded = codec::encode(changes, format, out);
    let sizes = &mut out[start + BULK_HEADER_BYTES - 8..start + BULK_HEADER_BYTES];
    sizes[..4].copy_from_slice(&encoded.count.to_le_bytes());
    sizes[4..].copy_from_slice(&encoded.index_bytes.to_le_bytes());
    envelope::seal(Family::Bulk, start, out);
}

/// Decodes a whole frame for a shard of `parameters`. The changes are in `buffers`.
///
/// Memory is allocated only after length and CRC are checked, and no more than the frame's bytes require.
///
/// # Errors
/// If the bytes are no bulk frame of this version, or the changes do not fit the shard.
pub fn decode_bulk<'b>(
    frame: &[u8],
    parameters: usize,
    buffers: &'b mut Buffers,
) -> Result<(BulkHeader, Changes<'b>), FrameError> {
    let opened = Opened::check(frame)?;
    let Some((indexes, values)) = opened.payload.split_at_checked(opened.index_bytes) else {
        let expected = BULK_HEADER_BYTES + opened.index_bytes;
        return Err(FrameError::PeerSentShortFrame { bytes: frame.len(), expected });
    };
    let changes = codec::decode(indexes, values, opened.format, parameters, buffers)?;
    if changes.len() != opened.count as usize {
        let (announced, held) = (opened.count, changes.len());
        return Err(FrameError::PeerSentWrongCount { announced, held });
    }
    Ok((opened.header, changes))
}

/// The header of a whole frame and its number of changes. The changes are not decoded.
///
/// # Errors
/// If the bytes are no bulk frame of this version.
pub fn peek_bulk(frame: &[u8]) -> Result<(BulkHeader, u32), FrameError> {
    Opened::check(frame).map(|opened| (opened.header, opened.count))
}

/// A frame whose length, CRC and header are valid.
struct Opened<'a> {
    header: BulkHeader,
    format: ValueFormat,
    count: u32,
    index_bytes: usize,
    payload: &'a [u8],
}

impl<'a> Opened<'a> {
    fn check(frame: &'a [u8]) -> Result<Self, FrameError> {
        let (kind, format, body) = envelope::check(Family::Bulk, frame)?;
        let Some((fields, payload)) = body.split_first_chunk::<FIELD_BYTES>() else {
            let bytes = frame.len();
            return Err(FrameError::PeerSentShortFrame { bytes, expected: BULK_HEADER_BYTES });
        };
        let kind =
            *BulkKind::ALL.get(usize::from(kind)).ok_or(FrameError::PeerSentUnknownKind {
                found: kind,
                most: BulkKind::ALL.len() as u8 - 1,
            })?;

        let format = format_of(format)?;
        let flags = u16::from_le_bytes(field(fields, 4));
        if flags & !(LAST | RELAYED) != 0 {
            return Err(FrameError::PeerSentUnknownFlags { found: flags, known: LAST | RELAYED });
        }

        if fields[7] != 0 {
            return Err(FrameError::PeerUsedReservedBytes);
        }
        let tightness =
            Tightness::new(fields[6]).ok_or_else(|| FrameError::PeerSentOutOfBounds {
                what: "tightness",
                found: u64::from(fields[6]),
                most: u64::from(Tightness::MOST.steps()),
            })?;

        let header = BulkHeader {
            kind,
            origin: DcId(u16::from_le_bytes(field(fields, 0))),
            shard: ShardId(u16::from_le_bytes(field(fields, 2))),
            sequence: u64::from_le_bytes(field(fields, 8)),
            clock: Clock(u64::from_le_bytes(field(fields, 16))),
            last: flags & LAST != 0,
            relayed: flags & RELAYED != 0,
            tightness,
        };

        if header.clock.0 > CLOCK_MAX {
            let found = header.clock.0;
            return Err(FrameError::PeerSentOutOfBounds { what: "clock", found, most: CLOCK_MAX });
        }

        let count = u32::from_le_bytes(field(fields, 24));
        let index_bytes = u32::from_le_bytes(field(fields, 28)) as usize;
        Ok(Self { header, format, count, index_bytes, payload })
    }
}

fn field<const BYTES: usize>(fields: &[u8; FIELD_BYTES], at: usize) -> [u8; BYTES] {
    let mut field = [0; BYTES];
    field.copy_from_slice(&fields[at..at + BYTES]);
    field
}

fn format_number(format: ValueFormat) -> u8 {
    match format {
        ValueFormat::F32 => 0,
        ValueFormat::Bf16 => 1,
        ValueFormat::Int8 => 2,
        ValueFormat::Int4 => 3,
        ValueFormat::Int2 => 4,
    }
}

fn format_of(number: u8) -> Result<ValueFormat, FrameError> {
    match number {
        0 => Ok(ValueFormat::F32),
        1 => Ok(ValueFormat::Bf16),
        2 => Ok(ValueFormat::Int8),
        3 => Ok(ValueFormat::Int4),
        4 => Ok(ValueFormat::Int2),
        found => Err(FrameError::PeerSentUnknownFormat { found }),
    }
}

/// The number of bytes between the envelope and the changes.
const FIELD_BYTES: usize = BULK_HEADER_BYTES - ENVELOPE_BYTES;
const LAST: u16 = 1;
const RELAYED: u16 = 2;
