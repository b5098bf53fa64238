//! Frames arrive as sent, and nothing else arrives.

use std::collections::BTreeSet;

use bytes::Bytes;
use gaia_core::codec::{Buffers, Changes, ValueFormat, encode_indexes, quantise};
use gaia_core::types::limits::CLOCK_MAX;
use gaia_core::types::{Clock, DcId, ShardId, Tightness};
use gaia_core::wire::{
    BULK_HEADER_BYTES, BulkHeader, BulkKind, ControlMessage, ENVELOPE_BYTES, FrameError, Hello,
    LinkReport, PROTOCOL_VERSION, decode_bulk, decode_control, encode_bulk, encode_control,
    frame_len, peek_bulk,
};
use proptest::prelude::*;

const PARAMETERS: usize = 1000;

fn header() -> BulkHeader {
    BulkHeader {
        kind: BulkKind::Update,
        origin: DcId(3),
        shard: ShardId(1),
        sequence: 77,
        clock: Clock(12),
        last: true,
        relayed: false,
        tightness: Tightness::NONE,
    }
}

fn small_bulk() -> Vec<u8> {
    bulk_of(ValueFormat::Bf16)
}

fn bulk_of(format: ValueFormat) -> Vec<u8> {
    let changes = Changes::Sparse { indexes: &[4, 9, 600], values: &[1.0, -2.5, 1e-3] };
    let mut frame = Vec::new();
    encode_bulk(&header(), changes, format, &mut frame);
    frame
}

fn small_control() -> Vec<u8> {
    let mut indexes = Vec::new();
    encode_indexes(&[1, 5, 900], &mut indexes);
    let message = ControlMessage::Announce {
        announcement: 9,
        clock: Clock(4),
        sequence: 7,
        indexes: indexes.into(),
    };
    let mut frame = Vec::new();
    encode_control(&message, &mut frame);
    frame
}

fn refuse_bulk(frame: &[u8]) -> FrameError {
    decode_bulk(frame, PARAMETERS, &mut Buffers::default()).expect_err("no bulk frame")
}

/// Length and CRC made right again after a change to a frame.
fn reseal(frame: &mut [u8]) {
    let bytes = (frame.len() as u32).to_le_bytes();
    frame[8..12].copy_from_slice(&bytes);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..12]);
    hasher.update(&frame[16..]);
    let crc = hasher.finalize().to_le_bytes();
    frame[12..16].copy_from_slice(&crc);
}

#[test]
fn every_flipped_bit_of_a_frame_is_noticed() {
    for bulk in ValueFormat::ALL.map(bulk_of) {
        for bit in 0..bulk.len() * 8 {
            let mut damaged = bulk.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            refuse_bulk(&damaged);
            assert!(peek_bulk(&damaged).is_err());
        }
    }
    let control = small_control();
    for bit in 0..control.len() * 8 {
        let mut damaged = control.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        decode_control(&damaged).expect_err("a damaged frame");
    }
}

#[test]
fn every_truncated_or_lengthened_frame_is_noticed() {
    let mut control = small_control();
    for mut bulk in ValueFormat::ALL.map(bulk_of) {
        for end in 0..bulk.len() {
            refuse_bulk(&bulk[..end]);
        }
        bulk.push(0);
        refuse_bulk(&bulk);
        reseal(&mut bulk);
        refuse_bulk(&bulk);
    }
    for end in 0..control.len() {
        decode_control(&control[..end]).expect_err("a truncated frame");
    }
    control.push(0);
    decode_control(&control).expect_err("a lengthened frame");
    reseal(&mut control);
    let error = decode_control(&control).expect_err("a lengthened frame");
    assert!(error.to_string().ends_with("1 bytes follow the message"), "{error}");
}

#[test]
fn frames_of_one_family_are_not_taken_for_the_other() {
    assert!(matches!(refuse_bulk(&small_control()), FrameError::PeerSentOtherProtocol { .. }));
    let error = decode_control(&small_bulk()).expect_err("a bulk frame");
    assert!(matches!(error, FrameError::PeerSentOtherProtocol { .. }));
}

#[test]
fn a_peer_of_another_version_is_told_so() {
    let mut frame = small_control();
    frame[4..6].copy_from_slice(&(PROTOCOL_VERSION + 1).to_le_bytes());
    let expected =
        FrameError::PeerSpeaksOtherVersion { theirs: PROTOCOL_VERSION + 1, ours: PROTOCOL_VERSION };
    assert_eq!(decode_control(&frame), Err(expected.clone()));
    assert_eq!(frame_len(&frame), Err(expected));
}

#[test]
fn a_frame_too_long_is_refused_by_its_first_bytes() {
    for mut frame in [small_bulk(), small_control()] {
        frame[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        let refused = frame_len(&frame[..ENVELOPE_BYTES]);
        assert!(matches!(refused, Err(FrameError::PeerSentOversizedFrame { .. })));
    }
}

#[test]
fn a_frame_is_found_in_a_stream_by_its_first_bytes() {
    for frame in [small_bulk(), small_control()] {
        assert_eq!(frame_len(&frame[..ENVELOPE_BYTES - 1]), Ok(None));
        assert_eq!(frame_len(&frame[..ENVELOPE_BYTES]), Ok(Some(frame.len())));
    }
}

#[test]
fn sealed_nonsense_is_refused_by_name() {
    let check = |at: usize, byte: u8, expect: &str| {
        let mut frame = small_bulk();
        frame[at] = byte;
        reseal(&mut frame);
        let error = refuse_bulk(&frame).to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(6, 13, "bulk kind 13");
    check(22, 7, "tightness 7");
    check(7, 5, "value format 5");
    check(7, 2, "found 6 bytes of values, expected 4");
    check(7, 0, "found 6 bytes of values, expected 12");
    check(20, 4, "flags 0x0004");
    check(23, 1, "non-zero reserved byte");
    check(40, 4, "a frame of 3 changes, expected 4 as in its header");
    check(44, 255, "expected at least 303");
    check(BULK_HEADER_BYTES, 9, "index form 9");
}

#[test]
fn an_index_outside_the_shard_is_refused() {
    let error = decode_bulk(&small_bulk(), 600, &mut Buffers::default()).expect_err("too far");
    assert!(error.to_string().contains("index 600"), "{error}");
}

#[test]
fn a_hello_outside_the_limits_is_refused() {
    let hello = |shard, shards, parameters| {
        let shard = ShardId(shard);
        ControlMessage::Hello(Hello { from: DcId(0), shard, shards, parameters, plan: 2 })
    };
    let decoded = |message| {
        let mut frame = Vec::new();
        encode_control(&message, &mut frame);
        decode_control(&frame)
    };
    assert_eq!(decoded(hello(1, 2, 10)), Ok(hello(1, 2, 10)));
    let beyond = ControlMessage::Tightness { steps: Tightness::MOST.steps() + 1 };
    let link_report = |silent, behind, failed_link, failed| {
        ControlMessage::LinkReport(LinkReport {
            version: 1,
            silent: [DcId(0), DcId(silent)].into(),
            behind: [DcId(behind)].into(),
            failed_links: [DcId(failed_link)].into(),
            failed: [(DcId(failed), 1)].into(),
            pauses: true,
        })
    };
    let largest = link_report(1023, 1023, 1023, 1023);
    assert_eq!(decoded(largest.clone()), Ok(largest));
    for message in [
        hello(2, 2, 10),
        hello(0, 2, 1 << 40),
        hello(0, 2000, 10),
        beyond,
        link_report(1024, 1, 1, 1),
        link_report(1, 1024, 1, 1),
        link_report(1, 1, 1024, 1),
        link_report(1, 1, 1, 1024),
    ] {
        assert!(matches!(decoded(message), Err(FrameError::PeerSentOutOfBounds { .. })));
    }
}

/// A data center that took the clock of a hostile copy for its own would never train.
#[test]
fn a_frame_of_a_clock_that_no_run_has_is_refused() {
    let sealed = |clock| {
        let header = BulkHeader { kind: BulkKind::Copy, clock: Clock(clock), ..header() };
        let mut frame = Vec::new();
        encode_bulk(
            &header,
            Changes::Sparse { indexes: &[], values: &[] },
            ValueFormat::F32,
            &mut frame,
        );
        frame
    };
    assert!(peek_bulk(&sealed(CLOCK_MAX)).is_ok());
    let found = CLOCK_MAX + 1;
    let expected = FrameError::PeerSentOutOfBounds { what: "clock", found, most: CLOCK_MAX };
    assert_eq!(refuse_bulk(&sealed(found)), expected);
}

fn headers() -> impl Strategy<Value = BulkHeader> {
    let flags = (any::<bool>(), any::<bool>(), 0..=Tightness::MOST.steps());
    (0..BulkKind::ALL.len(), any::<u16>(), any::<u16>(), any::<u64>(), 0..=CLOCK_MAX, flags)
        .prop_map(|(kind, origin, shard, sequence, clock, (last, relayed, steps))| BulkHeader {
            kind: BulkKind::ALL[kind],
            origin: DcId(origin),
            shard: ShardId(shard),
            sequence,
            clock: Clock(clock),
            last,
            relayed,
            tightness: Tightness::NONE.tighter(steps),
        })
}

fn messages() -> impl Strategy<Value = ControlMessage> {
    let number = any::<u64>;
    let dcs = || {
        let ids = prop::collection::btree_set(0_u16..1000, 0..20);
        ids.prop_map(|ids| ids.into_iter().map(DcId).collect::<BTreeSet<DcId>>())
    };
    prop_oneof![
        (0u16..1000, 1u16..1000, 0u64..1 << 31, number()).prop_map(
            |(from, shards, parameters, plan)| ControlMessage::Hello(Hello {
                from: DcId(from),
                shard: ShardId(shards - 1),
                shards,
                parameters,
                plan
            })
        ),
        (number(), number()).prop_map(|(clock, sequence)| ControlMessage::MirrorClock {
            clock: Clock(clock),
            sequence
        }),
        (number(), number(), number(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(
            |(announcement, clock, sequence, indexes)| ControlMessage::Announce {
                announcement,
                clock: Clock(clock),
                sequence,
                indexes: Bytes::from(indexes)
            }
        ),
        number().prop_map(|sequence| ControlMessage::EndOfUpdates { sequence }),
        (0..=Tightness::MOST.steps()).prop_map(|steps| ControlMessage::Tightness { steps }),
        (number(), number())
            .prop_map(|(version, sequence)| ControlMessage::CaughtUp { version, sequence }),
        (number(), dcs(), dcs(), any::<bool>()).prop_map(|(version, silent, behind, pauses)| {
            let failed = silent.iter().map(|dc: &DcId| (*dc, 7)).collect();
            let failed_links = silent.union(&behind).copied().collect();
            ControlMessage::LinkReport(LinkReport {
                version,
                silent,
                behind,
                failed_links,
                failed,
                pauses,
            })
        }),
    ]
}

proptest! {
    #[test]
    fn a_bulk_frame_arrives_as_sent(
        header in headers(),
        entries in prop::collection::btree_map(0..PARAMETERS as u32, -1e3f32..1e3, 0..200),
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
    ) {
        let (indexes, values): (Vec<u32>, Vec<f32>) = entries.into_iter().unzip();
        let mut frame = vec![0xaa];
        let changes = Changes::Sparse { indexes: &indexes, values: &values };
        encode_bulk(&header, changes, format, &mut frame);
        let mut buffers = Buffers::default();
        let (arrived, changes) = decode_bulk(&frame[1..], PARAMETERS, &mut buffers).unwrap();
        prop_assert_eq!(arrived, header);
        prop_assert_eq!(peek_bulk(&frame[1..]).unwrap(), (header, changes.len() as u32));
        // The sequence that travels, and what rounding makes of it.
        let mut sent = vec![0.0; PARAMETERS];
        for (index, value) in indexes.iter().zip(&values) {
            sent[*index as usize] = *value;
        }
        let mut sent = match changes {
            Changes::Sparse { indexes: arrived, .. } => {
                prop_assert_eq!(arrived, &indexes[..]);
                values
            }
            Changes::Dense { start, values } => sent[start as usize..][..values.len()].to_vec(),
        };
        quantise(&mut sent, format);
        prop_assert_eq!(changes.values(), sent);
    }

    #[test]
    fn a_control_frame_arrives_as_sent(message in messages()) {
        let mut frame = Vec::new();
        encode_control(&message, &mut frame);
        prop_assert_eq!(decode_control(&frame), Ok(message));
    }

    #[test]
    fn arbitrary_bytes_are_no_frame(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        refuse_bulk(&bytes);
        prop_assert!(decode_control(&bytes).is_err());
        let _ = frame_len(&bytes);
    }

    /// What a peer with a bug, rather than a damaged link, could send.
    #[test]
    fn sealed_arbitrary_bytes_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..300),
        known in any::<bool>(),
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
    ) {
        for start in [bulk_of(format), small_control()] {
            let keep = if known { start.len().min(BULK_HEADER_BYTES) } else { ENVELOPE_BYTES };
            let mut frame = start[..keep].to_vec();
            frame.extend(&body);
            reseal(&mut frame);
            let mut buffers = Buffers::default();
            if let Ok((_, Changes::Sparse { indexes, values })) = decode_bulk(&frame, PARAMETERS, &mut buffers) {
                prop_assert_eq!(indexes.len(), values.len());
                prop_assert!(indexes.iter().all(|index| (*index as usize) < PARAMETERS));
            }
            let _ = decode_control(&frame);
        }
    }

    #[test]
    fn sealed_damage_never_panics(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        format in prop::sample::select(ValueFormat::ALL.to_vec()),
    ) {
        for mut frame in [bulk_of(format), small_control()] {
            let at = at.index(frame.len());
            frame[at] = byte;
            reseal(&mut frame);
            let _ = decode_bulk(&frame, PARAMETERS, &mut Buffers::default());
            let _ = decode_control(&frame);
        }
    }
}
