//! What a peer can get wrong.

use super::Incarnation;
use crate::types::Lane;

/// Why a message was refused. Nothing of it was taken: the connection is to be broken, and the next one begins with
/// what both ends have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("peer sent a message of {bytes} bytes where {expected} are the fewest")]
    PeerSentShortMessage { bytes: usize, expected: usize },
    #[error("peer sent a message that begins with {found:02x?}, expected {expected:02x?}")]
    PeerSentOtherProtocol { found: [u8; 4], expected: [u8; 4] },
    #[error("peer speaks version {theirs} of the protocol, this node {ours}")]
    PeerSpeaksOtherVersion { theirs: u16, ours: u16 },
    #[error("peer sent a damaged {part}: its CRC is {found:08x}, its bytes give {expected:08x}")]
    PeerSentDamage { part: &'static str, found: u32, expected: u32 },
    #[error("peer sent message kind {found}, the known are 0 to {most}")]
    PeerSentUnknownKind { found: u8, most: u8 },
    #[error("peer sent a non-zero byte where the message has none in use")]
    PeerUsedReservedBytes,
    #[error("peer sent a message that claims {claimed} bytes and has {present}")]
    PeerSentWrongLength { claimed: usize, present: usize },
    #[error("peer sent a frame of {bytes} bytes where {most} are the most")]
    PeerSentOversizedFrame { bytes: usize, most: usize },
    #[error("peer sent a {kind} with number {number}")]
    PeerSentWrongNumber { kind: &'static str, number: u64 },
    #[error("peer sent a message without an incarnation")]
    PeerHasNoIncarnation,
    #[error("peer spoke before its hello")]
    PeerSkippedHello,
    #[error("peer said hello twice on one connection")]
    PeerSaidHelloTwice,
    #[error("peer sent a message of its incarnation {found}, it had reached {known}")]
    PeerIsStale { found: Incarnation, known: Incarnation },
    #[error("peer sent a message of its incarnation {found}, its hello was of {known}")]
    PeerChangedIncarnation { found: Incarnation, known: Incarnation },
    #[error("peer of incarnation {incarnation} claims a state begun by incarnation {began}")]
    PeerClaimsForeignState { incarnation: Incarnation, began: Incarnation },
    #[error("peer speaks to incarnation {found:?} of this node, which is {own}")]
    PeerSpeaksToAnother { found: Option<Incarnation>, own: Incarnation },
    #[error("peer has {received} frames of the {} lane, of which {sent} were sent", lane.name())]
    PeerReceivedUnsent { lane: Lane, received: u64, sent: u64 },
    #[error(
        "peer has {received} frames of the {} lane and had acknowledged {acknowledged}: it has lost some",
        lane.name()
    )]
    PeerForgot { lane: Lane, received: u64, acknowledged: u64 },
    #[error(
        "peer sent frame {number} of the {} lane while {held} bytes wait for one before it, {most} are the most",
        lane.name()
    )]
    PeerSentTooMuch { lane: Lane, number: u64, held: usize, most: usize },
}
