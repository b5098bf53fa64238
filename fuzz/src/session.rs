//! What one end of a session makes of messages, sealed again: two bytes for the length of each, the message.

use std::num::NonZeroU64;

use bytes::Bytes;
use gaia_core::session::{HEADER_BYTES, Incarnation, Session, SessionConfig, message_len};
use gaia_core::types::Lane;

use super::{Seed, Target};

pub const TARGET: Target = Target { name: "session", check, seeds };

fn check(data: &[u8]) {
    let mut end = session(1);
    end.connect();
    end.push(Lane::Data, Bytes::from_static(&[7; 100]));
    let mut rest = data;
    let mut passed = [0; 2];
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length));
        let Some((message, behind)) = behind.split_at_checked(length) else { return };
        rest = behind;
        let message = Bytes::from(sealed(message));
        let claimed = message_len(&message);
        let Ok(met) = end.handle_message(&message) else { continue };
        assert_eq!(claimed, Ok(Some(message.len())), "what is believed is as long as it says");
        if met.is_some() {
            passed = Lane::ALL.map(|lane| end.received(lane));
        }
        while let Some((lane, _)) = end.poll_frame() {
            passed[lane.index()] += 1;
            assert_eq!(end.received(lane), passed[lane.index()], "each frame once");
        }
        for lane in Lane::ALL {
            while end.poll_transmit(lane).is_some() {}
            assert!(end.acknowledged(lane) <= end.pushed(lane));
        }
        assert!(end.held_bytes(Lane::Data) <= 2 * BYTES_MAX + message.len());
    }
}

/// The same message with its two checksums made right, where there is room for them.
fn sealed(message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let Some((header, frame)) = message.split_first_chunk_mut::<HEADER_BYTES>() else {
        return message;
    };
    header[12..16].copy_from_slice(&crc32fast::hash(frame).to_le_bytes());
    let crc = crc32fast::hash(&header[..HEADER_BYTES - 4]);
    header[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    message
}

fn session(incarnation: u64) -> Session {
    let number = NonZeroU64::new(incarnation).expect("incarnations begin at 1");
    let incarnation = Incarnation(number);
    Session::new(SessionConfig {
        incarnation,
        sent_bytes_max: BYTES_MAX,
        early_bytes_max: BYTES_MAX,
    })
}

fn seeds() -> Vec<Seed> {
    let (mut here, mut there) = (session(1), session(2));
    let mut said = vec![there.connect()];
    let hello = here.connect().to_bytes();
    there.handle_message(&hello).expect("a hello");
    let hello = said[0].to_bytes();
    here.handle_message(&hello).expect("a hello");
    for (lane, frame) in
        [(Lane::Control, &[1; 20][..]), (Lane::Data, &[2; 90]), (Lane::Data, &[3; 5])]
    {
        there.push(lane, Bytes::copy_from_slice(frame));
    }
    here.push(Lane::Data, Bytes::from_static(&[7; 100]));
    let frame = here.poll_transmit(Lane::Data).expect("a frame is due").to_bytes();
    there.handle_message(&frame).expect("a frame in turn");
    while there.poll_frame().is_some() {}
    for lane in Lane::ALL {
        while let Some(message) = there.poll_transmit(lane) {
            said.push(message);
        }
    }
    let one = |bytes: &[u8]| [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat();
    let all: Vec<Vec<u8>> = said.iter().map(|message| one(&message.to_bytes())).collect();
    let mut early = all.clone();
    early.swap(2, 3);
    vec![("early", early.concat()), ("frames", all.concat()), ("hello", all[0].clone())]
}

/// Of frames that are under way, each way.
const BYTES_MAX: usize = 4096;
