//! The errors of handling messages of a peer.

use super::Incarnation;
use crate::types::Lane;

/// Why a message was rejected. It has changed nothing. The driver must close the connection. The next connection
/// continues with the frames that each end has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The message is shorter than its header.
    #[error("peer sent a message of {bytes} bytes, expected at least {expected}")]
    PeerSentShortMessage {
        /// The size of the message.
        bytes: usize,
        /// The smallest valid size.
        expected: usize,
    },
    /// The message begins with other magic bytes.
    #[error("peer sent a message that begins with {found:02x?}, expected {expected:02x?}")]
    PeerSentOtherProtocol {
        /// The first four bytes.
        found: [u8; 4],
        /// The expected magic bytes.
        expected: [u8; 4],
    },
    /// The message is of another protocol version.
    #[error("peer speaks protocol version {theirs}, expected {ours}")]
    PeerSpeaksOtherVersion {
        /// The peer's version.
        theirs: u16,
        /// [`PROTOCOL_VERSION`](crate::wire::PROTOCOL_VERSION).
        ours: u16,
    },
    /// A CRC differs from that of the bytes.
    #[error("peer sent a damaged {part}: found CRC {found:08x}, expected {expected:08x}")]
    PeerSentDamage {
        /// The damaged part: the header or the frame.
        part: &'static str,
        /// The CRC in the message.
        found: u32,
        /// The CRC of the bytes.
        expected: u32,
    },
    /// The kind of the message is unknown.
    #[error("peer sent message kind {found}, expected 0 to {most}")]
    PeerSentUnknownKind {
        /// The number of the kind.
        found: u8,
        /// The largest known number.
        most: u8,
    },
    /// A reserved byte is not zero.
    #[error("peer sent a message with a non-zero reserved byte")]
    PeerUsedReservedBytes,
    /// The length in the header differs from the number of bytes.
    #[error("peer sent a message of {present} bytes, expected {claimed} as in its header")]
    PeerSentWrongLength {
        /// The length of the message by its header.
        claimed: usize,
        /// The number of bytes.
        present: usize,
    },
    /// The frame exceeds the limit of its lane.
    #[error("peer sent a frame of {bytes} bytes, expected at most {most}")]
    PeerSentOversizedFrame {
        /// The size of the frame.
        bytes: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// The number field is invalid for the kind of message.
    #[error("peer sent a {kind} with number {number}")]
    PeerSentWrongNumber {
        /// The kind of message.
        kind: &'static str,
        /// The number.
        number: u64,
    },
    /// The sender's incarnation is 0.
    #[error("peer sent a message without an incarnation")]
    PeerHasNoIncarnation,
    /// The first message on a connection is not a hello.
    #[error("peer sent a message before its hello")]
    PeerSkippedHello,
    /// A second hello on one connection.
    #[error("peer sent a second hello on one connection")]
    PeerSaidHelloTwice,
    /// A hello is of an earlier incarnation than one that was received before.
    #[error("peer sent a message of its incarnation {found}, expected at least {known}")]
    PeerIsStale {
        /// The incarnation of the hello.
        found: Incarnation,
        /// The highest incarnation received before.
        known: Incarnation,
    },
    /// A message is of another incarnation than the hello of its connection.
    #[error("peer sent a message of its incarnation {found}, expected {known} as in its hello")]
    PeerChangedIncarnation {
        /// The incarnation of the message.
        found: Incarnation,
        /// The incarnation of the hello.
        known: Incarnation,
    },
    /// A hello claims a state that the peer cannot have.
    #[error("peer of incarnation {incarnation} claims a state begun by incarnation {began}")]
    PeerClaimsForeignState {
        /// The peer's incarnation.
        incarnation: Incarnation,
        /// The incarnation that began the claimed state.
        began: Incarnation,
    },
    /// A message is addressed to another incarnation of this node.
    #[error("peer sent a message to incarnation {found:?} of this node, expected {own}")]
    PeerSpeaksToAnother {
        /// The addressed incarnation.
        found: Option<Incarnation>,
        /// The incarnation of this node.
        own: Incarnation,
    },
    /// The peer acknowledges frames that were not sent.
    #[error(
        "peer acknowledged {received} frames of the {} lane, expected at most the {sent} that were sent",
        lane.name()
    )]
    PeerReceivedUnsent {
        /// The lane.
        lane: Lane,
        /// The number of acknowledged frames.
        received: u64,
        /// The number of sent frames.
        sent: u64,
    },
    /// The peer acknowledges fewer frames than before.
    #[error(
        "peer acknowledged {received} frames of the {} lane, expected at least {acknowledged} as before: it has lost some",
        lane.name()
    )]
    PeerForgot {
        /// The lane.
        lane: Lane,
        /// The number of frames that the hello acknowledges.
        received: u64,
        /// The number of frames acknowledged before.
        acknowledged: u64,
    },
    /// The peer sent more frames out of order than the window allows.
    #[error(
        "peer sent frame {number} of the {} lane while {held} bytes wait for an earlier frame, expected at most {most}",
        lane.name()
    )]
    PeerSentTooMuch {
        /// The lane.
        lane: Lane,
        /// The number of the frame.
        number: u64,
        /// The size in bytes of the frames that wait for an earlier one.
        held: usize,
        /// The window in bytes.
        most: usize,
    },
}
