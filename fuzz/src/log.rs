//! A segment of a node's log, as it is and sealed again.

use gaia_core::log::{Appender, Owner, Scan};

use super::{Seed, Target};

pub const TARGET: Target = Target { name: "log", check, seeds };

fn check(data: &[u8]) {
    read(data);
    read(&sealed(data));
}

fn read(segment: &[u8]) {
    let Ok(mut scan) = Scan::new(segment, &owner(), RECORD_BYTES_MAX) else { return };
    let whole = scan.clone();
    let mut number = scan.first();
    let mut records = Vec::new();
    for record in scan.by_ref().map_while(Result::ok) {
        assert_eq!(record.number, number, "each number once");
        assert!((1..=RECORD_BYTES_MAX).contains(&record.body.len()));
        number += 1;
        records.push(record.body);
    }
    let end = scan.finish();
    assert_eq!(whole.finish(), end, "what is read does not depend on how");
    let Ok(mut end) = end else { return };
    assert_eq!(end.appender.next_number(), number);
    let torn = end.torn.map_or(0, |torn| torn.bytes);
    assert_eq!(end.whole_bytes + torn, segment.len(), "nothing is left out");
    let mut segment = segment[..end.whole_bytes].to_vec();
    end.appender.push(b"goes on", &mut segment);
    records.push(b"goes on");
    let again = Scan::new(&segment, &owner(), RECORD_BYTES_MAX).expect("a header that was read");
    let again = again.map(|record| record.expect("a tail was cut off where it is not whole").body);
    assert_eq!(again.collect::<Vec<_>>(), records);
}

/// The same segment with its checksums made right, as far as there is room for them.
fn sealed(segment: &[u8]) -> Vec<u8> {
    let mut segment = segment.to_vec();
    let Some(name_bytes) = segment.get(6..8) else { return segment };
    let mut at = 24 + usize::from(u16::from_le_bytes([name_bytes[0], name_bytes[1]]));
    let Some(header) = segment.get(..at) else { return segment };
    let crc = crc32fast::hash(header);
    let mut before = crc;
    let put = |segment: &mut [u8], at: usize, crc: u32| {
        segment[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    };
    if segment.len() < at + 4 {
        return segment;
    }
    put(&mut segment, at, crc);
    at += 4;
    while segment.len() >= at + ENTRY_BYTES {
        let bytes = [0, 1, 2, 3].map(|byte| segment[at + byte]);
        let body = at + ENTRY_BYTES;
        let end = body.saturating_add(u32::from_le_bytes(bytes) as usize).min(segment.len());
        let body_crc = crc32fast::hash(&segment[body..end]);
        put(&mut segment, at + 4, body_crc);
        put(&mut segment, at + 24, before);
        let mut hasher = crc32fast::Hasher::new_with_initial(crc);
        hasher.update(&segment[at..at + ENTRY_BYTES - 4]);
        before = hasher.finalize();
        put(&mut segment, at + ENTRY_BYTES - 4, before);
        at = end;
    }
    segment
}

fn owner() -> Owner {
    Owner { plan: 7, node: "virginia/server0".into() }
}

fn seeds() -> Vec<Seed> {
    let mut whole = Vec::new();
    let mut appender = Appender::begin(&owner(), 40, &mut whole);
    let header = whole.len();
    let mut synced = 0;
    for group in [&[&b"one record"[..], b"another"][..], &[&[0; 60]], &[b"last", b"group"]] {
        synced = whole.len();
        for body in group {
            appender.push(body, &mut whole);
        }
        appender.push_mark(&mut whole);
    }
    let torn = whole[..whole.len() - ENTRY_BYTES - 3].to_vec();
    let mut beginning_lost = torn.clone();
    beginning_lost[synced..synced + ENTRY_BYTES].fill(0);
    let mut damaged = whole.clone();
    damaged[header + ENTRY_BYTES] ^= 1;
    vec![
        ("beginning-lost", beginning_lost),
        ("damaged", damaged),
        ("empty", whole[..header].to_vec()),
        ("torn", torn),
        ("whole", whole),
    ]
}

const ENTRY_BYTES: usize = 32;
const RECORD_BYTES_MAX: usize = 1 << 12;
