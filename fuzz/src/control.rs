//! Control messages between mirrors: hellos, mirror clocks, announcements.

use gaia_core::codec::encode_indexes;
use gaia_core::types::{Clock, DcId, ShardId};
use gaia_core::wire::{ControlMessage, Hello, LinkReport, decode_control, encode_control};

use super::sealed::{CONTROL, sealed};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "control", check, seeds };

fn check(data: &[u8]) {
    for frame in [Some(data.to_vec()), sealed(data, CONTROL)].into_iter().flatten() {
        match decode_control(&frame) {
            Ok(message) => {
                let mut again = Vec::new();
                encode_control(&message, &mut again);
                assert_eq!(decode_control(&again), Ok(message));
            }
            // Errors are printed: a peer must not choose how much, nor what the terminal does.
            Err(error) => {
                let said = error.to_string();
                assert!(said.len() < 1000 && !said.contains(char::is_control), "{said:?}");
            }
        }
    }
}

pub fn seeds() -> Vec<Seed> {
    let mut indexes = Vec::new();
    encode_indexes(&[3, 4, 5, 90, 700], &mut indexes);
    let (from, shard, clock) = (DcId(1), ShardId(0), Clock(12));
    let hello = Hello { from, shard, shards: 1, parameters: 1000, plan: 7 };
    let messages = [
        ("hello", ControlMessage::Hello(hello)),
        ("mirror-clock", ControlMessage::MirrorClock { clock, sequence: 70 }),
        (
            "announce",
            ControlMessage::Announce {
                announcement: 1,
                clock,
                sequence: 1,
                indexes: indexes.into(),
            },
        ),
        ("tightness", ControlMessage::Tightness { steps: 1 }),
        ("end-of-updates", ControlMessage::EndOfUpdates { sequence: 1 << 40 }),
        ("caught-up", ControlMessage::CaughtUp { version: 3, sequence: 5 }),
        (
            "link-report",
            ControlMessage::LinkReport(LinkReport {
                version: 3,
                silent: [DcId(700)].into(),
                behind: [DcId(0)].into(),
                failed_links: [DcId(2), DcId(700)].into(),
                failed: [(DcId(1), 2)].into(),
                pauses: true,
            }),
        ),
    ];
    let frame = |message| {
        let mut frame = Vec::new();
        encode_control(message, &mut frame);
        frame
    };
    messages.iter().map(|(name, message)| (*name, frame(message))).collect()
}
