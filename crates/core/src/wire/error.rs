//! What a peer can get wrong.

use crate::codec::DecodeError;

/// Why bytes are no frame of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("peer sent a frame of {bytes} bytes where {expected} are the fewest")]
    PeerSentShortFrame { bytes: usize, expected: usize },
    #[error("peer sent a frame that begins with {found:02x?}, expected {expected:02x?}")]
    PeerSentOtherProtocol { found: [u8; 4], expected: [u8; 4] },
    #[error("peer speaks version {theirs} of the protocol, this node {ours}")]
    PeerSpeaksOtherVersion { theirs: u16, ours: u16 },
    #[error("peer sent a frame that claims {claimed} bytes and has {present}")]
    PeerSentWrongLength { claimed: usize, present: usize },
    #[error("peer sent a frame of {bytes} bytes where {most} are the most")]
    PeerSentOversizedFrame { bytes: usize, most: usize },
    #[error("peer sent a damaged frame: its CRC is {found:08x}, its bytes give {expected:08x}")]
    PeerSentDamagedFrame { found: u32, expected: u32 },
    #[error("peer sent bulk kind {found}, the known are 0 to {most}")]
    PeerSentUnknownKind { found: u8, most: u8 },
    #[error("peer sent value format {found}, the known are 0 to 3")]
    PeerSentUnknownFormat { found: u8 },
    #[error("peer sent flags {found:#06x}, the known are {known:#06x}")]
    PeerSentUnknownFlags { found: u16, known: u16 },
    #[error("peer sent a non-zero byte where the frame has none in use")]
    PeerUsedReservedBytes,
    #[error("peer sent changes that do not decode: {0}")]
    PeerSentBadChanges(#[from] DecodeError),
    #[error("peer announced {announced} changes in the header of a frame that holds {held}")]
    PeerSentWrongCount { announced: u32, held: usize },
    #[error("peer sent a control message that does not decode: {0}")]
    PeerSentBadMessage(String),
    #[error("peer sent {what} {found}, the most is {most}")]
    PeerSentOutOfBounds { what: &'static str, found: u64, most: u64 },
}
