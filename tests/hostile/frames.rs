//! Frames of every kind: no flipped bit and no cut goes unnoticed, and no length is believed before its bytes are here.

use std::num::NonZeroU64;

use bytes::Bytes;
use gaia_core::codec::{Buffers, ValueFormat, decode_indexes};
use gaia_core::session::{Incarnation, Session, SessionConfig, message_len};
use gaia_core::types::Lane;
use gaia_core::wire::{
    BULK_HEADER_BYTES, BulkKind, ENVELOPE_BYTES, Gathering, LanKind, decode_bulk, decode_control,
    encode_lan, frame_len, peek_bulk,
};

use super::allocations::peak_of;
use super::fuzz::{Target, sealed};

const PARAMETERS: usize = 1000;

/// A frame of each kind in each format, sparse and dense.
fn bulk_frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (_, seed) in (Target::named("bulk").unwrap().seeds)() {
        let seed = &seed[1..];
        let (header, _) = peek_bulk(seed).unwrap();
        for kind in BulkKind::ALL {
            for format in ValueFormat::ALL {
                let mut buffers = Buffers::default();
                let (_, changes) = decode_bulk(seed, PARAMETERS, &mut buffers).unwrap();
                let mut frame = Vec::new();
                let header = gaia_core::wire::BulkHeader { kind, ..header };
                gaia_core::wire::encode_bulk(&header, changes, format, &mut frame);
                frames.push(frame);
            }
        }
    }
    frames
}

fn control_frames() -> Vec<Vec<u8>> {
    let seeds = (Target::named("control").unwrap().seeds)();
    seeds.into_iter().map(|(_, frame)| frame).collect()
}

fn refused(frame: &[u8]) -> bool {
    decode_bulk(frame, PARAMETERS, &mut Buffers::default()).is_err()
        && peek_bulk(frame).is_err()
        && decode_control(frame).is_err()
}

#[test]
fn every_flipped_bit_of_a_frame_of_every_kind_is_noticed() {
    let frames = [bulk_frames(), control_frames()].concat();
    assert!(frames.len() >= BulkKind::ALL.len() * ValueFormat::ALL.len() + 5);
    for mut frame in frames {
        assert!(!refused(&frame));
        for bit in 0..frame.len() * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&frame), "bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_cut_of_a_frame_of_every_kind_is_noticed() {
    for frame in [bulk_frames(), control_frames()].concat() {
        for end in 0..frame.len() {
            let cut = &frame[..end];
            assert!(refused(cut), "{end} bytes");
            // A driver that knows how long the frame is waits for the rest of it.
            let len = frame_len(cut).unwrap();
            assert_eq!(len, (end >= ENVELOPE_BYTES).then_some(frame.len()));
        }
    }
}

/// A frame of each kind, with a body and without.
fn lan_frames() -> Vec<Vec<u8>> {
    use LanKind::{Copy, Hello, Order, Report, RowsRead, WorkerMessage};
    let mut frames = Vec::new();
    for kind in [Hello, WorkerMessage, RowsRead, Order, Report, Copy] {
        for body in [&[][..], &[7; 50]] {
            let mut frame = Vec::new();
            encode_lan(kind, &body.to_vec().into(), &mut frame);
            frames.push(frame);
        }
    }
    frames
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_lan_frame_is_noticed() {
    let refused = |frame: &[u8]| Gathering::default().push(frame, |_| 1 << 10, Vec::new).is_err();
    for mut frame in lan_frames() {
        assert!(!refused(&frame));
        for end in 0..frame.len() {
            assert!(refused(&frame[..end]), "{end} bytes");
        }
        for bit in 0..frame.len() * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&frame), "bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// An end of a session, and all kinds of messages that the other end has for it, in their order.
fn session_messages() -> (Session, Vec<Vec<u8>>) {
    let incarnation = |number| Incarnation(NonZeroU64::new(number).unwrap());
    let session = |number| {
        let incarnation = incarnation(number);
        Session::new(SessionConfig { incarnation, sent_bytes_max: 4096, early_bytes_max: 4096 })
    };
    let (mut here, mut there) = (session(3), session(5));
    let mut messages = vec![there.connect().to_bytes()];
    there.handle_message(&here.connect().to_bytes()).unwrap();
    // So that there is something to acknowledge.
    let mut duplicate = session(3);
    duplicate.connect();
    duplicate.handle_message(&messages[0]).unwrap();
    for end in [&mut here, &mut duplicate] {
        end.push(Lane::Data, Bytes::from_static(&[9; 30]));
    }
    let frame = duplicate.poll_transmit(Lane::Data).unwrap();
    for (lane, frame) in [(Lane::Control, &[1; 20][..]), (Lane::Data, &[2; 90])] {
        there.push(lane, Bytes::copy_from_slice(frame));
        messages.push(there.poll_transmit(lane).unwrap().to_bytes());
    }
    there.handle_message(&frame.to_bytes()).unwrap();
    assert!(there.poll_frame().is_some());
    messages.push(there.poll_acknowledgement().unwrap().to_bytes());
    (here, messages.iter().map(|message| message.to_vec()).collect())
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_session_message_is_noticed_and_nothing_taken() {
    let (mut end, messages) = session_messages();
    for (number, message) in messages.iter().enumerate() {
        let before = end.state();
        let mut refused = |bytes: &[u8]| {
            let answer = end.handle_message(&Bytes::copy_from_slice(bytes));
            assert!(end.poll_frame().is_none() && end.state() == before);
            answer.is_err()
        };
        for bit in 0..message.len() * 8 {
            let mut flipped = message.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&flipped), "bit {bit} of message {number}");
        }
        for length in 0..message.len() {
            assert!(refused(&message[..length]), "{length} bytes of message {number}");
        }
        assert_eq!(message_len(message), Ok(Some(message.len())));
        let taken = end.handle_message(&Bytes::copy_from_slice(message));
        assert_eq!(taken.unwrap().is_some(), number == 0, "the first is a hello");
        if number == 0 {
            assert!(end.poll_transmit(Lane::Data).is_some());
        }
        assert_eq!(end.poll_frame().is_some(), number == 1 || number == 2);
    }
    assert_eq!(end.acknowledged(Lane::Data), 1);
}

/// What a frame may hold while it is decoded: its indexes and values, which take at most fifteen times its bytes, in
/// vectors that grow, and the shortest of errors.
fn bound(frame: &[u8]) -> usize {
    64 * frame.len() + (4 << 10)
}

#[test]
fn no_length_at_its_extremes_makes_room_for_more_than_the_frame_has() {
    let bulk = (Target::named("bulk").unwrap().seeds)();
    let mut frames: Vec<_> =
        bulk.into_iter().map(|(_, seed)| (seed[1..].to_vec(), b"GAIB")).collect();
    frames.extend(control_frames().into_iter().map(|frame| (frame, b"GAIC")));
    for (frame, magic) in frames {
        for at in ENVELOPE_BYTES..frame.len() {
            for extreme in [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                for width in [1, 2, 4, 5] {
                    let mut forged = frame.clone();
                    let bytes = u64::from(extreme) | 0x0f << 32;
                    let place = forged.iter_mut().skip(at).take(width);
                    place.zip(bytes.to_le_bytes()).for_each(|(byte, value)| *byte = value);
                    check_memory(&sealed(&forged, magic).unwrap());
                }
            }
        }
    }
}

/// Of the largest shard there can be, so that nothing but the frame's own bytes is a bound.
fn check_memory(frame: &[u8]) {
    let parameters = gaia_core::types::limits::MODEL_PARAMETERS_MAX;
    let (_, most) = peak_of(|| {
        let mut buffers = Buffers::default();
        let bulk = decode_bulk(frame, parameters, &mut buffers).is_ok();
        bulk | decode_control(frame).is_ok()
    });
    assert!(most <= bound(frame), "{} bytes held {most}: {frame:02x?}", frame.len());
}

#[test]
fn an_announcement_makes_no_more_room_than_the_shard_has_parameters() {
    // One run over all of the shard, the shortest frame there is for so much.
    for parameters in [1 << 10, 1 << 16, 1 << 20] {
        let mut bytes = Vec::new();
        gaia_core::codec::encode_indexes(&(0..parameters).collect::<Vec<u32>>(), &mut bytes);
        assert!(bytes.len() < 16);
        let (decoded, most) =
            peak_of(|| decode_indexes(&bytes, parameters as usize, &mut Vec::new()));
        assert_eq!(decoded, Ok(()));
        assert!(most <= 4 * parameters as usize, "{most}");
        // The same for a shard of one parameter less is refused before room is made.
        let (refused, most) =
            peak_of(|| decode_indexes(&bytes, parameters as usize - 1, &mut Vec::new()));
        assert!(refused.is_err() && most < 1 << 10, "{most}");
    }
}

#[test]
fn a_frame_header_claims_what_it_likes_and_gets_its_limit() {
    for frame in [bulk_frames().remove(0), control_frames().remove(0)] {
        for claimed in [0, 1, 15, 16, 17, 1 << 22, (1 << 22) + 1, 1 << 26, (1 << 26) + 1, u32::MAX]
        {
            let mut forged = frame[..ENVELOPE_BYTES].to_vec();
            forged[8..12].copy_from_slice(&claimed.to_le_bytes());
            let bulk = &frame[..4] == b"GAIB";
            let most = if bulk { 1 << 26 } else { 1 << 22 };
            let legal = (ENVELOPE_BYTES as u32..=most).contains(&claimed);
            assert_eq!(frame_len(&forged).is_ok(), legal, "{claimed}");
        }
    }
    assert_eq!(BULK_HEADER_BYTES, ENVELOPE_BYTES + 32);
}
