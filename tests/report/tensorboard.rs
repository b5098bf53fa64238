//! The file that TensorBoard reads: whole records, with the checksums and the messages of its format.

use std::collections::BTreeMap;
use std::fs;

use gaia_report::{EVENTS, Live, LiveMode, LivePlan, Recorder, RunDirectory};
use gaia_telemetry::{InitialRecord, Observer, Progress};

use crate::sample::{self, THREE_ASP};

/// An event: its time, its step, and its scalars by tag.
type Event = (f64, u64, BTreeMap<String, f32>);

/// The file of a recorder that has seen these.
fn written(initial: Option<InitialRecord>, progress: &[Progress]) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(Some(place.path()), "any").unwrap();
    let plan = LivePlan {
        title: String::new(),
        target_objective: None,
        metric: "rmse".into(),
        data_centers: Vec::new(),
    };
    let live = Live::new(LiveMode::Quiet, plan);
    let mut recorder = Recorder::new(&directory, live, initial.as_ref()).unwrap();
    progress.iter().for_each(|at| recorder.on_progress(at));
    assert!(recorder.finish().1.is_none());
    fs::read(place.path().join(EVENTS)).unwrap()
}

/// The messages of a file. Lengths and checksums must be right.
fn records(mut file: &[u8]) -> Vec<&[u8]> {
    let checked = |bytes: &[u8], sum: &[u8]| {
        let sum = u32::from_le_bytes(sum.try_into().unwrap());
        assert_eq!(sum.wrapping_sub(0xa282_ead8).rotate_left(15), crc32c(bytes));
    };
    let mut records = Vec::new();
    while !file.is_empty() {
        let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        checked(&file[..8], &file[8..12]);
        checked(&file[12..12 + length], &file[12 + length..16 + length]);
        records.push(&file[12..12 + length]);
        file = &file[16 + length..];
    }
    records
}

/// A bit at a time, from the polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| (crc >> 1) ^ (if crc & 1 == 1 { 0x82f6_3b78 } else { 0 });
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc));
    !bytes.iter().fold(!0, byte)
}

/// The fields of a protocol buffer with their bytes; numbers have those of their encoding.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let length = match key & 7 {
            0 => {
                found.push((key >> 3, varint(&mut message).to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => varint(&mut message) as usize,
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (field, rest) = message.split_at(length);
        found.push((key >> 3, field.to_vec()));
        message = rest;
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn event(record: &[u8]) -> Event {
    let mut event = (f64::NAN, 0, BTreeMap::new());
    for (field, bytes) in fields(record) {
        match field {
            1 => event.0 = f64::from_le_bytes(bytes.try_into().unwrap()),
            2 => event.1 = u64::from_le_bytes(bytes.try_into().unwrap()),
            5 => {
                for (_, value) in fields(&bytes) {
                    let value = fields(&value);
                    let tag = String::from_utf8(value[0].1.clone()).unwrap();
                    let scalar = f32::from_le_bytes(value[1].1.clone().try_into().unwrap());
                    assert_eq!((value[0].0, value[1].0), (1, 2));
                    assert!(event.2.insert(tag, scalar).is_none(), "one value a tag");
                }
            }
            other => panic!("field {other}"),
        }
    }
    event
}

#[test]
fn every_evaluation_is_an_event_with_scalars_by_data_center_and_link() {
    let (_, progress) = sample::run(THREE_ASP);
    let file = written(Some(InitialRecord { objective: 1.75, metric: 2.0 }), &progress);
    let records = records(&file);
    let version = fields(records[0]);
    assert_eq!(version[1], (3, b"brain.Event:2".to_vec()));

    let events: Vec<Event> = records[1..].iter().map(|record| event(record)).collect();
    assert_eq!(events.len(), 1 + progress.len());
    let initial = BTreeMap::from([("objective/all".into(), 1.75), ("rmse/all".into(), 2.0)]);
    assert_eq!(events[0], (0.0, 0, initial));

    let (last, found) = (progress.last().unwrap(), events.last().unwrap());
    assert_eq!((found.0, found.1), (last.time_s, last.clock));
    let check = |tag: &str, value: f64| assert_eq!(found.2[tag], value as f32, "{tag}");
    check("objective/all", last.objective);
    check("WAN bytes/all", last.wan_bytes as f64);
    let tokyo = &last.data_centers[2];
    check("objective/tokyo", tokyo.objective);
    check("rmse/tokyo", tokyo.metric);
    check("clock/tokyo", tokyo.clock as f64);
    check("reads held back (s)/tokyo", tokyo.blocked_s);
    check("bytes of links/tokyo to ireland", tokyo.sent_bytes["ireland"] as f64);
    check("waited (s)/tokyo for its own workers, local", tokyo.waited[0].seconds);
    check("waited (s)/tokyo for virginia, barrier", tokyo.waited[1].seconds);
}

#[test]
fn a_run_that_diverged_has_events_without_a_number() {
    let (_, mut progress) = sample::run(THREE_ASP);
    progress.truncate(1);
    progress[0].objective = f64::NAN;
    progress[0].clock = u64::MAX;
    let file = written(None, &progress);
    let (_, step, scalars) = event(records(&file)[1]);
    assert!(scalars["objective/all"].is_nan());
    assert_eq!(step, i64::MAX as u64, "steps have 63 bits");
}
