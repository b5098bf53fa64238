//! The errors of decoding frames.

use crate::codec::DecodeError;

/// Why bytes are not a frame of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is shorter than its headers.
    #[error("peer sent a frame of {bytes} bytes, expected at least {expected}")]
    PeerSentShortFrame {
        /// The size of the frame.
        bytes: usize,
        /// The smallest valid size.
        expected: usize,
    },
    /// The frame begins with other magic bytes.
    #[error("peer sent a frame that begins with {found:02x?}, expected {expected:02x?}")]
    PeerSentOtherProtocol {
        /// The first four bytes.
        found: [u8; 4],
        /// The expected magic bytes.
        expected: [u8; 4],
    },
    /// The frame is of another protocol version.
    #[error("peer speaks protocol version {theirs}, expected {ours}")]
    PeerSpeaksOtherVersion {
        /// The peer's version.
        theirs: u16,
        /// [`PROTOCOL_VERSION`](super::PROTOCOL_VERSION).
        ours: u16,
    },
    /// The length in the envelope differs from the number of bytes.
    #[error("peer sent a frame of {present} bytes, expected {claimed} as in its header")]
    PeerSentWrongLength {
        /// The length in the envelope.
        claimed: usize,
        /// The number of bytes.
        present: usize,
    },
    /// The frame exceeds the limit of its family.
    #[error("peer sent a frame of {bytes} bytes, expected at most {most}")]
    PeerSentOversizedFrame {
        /// The length in the envelope.
        bytes: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// The CRC in the envelope differs from that of the bytes.
    #[error("peer sent a damaged frame: found CRC {found:08x}, expected {expected:08x}")]
    PeerSentDamagedFrame {
        /// The CRC in the envelope.
        found: u32,
        /// The CRC of the bytes.
        expected: u32,
    },
    /// The kind of a bulk or LAN frame is unknown.
    #[error("peer sent bulk kind {found}, expected 0 to {most}")]
    PeerSentUnknownKind {
        /// The number of the kind.
        found: u8,
        /// The largest known number.
        most: u8,
    },
    /// The value format of a bulk frame is unknown.
    #[error("peer sent value format {found}, expected 0 to 3")]
    PeerSentUnknownFormat {
        /// The number of the format.
        found: u8,
    },
    /// A bulk frame has unknown flags.
    #[error("peer sent flags {found:#06x}, expected none outside {known:#06x}")]
    PeerSentUnknownFlags {
        /// The flags.
        found: u16,
        /// All known flags.
        known: u16,
    },
    /// A reserved byte is not zero.
    #[error("peer sent a frame with a non-zero reserved byte")]
    PeerUsedReservedBytes,
    /// The sections of a bulk frame are not valid changes to the shard.
    #[error("peer sent changes that cannot be decoded: {0}")]
    PeerSentBadChanges(#[from] DecodeError),
    /// The number of changes in a bulk header differs from the number in its sections.
    #[error("peer sent a frame of {held} changes, expected {announced} as in its header")]
    PeerSentWrongCount {
        /// The number in the header.
        announced: u32,
        /// The number in the sections.
        held: usize,
    },
    /// A control message is not valid MessagePack of a known message, or a LAN message has frames of different kinds.
    #[error("peer sent a control message that cannot be decoded: {0}")]
    PeerSentBadMessage(String),
    /// A number in a message exceeds its bound.
    #[error("peer sent {what} {found}, expected at most {most}")]
    PeerSentOutOfBounds {
        /// The name of the quantity.
        what: &'static str,
        /// The number.
        found: u64,
        /// The bound.
        most: u64,
    },
}
