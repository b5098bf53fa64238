//! What a log costs: making and reading its bytes, against copying and checking them at all, and a group that is synced,
//! against the same bytes written and synced bare.
//!
//! Encoding copies each body once and runs the CRC over it once; scanning runs the CRC alone. So they take about as long as
//! `memcpy` and `crc32fast`, or `crc32fast`: longer where records are short beside the 32 bytes before each, less where
//! one pass finds in cache what the other has read. A synced group cannot be faster than one write and one `fdatasync`
//! of as many bytes into a growing file; beyond that the log writes a mark.
#![allow(clippy::disallowed_types, clippy::print_stdout, reason = "a bench measures and prints")]

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use gaia_checkpoint::{CheckpointError, LogConfig, LogDirectory};
use gaia_core::log::{Appender, Owner, Scan};
use gaia_core::types::Seed;
use rand_core::Rng;

const BYTES: usize = 64 << 20;
const ROUNDS: usize = 9;

fn main() {
    let mut bodies = vec![0; BYTES];
    Seed(1).child("log").random().fill_bytes(&mut bodies);
    println!("{} MiB in memory, median of {ROUNDS}, MB/s (times the bare work)", BYTES >> 20);
    println!(
        "{:>12} {:>8} {:>8} {:>16} {:>16}",
        "record bytes", "memcpy", "crc32", "encode", "scan"
    );
    for record_bytes in [100, 1 << 10, 16 << 10, 1 << 20] {
        report_bytes(&bodies, record_bytes);
    }
    println!();
    println!("groups on disk, median of each, ms (times the bare work)");
    println!("{:>24} {:>10} {:>18} {:>10}", "group", "bare", "log", "MB/s");
    for (records, record_bytes, groups) in
        [(1, 200, 200), (16, 1 << 10, 200), (16, 64 << 10, 60), (16, 1 << 20, 20)]
    {
        report_groups(&bodies, records, record_bytes, groups);
    }
}

fn owner() -> Owner {
    Owner { plan: 7, node: "virginia/server0".into() }
}

fn report_bytes(bodies: &[u8], record_bytes: usize) {
    let records: Vec<&[u8]> = bodies.chunks(record_bytes).collect();
    let mut copy = Vec::with_capacity(2 * BYTES);
    let mut segment = Vec::with_capacity(2 * BYTES);
    let (mut copies, mut crcs, mut encodes, mut scans) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        copies.push(time(|| {
            copy.clear();
            records.iter().for_each(|record| copy.extend_from_slice(record));
            black_box(&copy);
        }));
        crcs.push(time(|| {
            for record in &records {
                black_box(crc32fast::hash(record));
            }
        }));
        encodes.push(time(|| {
            segment.clear();
            let mut appender = Appender::begin(&owner(), 0, &mut segment);
            records.iter().for_each(|record| _ = appender.push(record, &mut segment));
            black_box(&segment);
        }));
        scans.push(time(|| {
            let scan = Scan::new(&segment, &owner(), record_bytes).expect("its header is whole");
            assert_eq!(scan.filter_map(Result::ok).count(), records.len());
        }));
    }
    let [copy, crc, encode, scan] = [copies, crcs, encodes, scans].map(median);
    let rate = |took: Duration| BYTES as f64 / took.as_secs_f64() / 1e6;
    let times = |took: Duration, least: Duration| took.as_secs_f64() / least.as_secs_f64();
    println!(
        "{record_bytes:>12} {:>8.0} {:>8.0} {:>8.0} ({:>5.2}) {:>8.0} ({:>5.2})",
        rate(copy),
        rate(crc),
        rate(encode),
        times(encode, copy + crc),
        rate(scan),
        times(scan, crc),
    );
}

/// The two take turns, so that a disk that is busy with others is so for both.
fn report_groups(bodies: &[u8], records: usize, record_bytes: usize, groups: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("room for a log");
    let group = &bodies[..records * record_bytes];
    let mut bare = File::create(folder.path().join("bare")).expect("room for a file");
    let mut log = open(&folder.path().join("log"));
    let (mut bare_took, mut log_took) = (Vec::new(), Vec::new());
    for _ in 0..groups {
        bare_took.push(time(|| {
            bare.write_all(group).expect("room for a group");
            bare.sync_data().expect("a disk that syncs");
        }));
        log_took.push(time(|| {
            for record in group.chunks(record_bytes) {
                log.append(record).expect("room for a record");
            }
            log.sync().expect("a disk that syncs");
        }));
    }
    let (bare, log) = (median(bare_took), median(log_took));
    println!(
        "{:>24} {:>10.3} {:>10.3} ({:>5.2}) {:>10.1}",
        format!("{records} x {record_bytes} bytes"),
        bare.as_secs_f64() * 1e3,
        log.as_secs_f64() * 1e3,
        log.as_secs_f64() / bare.as_secs_f64(),
        group.len() as f64 / log.as_secs_f64() / 1e6,
    );
}

fn open(path: &Path) -> LogDirectory {
    let config = LogConfig { owner: owner(), segment_bytes: 1 << 30, record_bytes_max: 1 << 20 };
    let opened = LogDirectory::recover::<CheckpointError>(path, config, 0, |_| Ok(()));
    opened.expect("a new log").0
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
