//! The layout of frames on streams: each stream begins with a hello, followed by frames with a length prefix.
//!
//! A stream carries one lane of one shard in one direction, or a stripe of it. Its hello identifies it. Lengths are
//! checked before memory is allocated. All integers are little-endian.

use bytes::Bytes;

use super::Breach;
use super::stripe::{Stripe, stripes_max};
use gaia_core::node::Lane;
use gaia_core::types::limits::{BULK_FRAME_BYTES_MAX, CONTROL_FRAME_BYTES_MAX};
use gaia_core::types::{DcId, ShardId};
use gaia_core::wire::PROTOCOL_VERSION;

/// The first bytes of a stream, which identify its sender, shard, lane and stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The data center of the sender.
    pub from: DcId,
    /// The shard whose frames the stream carries.
    pub shard: ShardId,
    /// The lane of the frames.
    pub lane: Lane,
    /// The stripe of the lane.
    pub stripe: Stripe,
}

impl Hello {
    /// Encodes the hello with the magic bytes and the protocol version.
    pub fn encode(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.from.0.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.shard.0.to_le_bytes());
        bytes[10] = match self.lane {
            Lane::Control => CONTROL,
            Lane::Data => DATA,
        };
        bytes[11] = self.stripe.index;
        bytes[12] = self.stripe.count;
        bytes
    }

    /// Decodes a hello.
    ///
    /// # Errors
    /// If the magic bytes, the version, the lane or the stripe is invalid.
    pub fn decode(bytes: [u8; HELLO_BYTES]) -> Result<Self, Breach> {
        let [m0, m1, m2, m3, v0, v1, f0, f1, s0, s1, lane, index, count] = bytes;
        let found = [m0, m1, m2, m3];
        if found != MAGIC {
            return Err(Breach::NotGaia { found });
        }
        let found = u16::from_le_bytes([v0, v1]);

        if found != PROTOCOL_VERSION {
            return Err(Breach::Version { found, expected: PROTOCOL_VERSION });
        }
        let lane = match lane {
            CONTROL => Lane::Control,
            DATA => Lane::Data,
            found => return Err(Breach::Lane { found }),
        };

        let from = DcId(u16::from_le_bytes([f0, f1]));
        let shard = ShardId(u16::from_le_bytes([s0, s1]));
        let stripe = stripe_of(index, count, lane)?;
        Ok(Self { from, shard, lane, stripe })
    }
}

/// A frame with its length prefix. Its length must be within the lane's limit.
pub fn with_length(frame: &[u8]) -> Bytes {
    [&prefix_of(frame.len())[..], frame].concat().into()
}

/// The prefix of a frame of this length, which must be within the lane's limit.
pub(super) fn prefix_of(length: usize) -> [u8; PREFIX_BYTES] {
    let length = u32::try_from(length).expect("a lane's limit is far below 4 GiB");
    length.to_le_bytes()
}

/// The length of the frame behind a prefix, checked against the lane's limit.
pub fn length(prefix: [u8; PREFIX_BYTES], lane: Lane) -> Result<usize, Breach> {
    let bytes = u32::from_le_bytes(prefix) as usize;
    let max = frame_bytes_max(lane);
    if bytes > max { Err(Breach::FrameTooLong { lane, bytes, max }) } else { Ok(bytes) }
}

/// The longest frame of a lane.
pub(super) fn frame_bytes_max(lane: Lane) -> usize {
    match lane {
        Lane::Control => CONTROL_FRAME_BYTES_MAX,
        Lane::Data => BULK_FRAME_BYTES_MAX,
    }
}

pub(super) const HELLO_BYTES: usize = 13;
const MAGIC: [u8; 4] = *b"GAIA";
const CONTROL: u8 = 0;
const DATA: u8 = 1;

pub(super) const PREFIX_BYTES: usize = gaia_core::link::FRAME_PREFIX_BYTES as usize;

/// # Errors
/// If a lane has no such stripe.
fn stripe_of(index: u8, count: u8, lane: Lane) -> Result<Stripe, Breach> {
    if index < count && count <= stripes_max(lane) {
        Ok(Stripe { index, count })
    } else {
        Err(Breach::Stripe { lane, index, count })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stripe::STRIPES_MAX;

    proptest! {
        #[test]
        fn a_hello_reads_back_as_written(from: u16, shard: u16, count in 0..=STRIPES_MAX) {
            let lane = if count == 0 { Lane::Control } else { Lane::Data };
            for stripe in Stripe::all(count.max(1)) {
                let hello = Hello { from: DcId(from), shard: ShardId(shard), lane, stripe };
                prop_assert_eq!(Hello::decode(hello.encode()), Ok(hello));
            }
        }

        #[test]
        fn any_stripe_is_one_of_a_bounded_number_or_a_breach(index: u8, count: u8, control: bool) {
            let lane = if control { Lane::Control } else { Lane::Data };
            let most = if control { 1 } else { STRIPES_MAX };
            let taken = stripe_of(index, count, lane);
            let legal = (1..=most).contains(&count) && index < count;
            let breach = Breach::Stripe { lane, index, count };
            prop_assert_eq!(taken, if legal { Ok(Stripe { index, count }) } else { Err(breach) });
        }

        #[test]
        fn any_bytes_are_a_hello_or_a_breach(bytes: [u8; HELLO_BYTES]) {
            if let Ok(hello) = Hello::decode(bytes) {
                prop_assert_eq!(hello.encode(), bytes);
            }
        }

        #[test]
        fn a_length_is_within_its_limit_or_refused(prefix: [u8; 4], control: bool) {
            let lane = if control { Lane::Control } else { Lane::Data };
            match length(prefix, lane) {
                Ok(bytes) => prop_assert!(bytes <= frame_bytes_max(lane)),
                Err(breach) => {
                    let refused = matches!(breach, Breach::FrameTooLong { .. });
                    prop_assert!(refused);
                }
            }
        }
    }

    #[test]
    fn a_hello_of_another_version_says_which() {
        let hello =
            Hello { from: DcId(1), shard: ShardId(0), lane: Lane::Data, stripe: Stripe::WHOLE };
        let mut bytes = hello.encode();
        bytes[4] = 9;
        assert_eq!(Hello::decode(bytes), Err(Breach::Version { found: 9, expected: 1 }));
        bytes[0] = b'X';
        assert!(matches!(Hello::decode(bytes), Err(Breach::NotGaia { .. })));
    }

    #[test]
    fn a_frame_lies_behind_its_length() {
        assert_eq!(&with_length(b"abc")[..], b"\x03\0\0\0abc");
        assert_eq!(length([3, 0, 0, 0], Lane::Data), Ok(3));
    }
}
