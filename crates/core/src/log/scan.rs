//! Reading a segment after a crash.

use super::appender::Appender;
use super::entry::{ENTRY_BYTES, Entry};
use super::header::{self, Owner};
use super::{Broken, LogError};

/// An iterator over the records of a segment, in order, up to its end or a torn tail. Damage is an error, after which
/// the iterator ends.
#[derive(Clone, Debug)]
pub struct Scan<'b> {
    segment: &'b [u8],
    first: u64,
    record_bytes_max: usize,
    /// The position of the next entry.
    offset: usize,
    /// The position of the last mark.
    proven: usize,
    appender: Appender,
    /// Why the iterator has ended.
    stopped: Option<Stop>,
}

/// A whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'b> {
    /// The number of the record in the log.
    pub number: u64,
    /// The contents, at least one byte.
    pub body: &'b [u8],
}

/// The end of a segment without damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The size of the header and all whole entries, in bytes.
    pub whole_bytes: usize,
    /// How many of these bytes a mark states to be synced. The others may be in the page cache only.
    pub proven_bytes: usize,
    /// The torn tail behind the whole entries, which the caller must truncate.
    pub torn: Option<TornTail>,
    /// An appender behind the whole entries. If not all of them are known to be synced, the caller must write them
    /// again, sync and mark before actions depend on them.
    pub appender: Appender,
}

/// The rest of a group whose write was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The number of the record that is expected at its beginning.
    pub number: u64,
    /// The size of the tail.
    pub bytes: usize,
    /// Why its beginning is not the expected entry.
    pub broken: Broken,
}

#[derive(Clone, Debug)]
enum Stop {
    Damage(LogError),
    Torn(Broken),
}

impl<'b> Scan<'b> {
    /// Reads the header of a segment of this owner's log, whose records have at most `record_bytes_max` bytes each.
    ///
    /// # Errors
    /// If the header is damaged, of another version or of another owner. A header cannot be torn, because it is synced
    /// before the segment is used.
    pub fn new(
        segment: &'b [u8],
        owner: &Owner,
        record_bytes_max: usize,
    ) -> Result<Self, LogError> {
        let header = header::decode(owner, segment)?;
        let (first, appender) = (header.first, Appender::at(header.crc, header.first));
        let offset = header.bytes;
        Ok(Self {
            segment,
            first,
            record_bytes_max,
            offset,
            proven: offset,
            appender,
            stopped: None,
        })
    }

    /// The number of the segment's first record, whether it exists or not.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Skips the remaining records and returns the end of the segment.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub fn finish(mut self) -> Result<End, LogError> {
        self.by_ref().for_each(drop);
        let (number, bytes) = (self.appender.next_number(), self.segment.len() - self.offset);
        let torn = match self.stopped {
            None => None,
            Some(Stop::Torn(broken)) => Some(TornTail { number, bytes, broken }),
            Some(Stop::Damage(error)) => return Err(error),
        };
        let (whole_bytes, proven_bytes) = (self.offset, self.proven);
        Ok(End { whole_bytes, proven_bytes, torn, appender: self.appender })
    }

    /// The entry at the offset, its CRC and its body.
    fn entry(&self) -> Result<(Entry, u32, &'b [u8]), Broken> {
        let rest = &self.segment[self.offset..];
        let present = rest.len();
        let (bytes, rest) = rest
            .split_first_chunk::<ENTRY_BYTES>()
            .ok_or(Broken::Short { present, expected: ENTRY_BYTES })?;
        let (segment, before) = self.appender.place();
        let (entry, ends_with) = Entry::decode(segment, bytes)?;
        let number = self.appender.next_number();

        if entry.number != number {
            return Err(Broken::Number { found: entry.number, expected: number });
        }
        if entry.before != before {
            return Err(Broken::History { found: entry.before, expected: before });
        }
        let right = entry.synced == number || (entry.body_bytes > 0 && entry.synced < number);

        if !right {
            return Err(Broken::Synced { found: entry.synced, before: number });
        }
        let expected = ENTRY_BYTES.saturating_add(entry.body_bytes as usize);
        let body =
            rest.get(..entry.body_bytes as usize).ok_or(Broken::Short { present, expected })?;
        let (found, expected) = (entry.body_crc, crc32fast::hash(body));

        if found != expected {
            return Err(Broken::BodyChecksum { found, expected });
        }
        Ok((entry, ends_with, body))
    }

    /// Whether an entry from the offset on proves that the record expected at the offset was synced.
    ///
    /// The thirty-two bytes of an entry are enough. Every position is tried, because a length may be damaged. An
    /// entry's number cannot be further ahead than its position in bytes, so that few positions need a CRC.
    fn proves_synced(&self) -> bool {
        let number = self.appender.next_number();
        let (segment, _) = self.appender.place();
        let rest = &self.segment[self.offset..];
        (0..rest.len()).any(|at| {
            let Some(bytes) = rest[at..].first_chunk() else { return false };
            let (synced, claimed) = Entry::claims(bytes);
            let plausible =
                number < synced && synced <= claimed && claimed - number <= rest.len() as u64;
            plausible && Entry::decode(segment, bytes).is_ok()
        })
    }

    fn break_off(&mut self, broken: Broken) -> Option<LogError> {
        if self.proves_synced() {
            let (offset, number) = (self.offset, self.appender.next_number());
            return Some(self.refuse(LogError::Damaged { offset, number, broken }));
        }
        self.stopped = Some(Stop::Torn(broken));
        None
    }

    fn refuse(&mut self, error: LogError) -> LogError {
        self.stopped = Some(Stop::Damage(error.clone()));
        error
    }
}

impl<'b> Iterator for Scan<'b> {
    type Item = Result<Record<'b>, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.stopped.is_none() && self.offset < self.segment.len() {
            let (entry, ends_with, body) = match self.entry() {
                Ok(entry) => entry,
                Err(broken) => return self.break_off(broken).map(Err),
            };
            let (offset, number) = (self.offset, entry.number);
            let (bytes, most) = (body.len(), self.record_bytes_max);
            if bytes > most {
                let error = LogError::OversizedRecord { offset, number, bytes, most };
                return Some(Err(self.refuse(error)));
            }
            self.offset += ENTRY_BYTES + bytes;
            self.appender.pass(&entry, ends_with);
            if bytes > 0 {
                return Some(Ok(Record { number, body }));
            }
            self.proven = offset;
        }
        None
    }
}
