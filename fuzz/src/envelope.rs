//! The first bytes of a frame, from which a driver learns how much room to make.

use gaia_core::codec::Buffers;
use gaia_core::types::limits::BULK_FRAME_BYTES_MAX;
use gaia_core::wire::{ENVELOPE_BYTES, decode_bulk, decode_control, frame_len, peek_bulk};

use super::{Seed, Target, bulk, control};

pub const TARGET: Target = Target { name: "envelope", check, seeds };

fn check(data: &[u8]) {
    let claimed = frame_len(data);
    match claimed {
        Ok(None) => assert!(data.len() < ENVELOPE_BYTES, "an envelope says how long its frame is"),
        Ok(Some(bytes)) => {
            assert!((ENVELOPE_BYTES..=BULK_FRAME_BYTES_MAX).contains(&bytes));
            assert_eq!(frame_len(&data[..ENVELOPE_BYTES]), claimed, "what follows changes nothing");
        }
        Err(_) => {}
    }
    // A frame that is believed is as long as it says.
    let mut buffers = Buffers::default();
    let believed = decode_control(data).is_ok()
        | peek_bulk(data).is_ok()
        | decode_bulk(data, 1000, &mut buffers).is_ok();
    assert!(!believed || claimed == Ok(Some(data.len())));
}

fn seeds() -> Vec<Seed> {
    let bulk = bulk::seeds().remove(0).1;
    vec![("bulk", bulk[1..].to_vec()), ("control", control::seeds().remove(0).1)]
}
