//! Control frames: all messages between mirrors that are not changes of parameters.
//!
//! The body is one [`ControlMessage`] as MessagePack arrays. The protocol version is in the envelope, so that a hello
//! of another version is rejected by its first bytes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::FrameError;
use super::envelope::{self, Family};
use crate::types::limits::{DATA_CENTERS_MAX, MODEL_PARAMETERS_MAX, NODES_PER_DC_MAX};
use crate::types::messagepack::{self, MessagePackError};
use crate::types::{Clock, DcId, ShardId, Tightness};

/// A message between mirrors that is not a change of parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlMessage {
    /// The first message on a link.
    Hello(Hello),
    /// The mirror clock of the paper: all significant updates of a clock and those before were sent.
    MirrorClock {
        /// The clock.
        clock: Clock,
        /// The sequence number of the last update that the clock covers. The receiver counts the clock once it has
        /// applied this update.
        sequence: u64,
    },
    /// The selective barrier of the paper: updates of some parameters follow in the data lane. The receiver holds back
    /// reads of these parameters until then.
    Announce {
        /// The number of the announcement on its link.
        announcement: u64,
        /// The clock of the announced updates.
        clock: Clock,
        /// The sequence number of the first update that can bring the values. Earlier ones may still be in the data
        /// lane.
        sequence: u64,
        /// The parameters, encoded by [`crate::codec::encode_indexes`].
        indexes: Bytes,
    },
    /// The tightness that the sender's guard against skew requests for all data centers.
    Tightness {
        /// The number of steps of [`Tightness`].
        steps: u8,
    },
    /// No update follows.
    EndOfUpdates {
        /// The sequence number of the last update.
        sequence: u64,
    },
    /// The sender has lost its copy and takes the copy of a mirror.
    Rebuild {
        /// The mirror's data center.
        from: DcId,
        /// The sender's incarnation, which begins with that copy.
        incarnation: u64,
    },
    /// A marker in the data lane, for the mirror from which another server takes its copy. What the sender has sent to
    /// that server in this incarnation is what it has sent on this link up to the marker.
    Fork {
        /// The data center of the server that takes the copy.
        to: DcId,
        /// The incarnation of that server.
        incarnation: u64,
    },
    /// The state of the sender's links. Sent whenever that changes.
    LinkReport(LinkReport),
    /// Answers the receiver's [`LinkReport`], which named the sender as silent or behind: the updates that the receiver
    /// missed end with `sequence`.
    CaughtUp {
        /// The version of the answered report.
        version: u64,
        /// The sequence number of the last missed update.
        sequence: u64,
    },
}

/// One server's report of its links to the mirrors with which it exchanges updates.
///
/// A later report replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkReport {
    /// The number of changes to the report so far.
    pub version: u64,
    /// The mirrors from which the sender receives nothing.
    pub silent: BTreeSet<DcId>,
    /// The mirrors from which the sender receives again, but not yet all updates that it missed.
    pub behind: BTreeSet<DcId>,
    /// The mirrors to which the sender's link has failed, in at least one direction: those of `silent`, those that report
    /// to receive nothing from the sender, and those that others report as active, but that never reached the sender.
    pub failed_links: BTreeSet<DcId>,
    /// For each mirror from which the sender receives: the number of that mirror's failed links. Mirrors with 0 are left
    /// out.
    pub failed: BTreeMap<DcId, u16>,
    /// Whether the sender's data center pauses because of dead links.
    pub pauses: bool,
}

/// The description of a mirror in its first message. Both ends must agree on all fields but `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The sender's data center.
    pub from: DcId,
    /// The sender's shard.
    pub shard: ShardId,
    /// The number of shards.
    pub shards: u16,
    /// The number of parameters in this shard.
    pub parameters: u64,
    /// A hash of the resolved plan.
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
            Self::LinkReport(_) => "link report",
            Self::CaughtUp { .. } => "caught up",
        }
    }
}

/// Appends one frame to `out`.
///
/// # Panics
/// If the frame exceeds [`CONTROL_FRAME_BYTES_MAX`](crate::types::limits::CONTROL_FRAME_BYTES_MAX).
pub fn encode_control(message: &ControlMessage, out: &mut Vec<u8>) {
    let start = envelope::open(0, 0, out);
    messagepack::append(message, out);
    envelope::seal(Family::Control, start, out);
}

/// Whether a frame is a control frame, in either lane.
pub fn is_control(frame: &[u8]) -> bool {
    envelope::is_of(Family::Control, frame)
}

/// Decodes a whole frame.
///
/// Memory is allocated only after length and CRC are checked, and no more than the frame has bytes.
///
/// # Errors
/// If the bytes are no control frame of this version, or a number in the message is out of bounds.
pub fn decode_control(frame: &[u8]) -> Result<ControlMessage, FrameError> {
    let (kind, format, body) = envelope::check(Family::Control, frame)?;
    if (kind, format) != (0, 0) {
        return Err(FrameError::PeerUsedReservedBytes);
    }
    let (message, trailing) = messagepack::decode_first(body)
        .map_err(|error| FrameError::PeerSentBadMessage(shown(&error)))?;
    if !trailing.is_empty() {
        let error = format!("{} bytes follow the message", trailing.len());
        return Err(FrameError::PeerSentBadMessage(error));
    }
    check_bounds(&message)?;
    Ok(message)
}

/// The text of an error. It may quote the peer, so it is limited to one line and control characters are escaped.
fn shown(error: &MessagePackError) -> String {
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
        ControlMessage::LinkReport(report) => {
            let sets = [&report.silent, &report.behind, &report.failed_links];
            let named = sets.into_iter().flatten().chain(report.failed.keys());
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
