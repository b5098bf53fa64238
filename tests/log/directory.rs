//! The log of a node as files.

use std::fs;
use std::path::Path;

use gaia_checkpoint::{CheckpointError, LogConfig, LogDirectory, Recovered};
use gaia_core::log::Owner;
use tempfile::{TempDir, tempdir};

fn config() -> LogConfig {
    let owner = Owner { plan: 1, node: "virginia/server0".into() };
    LogConfig { owner, segment_bytes: 350, record_bytes_max: 200 }
}

fn body(number: u64) -> Vec<u8> {
    format!("record {number} ").repeat(3 + number as usize % 5).into_bytes()
}

type Read = (LogDirectory, Recovered, Vec<Vec<u8>>);

fn recover_as(path: &Path, config: LogConfig, from: u64) -> Result<Read, CheckpointError> {
    let mut read = Vec::new();
    let (log, recovered) = LogDirectory::recover(path, config, from, |record| {
        read.push(record.body.to_vec());
        Ok::<_, CheckpointError>(())
    })?;
    Ok((log, recovered, read))
}

fn recover(path: &Path, from: u64) -> Result<Read, CheckpointError> {
    recover_as(path, config(), from)
}

fn refused(path: &Path, from: u64) -> String {
    let error = recover(path, from).err().expect("it is not to be read");
    assert!(error.is_bad_input(), "{error}");
    error.to_string()
}

/// A log of eleven records in groups of two, in the directory `nodes/virginia/server0/log`.
fn written() -> (TempDir, std::path::PathBuf) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("nodes/virginia/server0/log");
    let (mut log, ..) = recover(&path, 0).unwrap();
    for number in 0..11 {
        assert_eq!(log.append(&body(number)).unwrap(), number);
        if number % 2 == 1 {
            log.sync().unwrap();
        }
    }
    log.sync().unwrap();
    (directory, path)
}

fn bodies(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(body).collect()
}

fn segment(path: &Path, first: u64) -> std::path::PathBuf {
    path.join(format!("{first:020}.log"))
}

#[test]
fn a_log_is_gone_on_with_and_read_from_any_record() {
    let (_directory, path) = written();
    for from in 0..=11 {
        let (log, recovered, read) = recover(&path, from).unwrap();
        assert_eq!(read, bodies(from..11));
        assert_eq!(recovered, Recovered { records: 11 - from, torn: None });
        assert_eq!(log.segments().collect::<Vec<_>>(), [0, 4, 8]);
    }
    let (mut log, ..) = recover(&path, 11).unwrap();
    for number in 11..15 {
        assert_eq!(log.append(&body(number)).unwrap(), number);
    }
    log.sync().unwrap();
    drop(log);
    assert_eq!(recover(&path, 3).unwrap().2, bodies(3..15));
}

#[test]
fn segments_that_nobody_needs_are_let_go_and_the_last_one_never() {
    let (_directory, path) = written();
    let (mut log, ..) = recover(&path, 0).unwrap();
    for (number, left) in
        [(0, vec![0, 4, 8]), (3, vec![0, 4, 8]), (4, vec![4, 8]), (7, vec![4, 8]), (99, vec![8])]
    {
        log.drop_before(number);
        assert_eq!(log.segments().collect::<Vec<_>>(), left, "before {number}");
        assert!(left.iter().all(|first| segment(&path, *first).exists()));
        assert_eq!(fs::read_dir(&path).unwrap().count(), left.len() + 1);
    }
    drop(log);
    assert_eq!(recover(&path, 9).unwrap().2, bodies(9..11));
    assert!(refused(&path, 7).ends_with("log lacks record 7: its first is record 8"));
}

#[test]
fn a_torn_tail_is_cut_off_for_good_wherever_it_begins() {
    let (_directory, path) = written();
    let file = segment(&path, 8);
    let whole = fs::read(&file).unwrap();
    let header = 44;
    for length in header..whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        let (mut log, recovered, read) = recover(&path, 8).unwrap();
        let next = log.next_number();
        assert_eq!(read, bodies(8..next));
        let torn = recovered.torn.map_or(0, |torn| torn.bytes);
        let left = fs::metadata(&file).unwrap().len() as usize;
        // What no mark had said to be synced is now, and marked.
        assert!(left == length - torn || left == length - torn + 32, "{length} bytes");
        // What is written in its place is read, and nothing is torn any more.
        log.append(b"in its place").unwrap();
        log.sync().unwrap();
        drop(log);
        let (log, recovered, read) = recover(&path, 8).unwrap();
        assert_eq!(recovered.torn, None);
        assert_eq!(read.last().unwrap(), b"in its place");
        assert_eq!(log.next_number(), next + 1);
        // The next segment, if there is one by now, is of this life.
        log.segments().filter(|first| *first > 8).for_each(|first| {
            fs::remove_file(segment(&path, first)).unwrap();
        });
    }
}

#[test]
fn a_segment_that_is_not_the_last_must_be_whole() {
    let (_directory, path) = written();
    let file = segment(&path, 4);
    let whole = fs::read(&file).unwrap();
    let check = |bytes: &[u8], expect: &str| {
        fs::write(&file, bytes).unwrap();
        let said = refused(&path, 4);
        assert!(said.contains(expect), "{said}");
        // Who does not need it does not read it.
        assert_eq!(recover(&path, 8).unwrap().2, bodies(8..11));
    };
    for length in 0..whole.len() {
        check(&whole[..length], "00000000000000000");
    }
    check(&whole[..30], "04.log is 30 bytes long, expected at least 44 for the header");
    check(&whole[..whole.len() - 1], "04.log is damaged at byte");
    check(&whole[..whole.len() - 1], "expected record 7, which was synced");
    check(&[&whole[..], b"x"].concat(), "04.log is damaged at byte");
    let first_record = 32 + body(4).len();
    check(&whole[..44 + first_record], "08.log begins with record 8, expected record 5");
    fs::write(&file, &whole).unwrap();
    assert_eq!(recover(&path, 0).unwrap().2, bodies(0..11));
}

#[test]
fn a_log_with_a_gap_or_of_another_node_is_refused() {
    let (_directory, path) = written();
    let middle = fs::read(segment(&path, 4)).unwrap();
    fs::remove_file(segment(&path, 4)).unwrap();
    let said = refused(&path, 3);
    assert!(said.ends_with("08.log begins with record 8, expected record 4"), "{said}");
    fs::copy(segment(&path, 0), segment(&path, 4)).unwrap();
    let said = refused(&path, 0);
    assert!(said.ends_with("04.log begins with record 0, expected record 4"), "{said}");
    fs::write(segment(&path, 4), middle).unwrap();
    let said = refused(&path, 12);
    assert!(said.ends_with("log lacks record 12: its next record is 11"), "{said}");
    for (owner, expect) in [
        (Owner { plan: 2, ..config().owner }, "is of another run"),
        (Owner { node: "oregon/server0".into(), ..config().owner }, "is the log of node"),
    ] {
        let error = recover_as(&path, LogConfig { owner, ..config() }, 0).err().unwrap();
        let said = error.to_string();
        assert!(said.contains(&format!("00.log {expect}")), "{said}");
    }
    let empty = tempdir().unwrap();
    let said = refused(empty.path(), 5);
    assert!(said.ends_with("lacks record 5: it has no records"), "{said}");
}

#[test]
fn a_flipped_bit_of_what_was_synced_names_its_file_and_place() {
    let (_directory, path) = written();
    let file = segment(&path, 8);
    let mut bytes = fs::read(&file).unwrap();
    bytes[44 + 32] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let said = refused(&path, 0);
    assert!(said.contains("08.log is damaged at byte 44, expected record 8"), "{said}");
    assert!(said.contains("the checksum of the body is"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), bytes, "nothing is cut off");
}

/// As after a loss of power that took the mark: the records are believed, have consequences from then on, and are not
/// cut off any more.
#[test]
fn a_group_that_is_gone_on_from_is_marked() {
    let (_directory, path) = written();
    let file = segment(&path, 8);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 32]).unwrap();
    assert_eq!(recover(&path, 8).unwrap().2, bodies(8..11));
    let mut bytes = fs::read(&file).unwrap();
    assert_eq!(bytes.len(), whole.len());
    bytes[whole.len() - 33] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let said = refused(&path, 8);
    assert!(said.contains("expected record 10, which was synced"), "{said}");
}

#[test]
fn one_process_has_a_log_at_a_time() {
    let (_directory, path) = written();
    let (log, ..) = recover(&path, 0).unwrap();
    let said = refused(&path, 0);
    assert_eq!(said, format!("{} is used by another process", path.display()));
    drop(log);
    assert!(recover(&path, 0).is_ok());
}

#[test]
fn what_was_left_of_making_a_segment_is_removed_and_other_files_stay() {
    let (_directory, path) = written();
    let draft = path.join(".part-00000000000000000012.log");
    fs::write(&draft, "half").unwrap();
    for name in ["notes.txt", "4.log", "x.log", "-1.log"] {
        fs::write(path.join(name), "no segment").unwrap();
    }
    assert_eq!(recover(&path, 0).unwrap().2, bodies(0..11));
    assert!(!draft.exists());
    assert_eq!(fs::read_dir(&path).unwrap().count(), 3 + 1 + 4);
}

#[test]
fn a_record_that_is_too_long_is_not_taken_and_the_log_goes_on() {
    let (_directory, path) = written();
    let (mut log, ..) = recover(&path, 11).unwrap();
    let said = log.append(&[1; 201]).unwrap_err().to_string();
    assert!(said.ends_with("cannot store a record of 201 bytes, expected at most 200"), "{said}");
    assert_eq!(log.append(&[1; 200]).unwrap(), 11);
    log.sync().unwrap();
    drop(log);
    assert_eq!(recover(&path, 11).unwrap().2, [[1; 200]]);
}

/// What was appended and not synced when the process ended was never said to be there.
#[test]
fn a_log_that_is_closed_without_a_sync_holds_what_was_synced() {
    let (_directory, path) = written();
    let (mut log, ..) = recover(&path, 11).unwrap();
    log.append(b"lost").unwrap();
    drop(log);
    assert_eq!(recover(&path, 10).unwrap().2, bodies(10..11));
}

#[test]
fn an_error_of_who_replays_ends_the_recovery() {
    let (_directory, path) = written();
    let stopped = LogDirectory::recover(&path, config(), 0, |record| {
        if record.number < 5 { Ok(()) } else { Err(CheckpointError::InUse { path: "me".into() }) }
    });
    assert_eq!(stopped.err().unwrap().to_string(), "me is used by another process");
}
