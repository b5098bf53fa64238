//! What a mirror may say without end, a server keeps within bounds.

use std::time::Duration;

use bytes::Bytes;
use gaia_core::codec::encode_indexes;
use gaia_core::node::{Lane, ServerInput};
use gaia_core::sync::{AspConfig, RemoteSync};
use gaia_core::types::{Clock, DcId, Instant};
use gaia_core::wire::{ControlMessage, encode_control};

use super::allocations::peak_of;
use super::fuzz::Node;

const MESSAGES: u64 = 100_000;

/// A thousand parameters that are announced, a thousand clocks that are reported ahead, and what collections keep free.
const HELD_BYTES_MAX: usize = 256 << 10;

/// Gives a server messages that it believes, a microsecond apart, and says how much it came to hold.
fn held_after(message: impl Fn(u64) -> ControlMessage) -> usize {
    let mut node = Node::new(0, &RemoteSync::Asp(AspConfig::default()));
    let ((), most) = peak_of(|| {
        for number in 0..MESSAGES {
            let mut frame = Vec::new();
            encode_control(&message(number), &mut frame);
            let (from, lane, frame) = (DcId(1), Lane::Control, Bytes::from(frame));
            let now = Instant::ZERO + Duration::from_micros(number);
            node.server.handle_input(now, ServerInput::Frame { from, lane, frame }).unwrap();
        }
    });
    most
}

fn announcement(number: u64, indexes: &[u32]) -> ControlMessage {
    let mut packed = Vec::new();
    encode_indexes(indexes, &mut packed);
    let sequence = u64::MAX - number;
    ControlMessage::Announce {
        announcement: number,
        clock: Clock(1),
        sequence,
        indexes: packed.into(),
    }
}

#[test]
fn mirror_clocks_ahead_of_any_update_are_kept_within_bounds() {
    let held = held_after(|number| ControlMessage::MirrorClock {
        clock: Clock(u64::MAX - number),
        sequence: u64::MAX,
    });
    assert!(held < HELD_BYTES_MAX, "{held}");
}

#[test]
fn announcements_of_nothing_are_not_kept() {
    let held = held_after(|number| announcement(number, &[]));
    assert!(held < HELD_BYTES_MAX, "{held}");
}

#[test]
fn the_end_of_updates_said_without_end_is_one() {
    let held = held_after(|_| ControlMessage::EndOfUpdates { sequence: u64::MAX });
    assert!(held < HELD_BYTES_MAX, "{held}");
}

/// Each puts the deadline off, which is kept until it has passed: at most one for each announcement of that time.
#[test]
fn the_same_announcement_without_end_costs_its_deadlines() {
    let held = held_after(|number| announcement(number, &[1, 2, 3]));
    assert!(held < HELD_BYTES_MAX + 16 * MESSAGES as usize, "{held}");
}
