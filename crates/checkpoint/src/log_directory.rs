//! The log of one node in a directory: segments that are read, extended and removed.
//!
//! A segment is a file named after its first record. [`gaia_core::log`] defines its contents, and what a crash may leave of
//! it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::CheckpointError;
use super::log_disk::{DRAFT, LogDisk, LogFolder};
use gaia_core::log::{Appender, End, LogError, Owner, Record, Scan, TornTail};

/// The settings of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The run and the node that the log belongs to.
    pub owner: Owner,
    /// The length in bytes from which on, at the end of a group, the next segment is started.
    pub segment_bytes: u64,
    /// The longest record in bytes, below 4 GiB.
    pub record_bytes_max: usize,
}

/// A log that is written.
///
/// Once an operation of the disk has failed it takes no more records: after a failed sync the contents of the disk are
/// unknown, and a second sync would succeed without having written them.
pub struct LogDirectory {
    path: PathBuf,
    config: LogConfig,
    disk: Box<dyn LogDisk>,
    /// The first records of all segments. The last segment is the one that is written.
    segments: BTreeSet<u64>,
    appender: Appender,
    /// Bytes that are not written yet.
    pending: Vec<u8>,
    /// Bytes of the last segment that are written.
    written_bytes: u64,
    stopped: bool,
}

/// The result of opening a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// How many records were replayed.
    pub records: u64,
    /// The torn tail that was cut off, if there was one.
    pub torn: Option<TornTail>,
}

impl LogDirectory {
    /// Opens the log in a directory, and passes all its records from number `from` on to `replay`, in order.
    ///
    /// A torn tail is cut off. Afterwards all records are synced and marked as such. Where there is no log and `from` is 0,
    /// a new one is started.
    ///
    /// # Errors
    /// Where another process has locked the log; where it is damaged, belongs to another node, or has not all records from
    /// `from` on; where the disk fails; and the first error of `replay`.
    pub fn recover<E: From<CheckpointError>>(
        path: &Path,
        config: LogConfig,
        from: u64,
        replay: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(Self, Recovered), E> {
        Self::recover_on(Box::new(LogFolder::open(path)?), path, config, from, replay)
    }

    /// As [`Self::recover`], on another disk. `path` is for errors.
    ///
    /// # Errors
    /// As [`Self::recover`].
    ///
    /// # Panics
    /// Where records of 4 GiB or more are allowed.
    pub fn recover_on<E: From<CheckpointError>>(
        mut disk: Box<dyn LogDisk>,
        path: &Path,
        config: LogConfig,
        from: u64,
        replay: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(Self, Recovered), E> {
        let lengths = u32::MAX as usize;
        assert!(config.record_bytes_max <= lengths, "a record's length is four bytes");

        let mut segments = segments(disk.as_mut(), path)?;
        if segments.is_empty() && from == 0 {
            let (appender, written_bytes) = begin_segment(disk.as_mut(), path, &config, 0)?;
            segments.insert(0);
            let log = Self::at(disk, path, config, segments, appender, written_bytes);
            return Ok((log, Recovered { records: 0, torn: None }));
        }

        let (end, tail, records) = read(disk.as_mut(), path, &config, &segments, from, replay)?;
        let last = *segments.last().expect("a log that was read has segments");
        let whole_bytes = end.whole_bytes as u64;
        let file = path.join(name(last));

        if let Some(torn) = end.torn {
            warn!(
                path = %file.display(), offset = whole_bytes, bytes = torn.bytes, record = torn.number,
                "the last entry of a log is incomplete and is removed: {}", torn.broken
            );
            disk.cut(&name(last), whole_bytes)
                .map_err(CheckpointError::io(&file, "cannot be truncated"))?;
        }

        let proven_bytes = end.proven_bytes as u64;
        disk.rewrite(&name(last), proven_bytes, &tail)
            .map_err(CheckpointError::io(&file, "cannot be rewritten"))?;

        let mut log = Self::at(disk, path, config, segments, end.appender, whole_bytes);
        if log.synced() < log.next_number() {
            log.mark()?;
        }

        Ok((log, Recovered { records, torn: end.torn }))
    }

    /// Appends a record and returns its number. The record is durable after the next [`Self::sync`].
    ///
    /// # Errors
    /// Where the record is too long, in which case it is not appended; where the disk fails, or has failed before.
    ///
    /// # Panics
    /// Where it is empty.
    pub fn append(&mut self, body: &[u8]) -> Result<u64, CheckpointError> {
        let (bytes, most) = (body.len(), self.config.record_bytes_max);
        if bytes > most {
            let path = self.path.clone();
            return Err(CheckpointError::OversizedRecord { path, bytes, most });
        }
        self.check_goes()?;
        let number = self.appender.push(body, &mut self.pending);
        if self.pending.len() >= PENDING_BYTES_MAX {
            self.write()?;
        }
        Ok(number)
    }

    /// Waits until the disk has all records. They survive any later crash.
    ///
    /// # Errors
    /// Where the disk fails, or has failed before. The records since the last sync must not have any effect outside.
    pub fn sync(&mut self) -> Result<(), CheckpointError> {
        self.check_goes()?;
        if self.appender.next_number() == self.appender.synced() {
            return Ok(());
        }
        self.write()?;
        let file = self.name();
        let synced = self.disk.sync(&file);
        self.unless_failed(synced, CANNOT_SYNC)?;
        if self.written_bytes >= self.config.segment_bytes {
            return self.rotate();
        }
        self.mark()
    }

    /// Passes all records to the operating system. They survive the end of this process, but not that of the machine. Waits
    /// for the disk only at the end of a segment: the existence of the next one proves that this one is synced.
    ///
    /// # Errors
    /// Where the disk fails, or has failed before.
    pub fn flush(&mut self) -> Result<(), CheckpointError> {
        let bytes = self.written_bytes + self.pending.len() as u64;
        if bytes >= self.config.segment_bytes {
            return self.sync();
        }
        self.check_goes()?;
        self.write()
    }

    /// Removes the segments whose records are all below `number`. A failure leaves an old segment and is logged.
    pub fn drop_before(&mut self, number: u64) {
        let firsts: Vec<u64> = self.segments.iter().copied().collect();
        for pair in firsts.windows(2).filter(|pair| pair[1] <= number) {
            let name = name(pair[0]);
            match self.disk.remove(&name) {
                Ok(()) => drop(self.segments.remove(&pair[0])),
                Err(error) => {
                    let path = self.path.join(name);
                    warn!(path = %path.display(), %error, "an old segment of a log was not removed");
                }
            }
        }
    }

    /// The number that the next record will have.
    pub fn next_number(&self) -> u64 {
        self.appender.next_number()
    }

    /// All records below this number are synced.
    pub fn synced(&self) -> u64 {
        self.appender.synced()
    }

    /// The first record of each segment, ascending.
    pub fn segments(&self) -> impl Iterator<Item = u64> {
        self.segments.iter().copied()
    }

    fn at(
        disk: Box<dyn LogDisk>,
        path: &Path,
        config: LogConfig,
        segments: BTreeSet<u64>,
        appender: Appender,
        written_bytes: u64,
    ) -> Self {
        Self {
            path: path.to_owned(),
            config,
            disk,
            segments,
            appender,
            pending: Vec::new(),
            written_bytes,
            stopped: false,
        }
    }

    fn check_goes(&self) -> Result<(), CheckpointError> {
        let stopped = || CheckpointError::LogStopped { path: self.path.join(self.name()) };
        if self.stopped { Err(stopped()) } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), CheckpointError> {
        let written = self.disk.append(&self.name(), &self.pending);
        self.unless_failed(written, "cannot be written")?;
        self.written_bytes += self.pending.len() as u64;
        self.pending.clear();
        self.pending.shrink_to(2 * PENDING_BYTES_MAX);
        Ok(())
    }

    /// Writes a mark that all records so far are synced. They are.
    fn mark(&mut self) -> Result<(), CheckpointError> {
        self.appender.push_mark(&mut self.pending);
        self.write()
    }

    /// Starts the next segment. Its existence proves that all earlier ones are synced.
    fn rotate(&mut self) -> Result<(), CheckpointError> {
        let first = self.appender.next_number();
        match begin_segment(self.disk.as_mut(), &self.path, &self.config, first) {
            Ok((appender, written_bytes)) => {
                self.appender = appender;
                self.written_bytes = written_bytes;
                self.segments.insert(first);
                Ok(())
            }
            Err(error) => {
                self.stopped = true;
                Err(error)
            }
        }
    }

    /// Stops the log where an operation has failed.
    fn unless_failed(
        &mut self,
        step: std::io::Result<()>,
        problem: &'static str,
    ) -> Result<(), CheckpointError> {
        let Err(error) = step else { return Ok(()) };
        self.stopped = true;
        Err(CheckpointError::io(&self.path.join(self.name()), problem)(error))
    }

    /// The name of the segment that is written.
    fn name(&self) -> String {
        name(*self.segments.last().expect("a log that is written has a segment"))
    }
}

/// The first records of all segments. Drafts of segments are removed.
fn segments(disk: &mut dyn LogDisk, path: &Path) -> Result<BTreeSet<u64>, CheckpointError> {
    let names = disk.names().map_err(CheckpointError::io(path, "cannot be listed"))?;
    for draft in names.iter().filter(|name| name.starts_with(DRAFT)) {
        let path = path.join(draft);
        disk.remove(draft).map_err(CheckpointError::io(&path, "cannot be removed"))?;
    }
    Ok(names.iter().filter_map(|name| first_of(name)).collect())
}

fn begin_segment(
    disk: &mut dyn LogDisk,
    path: &Path,
    config: &LogConfig,
    first: u64,
) -> Result<(Appender, u64), CheckpointError> {
    let mut header = Vec::new();
    let appender = Appender::begin(&config.owner, first, &mut header);
    let name = name(first);
    let created = disk.create(&name, &header);
    created.map_err(CheckpointError::io(&path.join(name), "cannot be created"))?;
    Ok((appender, header.len() as u64))
}

/// Reads all records from number `from` on.
///
/// Returns how the last segment ends, its bytes that no mark covers, and how many records were replayed.
fn read<E: From<CheckpointError>>(
    disk: &mut dyn LogDisk,
    path: &Path,
    config: &LogConfig,
    segments: &BTreeSet<u64>,
    from: u64,
    mut replay: impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<(End, Vec<u8>, u64), E> {
    let begins_late = || CheckpointError::LogBeginsLate {
        path: path.to_owned(),
        first: segments.first().copied(),
        needed: from,
    };

    let start = *segments.range(..=from).next_back().ok_or_else(begins_late)?;
    let mut records = 0;
    let mut expected = start;
    let mut firsts = segments.range(start..).peekable();

    loop {
        let first = *firsts.next().expect("the loop returns at the last segment");
        let file = path.join(name(first));
        if first != expected {
            return Err(CheckpointError::LogGap { path: file, found: first, expected }.into());
        }

        let bytes =
            disk.read(&name(first)).map_err(CheckpointError::io(&file, "cannot be read"))?;
        let end = replay_segment(&file, &bytes, config, first, |record| {
            if record.number >= from {
                replay(record)?;
                records += 1;
            }
            Ok::<(), E>(())
        })?;
        expected = end.appender.next_number();

        if firsts.peek().is_none() {
            if expected < from {
                let path = path.to_owned();
                return Err(
                    CheckpointError::LogEndsEarly { path, next: expected, needed: from }.into()
                );
            }

            let tail = bytes[end.proven_bytes..end.whole_bytes].to_vec();
            return Ok((end, tail, records));
        }

        if let Some(TornTail { number, broken, .. }) = end.torn {
            // The next segment proves that this one was synced, so that a crash cannot have torn it.
            let error = LogError::Damaged { offset: end.whole_bytes, number, broken };
            return Err(CheckpointError::Log { path: file, error }.into());
        }
    }
}

/// Passes every record of the segment `file`, which must start with record `first`, to `replay`. Returns how it ends.
fn replay_segment<E: From<CheckpointError>>(
    file: &Path,
    bytes: &[u8],
    config: &LogConfig,
    first: u64,
    mut replay: impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<End, E> {
    let refused = |error| CheckpointError::Log { path: file.to_owned(), error };
    let mut scan = Scan::new(bytes, &config.owner, config.record_bytes_max).map_err(refused)?;
    if scan.first() != first {
        let (path, found) = (file.to_owned(), scan.first());
        return Err(CheckpointError::LogGap { path, found, expected: first }.into());
    }

    for record in scan.by_ref() {
        replay(record.map_err(refused)?)?;
    }
    Ok(scan.finish().map_err(refused)?)
}

/// The name of the segment whose first record is `first`.
fn name(first: u64) -> String {
    format!("{first:020}{SUFFIX}")
}

/// The first record of the segment of this name.
fn first_of(text: &str) -> Option<u64> {
    let first = text.strip_suffix(SUFFIX)?.parse().ok()?;
    (name(first) == text).then_some(first)
}

const SUFFIX: &str = ".log";
const CANNOT_SYNC: &str = "cannot be synced";

/// Longer groups are written in several parts.
const PENDING_BYTES_MAX: usize = 1 << 20;
