//! A stream between data centers: the hello that opens it, then frames behind their lengths.

use gaia_core::node::Lane;
use gaia_core::types::limits::{BULK_FRAME_BYTES_MAX, CONTROL_FRAME_BYTES_MAX};
use gaia_core::types::{DcId, ShardId};
use gaia_driver::emulated::hostile::{Opening, Stripe, frame_bytes};

use super::{Seed, Target};

pub const TARGET: Target = Target { name: "stream", check, seeds };

fn check(data: &[u8]) {
    let Some((hello, mut rest)) = data.split_first_chunk() else { return };
    let Ok(opening) = Opening::decode(*hello) else { return };
    assert_eq!(opening.encode(), *hello, "a hello has one form");
    let most = match opening.lane {
        Lane::Control => CONTROL_FRAME_BYTES_MAX,
        Lane::Data => BULK_FRAME_BYTES_MAX,
    };
    while let Some((prefix, behind)) = rest.split_first_chunk()
        && let Ok(bytes) = frame_bytes(*prefix, opening.lane)
    {
        assert!(bytes <= most);
        let Some(behind) = behind.get(bytes..) else { return };
        rest = behind;
    }
}

fn seeds() -> Vec<Seed> {
    let stream = |lane, frames: &[&[u8]]| {
        let opening = Opening { from: DcId(1), shard: ShardId(0), lane, stripe: Stripe::WHOLE };
        let mut bytes = opening.encode().to_vec();
        for frame in frames {
            bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            bytes.extend_from_slice(frame);
        }
        bytes
    };
    vec![
        ("control", stream(Lane::Control, &[&[7; 30], &[], &[9; 3]])),
        ("data", stream(Lane::Data, &[&[1; 200]])),
    ]
}
