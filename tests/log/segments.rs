//! Segments that were cut, changed or mixed up.

use gaia_core::log::{Appender, Broken, End, LOG_VERSION, LogError, Owner, Scan};
use gaia_core::types::{Random, Seed};
use rand_core::Rng;

/// The first record of the segment under test.
const FIRST: u64 = 7;

const RECORD_BYTES_MAX: usize = 1 << 16;

fn owner() -> Owner {
    Owner { plan: 0x00c0_ffee, node: "virginia/server0".into() }
}

/// A segment that is written, and what a reader must find in it.
#[derive(Clone)]
struct Written {
    bytes: Vec<u8>,
    appender: Appender,
    /// Where each record ends, and what it says.
    records: Vec<(usize, Vec<u8>)>,
}

impl Written {
    fn new() -> Self {
        let mut bytes = Vec::new();
        let appender = Appender::begin(&owner(), FIRST, &mut bytes);
        Self { bytes, appender, records: Vec::new() }
    }

    fn group(&mut self, lengths: &[usize]) {
        for length in lengths {
            let body: Vec<u8> =
                (0..*length).map(|at| (at * 7 + self.records.len() * 31) as u8).collect();
            let number = self.appender.push(&body, &mut self.bytes);
            assert_eq!(number, FIRST + self.records.len() as u64);
            self.records.push((self.bytes.len(), body));
        }
    }

    fn mark(&mut self) {
        self.appender.push_mark(&mut self.bytes);
    }

    fn next(&self) -> u64 {
        FIRST + self.records.len() as u64
    }
}

/// Records of many lengths, of which some are all zeros or look like entries, in four groups; the last has no mark.
fn written() -> Written {
    let mut written = Written::new();
    written.group(&[1, 40, 5]);
    written.mark();
    written.group(&[300]);
    written.mark();
    written.group(&[2, 2, 64, 90]);
    written.mark();
    written.group(&[33, 1, 120]);
    assert!((1000..2000).contains(&written.bytes.len()));
    written
}

/// Reads as far as one can, and says how it ends.
fn scan(bytes: &[u8]) -> (Vec<Vec<u8>>, Result<End, LogError>) {
    let mut scan = match Scan::new(bytes, &owner(), RECORD_BYTES_MAX) {
        Ok(scan) => scan,
        Err(error) => return (Vec::new(), Err(error)),
    };
    assert_eq!(scan.first(), FIRST);
    let mut bodies = Vec::new();
    for record in scan.by_ref().map_while(Result::ok) {
        assert_eq!(record.number, FIRST + bodies.len() as u64);
        bodies.push(record.body.to_vec());
    }
    assert!(scan.next().is_none(), "an end is an end");
    (bodies, scan.finish())
}

/// How many of the records were read, all as they were written.
fn read_of(written: &Written, bodies: &[Vec<u8>]) -> usize {
    let expected: Vec<_> = written.records.iter().map(|(_, body)| body).collect();
    assert!(expected.iter().copied().take(bodies.len()).eq(bodies));
    bodies.len()
}

/// Goes on behind a torn tail that was cut off, and reads it all again.
fn check_goes_on(bytes: &[u8], end: &End) {
    let mut bytes = bytes[..end.whole_bytes].to_vec();
    let mut appender = end.appender.clone();
    assert!(end.proven_bytes <= end.whole_bytes && appender.synced() <= appender.next_number());
    let number = appender.push(b"goes on", &mut bytes);
    appender.push_mark(&mut bytes);
    let (bodies, again) = scan(&bytes);
    assert_eq!(bodies.len() as u64, number + 1 - FIRST);
    assert_eq!(bodies.last().unwrap(), b"goes on");
    let (whole_bytes, proven_bytes) = (bytes.len(), bytes.len() - 32);
    assert_eq!(again, Ok(End { whole_bytes, proven_bytes, torn: None, appender }));
}

#[test]
fn a_segment_is_read_as_it_was_written() {
    let written = written();
    let (bodies, end) = scan(&written.bytes);
    assert_eq!(read_of(&written, &bodies), written.records.len());
    let end = end.unwrap();
    assert_eq!((end.whole_bytes, &end.torn), (written.bytes.len(), &None));
    assert_eq!(end.appender, written.appender);
    assert_eq!(end.proven_bytes, written.records[7].0, "the last mark is behind eight records");
    check_goes_on(&written.bytes, &end);
    let empty = Written::new();
    assert_eq!(scan(&empty.bytes).1.unwrap().appender, empty.appender);
}

#[test]
fn cut_at_every_byte_it_holds_the_records_that_are_whole() {
    let written = written();
    let header = Written::new().bytes.len();
    for length in 0..written.bytes.len() {
        let cut = &written.bytes[..length];
        let (bodies, end) = scan(cut);
        if length < header {
            assert!(matches!(end, Err(LogError::ShortHeader { .. })), "{length}: {end:?}");
            continue;
        }
        let whole = written.records.iter().take_while(|(ends, _)| *ends <= length).count();
        assert_eq!(read_of(&written, &bodies), whole, "{length} bytes");
        let end = end.unwrap();
        assert_eq!(end.torn.map_or(0, |torn| torn.bytes), length - end.whole_bytes);
        check_goes_on(cut, &end);
    }
}

#[test]
fn every_flipped_bit_is_found_and_never_cut_off_with_what_is_known_to_be_synced() {
    let unmarked = written();
    let mut marked = unmarked.clone();
    marked.mark();
    let header = Written::new().bytes.len();
    for written in [unmarked, marked] {
        let synced = written.appender.synced();
        // The last mark proves what was before it, not itself.
        let proven = written.records[(synced - FIRST) as usize - 1].0;
        for bit in 0..written.bytes.len() * 8 {
            let mut flipped = written.bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (bodies, end) = scan(&flipped);
            let whole = written.records.iter().take_while(|(ends, _)| *ends <= bit / 8).count();
            assert_eq!(read_of(&written, &bodies), whole, "bit {bit}");
            match end {
                Err(LogError::Damaged { offset, number, .. }) => {
                    assert_eq!(number, FIRST + whole as u64, "bit {bit}");
                    assert!((header..proven).contains(&offset) && offset <= bit / 8);
                }
                Err(_) => assert!(bit / 8 < header, "bit {bit}"),
                Ok(end) => {
                    assert!(bit / 8 >= proven, "bit {bit}");
                    assert!(end.torn.unwrap().number >= synced && end.whole_bytes <= bit / 8);
                    check_goes_on(&flipped, &end);
                }
            }
        }
    }
}

#[test]
fn whatever_follows_the_last_record_is_cut_off() {
    let written = written();
    let header = Written::new().bytes.len();
    let mut random: Random = Seed(3).child("garbage").random();
    let mut garbage = vec![0; 700];
    random.fill_bytes(&mut garbage);
    // What once stood there: the same segment before it was cut, with another record where this one ends.
    let mut earlier = written.clone();
    earlier.bytes.truncate(written.records[8].0);
    let mut appender = scan(&earlier.bytes).1.unwrap().appender;
    for body in [&b"another"[..], b"history", b"and more of it"] {
        appender.push(body, &mut earlier.bytes);
    }
    let mut other = Vec::new();
    let mut appender = Appender::begin(&owner(), written.next(), &mut other);
    appender.push(b"another segment", &mut other);
    let tails = [
        ("one zero", vec![0]),
        ("zeros", vec![0; 4096]),
        ("ones", vec![0xff; 200]),
        ("garbage", garbage),
        ("its beginning again", written.bytes[..].to_vec()),
        ("its first records again", written.bytes[header..written.records[2].0].to_vec()),
        ("its last record again", written.bytes[written.records[9].0..].to_vec()),
        ("another history", earlier.bytes[written.records[8].0..].to_vec()),
        ("the end of another history", earlier.bytes[written.records[8].0 + 39 * 2..].to_vec()),
        ("another segment", other),
    ];
    for (name, tail) in tails {
        let bytes = [&written.bytes[..], &tail].concat();
        let (bodies, end) = scan(&bytes);
        assert_eq!(read_of(&written, &bodies), written.records.len(), "{name}");
        let end = end.unwrap();
        let torn = end.torn.unwrap();
        assert_eq!((torn.number, torn.bytes), (written.next(), tail.len()), "{name}");
        check_goes_on(&bytes, &end);
    }
}

/// A disk may have written the end of a group and not its beginning.
#[test]
fn a_group_that_lost_its_beginning_is_torn_unless_a_mark_says_that_it_was_synced() {
    let written = written();
    let lost = written.records[7].0..written.records[8].0;
    let mut bytes = written.bytes.clone();
    bytes[lost.clone()].fill(0);
    let (bodies, end) = scan(&bytes);
    assert_eq!(read_of(&written, &bodies), 8);
    let torn = end.unwrap().torn.unwrap();
    assert_eq!((torn.number, torn.bytes), (FIRST + 8, bytes.len() - lost.start));
    let mut marked = written.clone();
    marked.mark();
    marked.bytes[lost].fill(0);
    let (bodies, end) = scan(&marked.bytes);
    assert_eq!(read_of(&written, &bodies), 8);
    let said = end.unwrap_err().to_string();
    assert!(said.contains("expected record 15, which was synced"), "{said}");
}

#[test]
fn records_that_are_missing_or_doubled_in_the_middle_are_damage() {
    let written = written();
    let between = |from: usize, to: usize| written.records[from].0..written.records[to].0;
    let check = |from: usize, range: std::ops::Range<usize>, instead: &[u8], expect: &str| {
        let mut bytes = written.bytes.clone();
        bytes.splice(range, instead.iter().copied());
        let (bodies, end) = scan(&bytes);
        assert_eq!(read_of(&written, &bodies), from);
        let said = end.unwrap_err().to_string();
        assert!(
            said.contains(&format!("expected record {}, which", FIRST + from as u64)),
            "{said}"
        );
        assert!(said.ends_with(expect), "{said}");
    };
    check(1, between(0, 1), &[], "the entry has number 9, expected 8");
    check(1, between(0, 2), &[], "the entry has number 10, expected 8");
    let doubled = written.bytes[between(0, 1)].to_vec();
    check(2, written.records[1].0..written.records[1].0, &doubled, "number 8, expected 9");
    // The record that follows the gap may be the only one that knows of it.
    let mut few = Written::new();
    few.group(&[9]);
    few.mark();
    few.group(&[9]);
    few.mark();
    let lost = few.records[0].0 + 32..few.bytes.len();
    few.group(&[9]);
    few.bytes.drain(lost);
    let error = scan(&few.bytes).1.unwrap_err();
    assert!(matches!(error, LogError::Damaged { number: 8, broken: Broken::Number { .. }, .. }));
    // A mark that is gone: the record after it has lost what was before it.
    let mark = written.records[2].0..written.records[2].0 + 32;
    let mut bytes = written.bytes.clone();
    bytes.drain(mark);
    let error = scan(&bytes).1.unwrap_err();
    assert!(matches!(error, LogError::Damaged { number: 10, broken: Broken::History { .. }, .. }));
}

#[test]
fn a_segment_of_another_log_is_refused() {
    let bytes = written().bytes;
    let refused = |bytes: &[u8], owner: &Owner| {
        Scan::new(bytes, owner, RECORD_BYTES_MAX).map(|_| ()).unwrap_err().to_string()
    };
    let changed = |at: usize, byte: u8| {
        let mut changed = bytes.clone();
        changed[at] = byte;
        changed
    };
    let check = |said: String, expect: &str| assert_eq!(said, expect);
    check(
        refused(&bytes, &Owner { plan: 0xbad, ..owner() }),
        "is of another run: found hash 0000000000c0ffee of plan and data, expected 0000000000000bad",
    );
    check(
        refused(&bytes, &Owner { node: "oregon/\u{1b}1".into(), ..owner() }),
        r"is the log of node `virginia/server0`, expected `oregon/\u{1b}1`",
    );
    check(refused(&changed(4, LOG_VERSION as u8 + 1), &owner()), "is of log version 2, expected 1");
    check(
        refused(&changed(0, b'X'), &owner()),
        "begins with [58, 41, 49, 57], expected [47, 41, 49, 57]",
    );
    check(refused(&[], &owner()), "is 0 bytes long, expected at least 24 for the header");
    check(refused(&bytes[..30], &owner()), "is 30 bytes long, expected at least 44 for the header");
    assert!(refused(&changed(9, 1), &owner()).starts_with("has a damaged header"));
    let mut last = Vec::new();
    let _ = Appender::begin(&owner(), u64::MAX, &mut last);
    check(
        refused(&last, &owner()),
        "begins with record 18446744073709551615, expected at most 9223372036854775808",
    );
}

#[test]
fn a_record_beyond_the_limit_is_refused_and_one_that_claims_to_be_is_torn() {
    let mut written = Written::new();
    written.group(&[10, RECORD_BYTES_MAX + 1]);
    let (bodies, end) = scan(&written.bytes);
    assert_eq!(bodies.len(), 1);
    let said = end.unwrap_err().to_string();
    assert_eq!(said, "has a record 8 of 65537 bytes at byte 86, expected at most 65536");
    let (bodies, end) = scan(&written.bytes[..written.bytes.len() - 1]);
    assert_eq!(bodies.len(), 1);
    let broken = end.unwrap().torn.unwrap().broken;
    assert_eq!(broken.to_string(), "the entry has 65568 bytes, expected 65569");
}
