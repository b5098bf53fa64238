//! Control frames: everything mirrors say to each other that is not a change of parameters.
//!
//! The body is one [`ControlMessage`] as MessagePack arrays; the protocol's version is in the envelope, so that a
//! hello of another version is refused by its first bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::FrameError;
use super::envelope::{self, Family};
use crate::types::limits::{DATA_CENTERS_MAX, MODEL_PARAMETERS_MAX, NODES_PER_DC_MAX};
use crate::types::{Clock, DcId, ShardId, Tightness};

/// What one mirror tells another apart from changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlMessage {
    /// The first message on a link.
    Hello(Hello),
    /// Every significant update of clocks up to `clock` is covered by updates up to `sequence`
    /// (the paper's mirror clock).
    MirrorClock { clock: Clock, sequence: u64 },
    /// Values for these parameters follow in the data lane: reads of them are to wait (the paper's
    /// selective barrier).
    Announce {
        /// Numbers the announcements on one link.
        announcement: u64,
        clock: Clock,
        /// The first update that may bring the values: the data lane may still hold earlier ones.
        sequence: u64,
        /// Packed by [`crate::codec::encode_indexes`].
        indexes: Bytes,
    },
    /// How tight the sender wishes all to be: what its guard against skew has measured.
    Tightness { steps: u8 },
    /// Updates up to `sequence` are all there will be.
    EndOfUpdates { sequence: u64 },
    /// The sender has lost its copy and takes that of the mirror `from`. The incarnation that begins so has a number of its own.
    Rebuild { from: DcId, incarnation: u64 },
    /// In the data lane: all that the sender's link to the mirror `to` has carried to it in this incarnation is what this link
    /// has carried so far.
    Fork { to: DcId, incarnation: u64 },
    /// Which mirrors the sender does not hear. Said whenever that changes.
    Unheard(Unheard),
    /// Answers the receiver's [`Unheard`] of this version, which named the sender: what it missed are updates up to
    /// `sequence`.
    CaughtUp { version: u64, sequence: u64 },
}

/// What one server says of the mirrors that it exchanges updates with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unheard {
    /// Rises with each change; 0 before there was any.
    pub version: u64,
    /// The mirrors that nothing comes from.
    pub silent: BTreeSet<DcId>,
    /// The mirrors that are heard again, and have yet to send what was missed.
    pub behind: BTreeSet<DcId>,
    /// Of mirrors that are heard: how many mirrors each does not hear, where it is more than none.
    pub failed: BTreeMap<DcId, u16>,
    /// Whether the sender's data center pauses for that.
    pub pauses: bool,
}

/// What one mirror says of itself: both ends must agree on all of it but `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub from: DcId,
    pub shard: ShardId,
    /// Shards in all.
    pub shards: u16,
    /// Parameters in this shard.
    pub parameters: u64,
    /// A hash of everything both ends must have resolved alike.
    pub plan: u64,
}

impl ControlMessage {
    /// The message's name in errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::MirrorClock { .. } => "mirror clock",
            Self::Announce { .. } => "announcement",
            Self::Tightness { .. } => "tightness",
            Self::EndOfUpdates { .. } => "end of updates",
            Self::Rebuild { .. } => "rebuild",
            Self::Fork { .. } => "fork",
            Self::Unheard(_) => "unheard mirrors",
            Self::CaughtUp { .. } => "caught up",
        }
    }
}

/// Appends one frame.
pub fn encode_control(message: &ControlMessage, out: &mut Vec<u8>) {
    let start = envelope::open(Family::Control, 0, 0, out);
    rmp_serde::encode::write(out, message).expect("a vector takes every message");
    envelope::seal(Family::Control, start, out);
}

/// Whether a frame is a control frame, whatever lane it is in.
pub fn is_control(frame: &[u8]) -> bool {
    envelope::is_of(Family::Control, frame)
}

/// Reads a whole frame.
///
/// Nothing is allocated before length and CRC are right, and then no more than the frame's own bytes.
pub fn decode_control(frame: &[u8]) -> Result<ControlMessage, FrameError> {
    let (kind, format, body) = envelope::check(Family::Control, frame)?;
    if (kind, format) != (0, 0) {
        return Err(FrameError::PeerUsedReservedBytes);
    }
    let mut deserializer = rmp_serde::Deserializer::new(body);
    let message = ControlMessage::deserialize(&mut deserializer)
        .map_err(|error| FrameError::PeerSentBadMessage(shown(&error)))?;
    let trailing = deserializer.into_inner().len();
    if trailing > 0 {
        let error = format!("{trailing} bytes follow the message");
        return Err(FrameError::PeerSentBadMessage(error));
    }
    check_bounds(&message)?;
    Ok(message)
}

/// What is wrong, which may quote the peer: no more of that than a line, and nothing that a terminal would obey.
fn shown(error: &rmp_serde::decode::Error) -> String {
    error.to_string().chars().flat_map(char::escape_debug).take(SHOWN_CHARS_MAX).collect()
}

const SHOWN_CHARS_MAX: usize = 160;

fn check_bounds(message: &ControlMessage) -> Result<(), FrameError> {
    let Hello { from, shard, shards, parameters, .. } = match message {
        ControlMessage::Hello(hello) => hello,
        ControlMessage::Tightness { steps } => {
            return within("tightness", u64::from(*steps), u64::from(Tightness::MOST.steps()));
        }
        ControlMessage::Rebuild { from: dc, .. } | ControlMessage::Fork { to: dc, .. } => {
            return within("data center", u64::from(dc.0), DATA_CENTERS_MAX as u64 - 1);
        }
        ControlMessage::Unheard(word) => {
            let named = word.silent.iter().chain(&word.behind).chain(word.failed.keys());
            let last = named.max().map_or(0, |dc| u64::from(dc.0));
            return within("data center", last, DATA_CENTERS_MAX as u64 - 1);
        }
        _ => return Ok(()),
    };

    within("data center", u64::from(from.0), DATA_CENTERS_MAX as u64 - 1)?;
    within("a number of shards", u64::from(*shards), NODES_PER_DC_MAX as u64)?;
    within("shard", u64::from(shard.0), u64::from(shards.saturating_sub(1)))?;
    within("a number of parameters", *parameters, MODEL_PARAMETERS_MAX as u64)
}

fn within(what: &'static str, found: u64, most: u64) -> Result<(), FrameError> {
    if found <= most { Ok(()) } else { Err(FrameError::PeerSentOutOfBounds { what, found, most }) }
}
