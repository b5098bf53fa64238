//! The log of one node in a directory: segments that are read, gone on with and let go.
//!
//! A segment is a file named after its first record. [`gaia_core::log`] says what is in it and what a crash may leave of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tracing::warn;

use super::CheckpointError;
use super::log_disk::{DRAFT, LogDisk, LogFolder};
use gaia_core::log::{Appender, End, LogError, Owner, Record, Scan, TornTail};

/// What a log must be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub owner: Owner,
    /// A segment that has come to so many bytes by the end of a group is the last no more.
    pub segment_bytes: u64,
    /// What one record may have at most, below 4 GiB.
    pub record_bytes_max: usize,
}

/// A log that is written.
///
/// Once a step of the disk has failed it takes nothing any more: after a failed sync nobody knows what the disk has, and
/// asking again would have it say that all is well.
pub struct LogDirectory {
    path: PathBuf,
    config: LogConfig,
    disk: Box<dyn LogDisk>,
    /// The first records of all segments; the last is that of the one which is written.
    segments: BTreeSet<u64>,
    appender: Appender,
    /// What has yet to be written.
    pending: Vec<u8>,
    /// Bytes of the last segment that were written.
    written_bytes: u64,
    stopped: bool,
}

/// What was found in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// How many records were handed on.
    pub records: u64,
    /// What was cut off.
    pub torn: Option<TornTail>,
}

impl LogDirectory {
    /// Opens the log in a directory, and hands all its records from number `from` on to `replay`, in order. A torn tail
    /// is cut off, and what remains is synced and marked. Where there is none, `from` being 0, a log is begun.
    ///
    /// # Errors
    /// Where another process has the log, it is damaged or another's, does not reach from `from` on without a gap, or the
    /// disk fails; or the first of `replay`.
    pub fn recover<E: From<CheckpointError>>(
        path: &Path,
        config: LogConfig,
        from: u64,
        replay: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(Self, Recovered), E> {
        Self::recover_on(Box::new(LogFolder::open(path)?), path, config, from, replay)
    }

    /// As [`Self::recover`], on another disk; `path` is for errors.
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
                "the torn tail of a log is cut off: {}", torn.broken
            );
            disk.cut(&name(last), whole_bytes)
                .map_err(CheckpointError::io(&file, "cannot be cut off"))?;
        }
        let proven_bytes = end.proven_bytes as u64;
        disk.rewrite(&name(last), proven_bytes, &tail)
            .map_err(CheckpointError::io(&file, "cannot be written anew"))?;
        let mut log = Self::at(disk, path, config, segments, end.appender, whole_bytes);
        if log.synced() < log.next_number() {
            log.mark()?;
        }
        Ok((log, Recovered { records, torn: end.torn }))
    }

    /// Takes a record and answers its number. It is there for good after the next [`Self::sync`].
    ///
    /// # Errors
    /// Where it is too long, and is not taken, or the disk fails or has failed.
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

    /// Waits until the disk has all records. With this they will be there after any crash.
    ///
    /// # Errors
    /// Where the disk fails or has failed: none of the records since the last sync must have consequences.
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

    /// Hands all records to the machine without waiting for its disk: they survive the end of this process, not that of
    /// the machine.
    ///
    /// # Errors
    /// Where the disk fails or has failed.
    pub fn flush(&mut self) -> Result<(), CheckpointError> {
        self.check_goes()?;
        self.write()
    }

    /// Removes the segments whose records are all below `number`. What cannot be removed only takes up room.
    pub fn drop_before(&mut self, number: u64) {
        let firsts: Vec<u64> = self.segments.iter().copied().collect();
        for pair in firsts.windows(2).filter(|pair| pair[1] <= number) {
            let name = name(pair[0]);
            match self.disk.remove(&name) {
                Ok(()) => drop(self.segments.remove(&pair[0])),
                Err(error) => {
                    let path = self.path.join(name);
                    warn!(path = %path.display(), %error, "an old segment of a log stays");
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

    /// The first records of the segments that there are.
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

    /// Says that all so far is synced, as it is.
    fn mark(&mut self) -> Result<(), CheckpointError> {
        self.appender.push_mark(&mut self.pending);
        self.write()
    }

    /// Begins the next segment. That it is there says that all before it is synced.
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

    /// Stops for good where a step has failed.
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

/// The first records of all segments. What was left of making one is removed.
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
    created.map_err(CheckpointError::io(&path.join(name), "cannot be made"))?;
    Ok((appender, header.len() as u64))
}

/// Reads all records from number `from` on; answers how the last segment ends, what of it no mark says to be synced, and
/// how many records there were.
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
        let first = *firsts.next().expect("the last one is returned from");
        let file = path.join(name(first));
        if first != expected {
            return Err(CheckpointError::LogGap { path: file, found: first, expected }.into());
        }
        let bytes =
            disk.read(&name(first)).map_err(CheckpointError::io(&file, "cannot be read"))?;
        let refused = |error| CheckpointError::Log { path: file.clone(), error };
        let mut scan =
            Scan::new(&bytes, &config.owner, config.record_bytes_max).map_err(refused)?;
        if scan.first() != first {
            let found = scan.first();
            return Err(CheckpointError::LogGap { path: file, found, expected }.into());
        }
        for record in scan.by_ref() {
            let record = record.map_err(refused)?;
            if record.number >= from {
                replay(record)?;
                records += 1;
            }
        }
        let end = scan.finish().map_err(refused)?;
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
            // There is a next segment, so this one was synced.
            let error = LogError::Damaged { offset: end.whole_bytes, number, broken };
            return Err(refused(error).into());
        }
    }
}

/// The name of the segment that begins with a record.
fn name(first: u64) -> String {
    format!("{first:020}{SUFFIX}")
}

/// The record that the segment of this name begins with.
fn first_of(text: &str) -> Option<u64> {
    let first = text.strip_suffix(SUFFIX)?.parse().ok()?;
    (name(first) == text).then_some(first)
}

const SUFFIX: &str = ".log";
const CANNOT_SYNC: &str = "cannot be synced";

/// Beyond this records are written without waiting for the end of their group.
const PENDING_BYTES_MAX: usize = 1 << 20;
