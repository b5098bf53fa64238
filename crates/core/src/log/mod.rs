//! The format of a node's write-ahead log.
//!
//! This room decides how records are laid out in a segment of the log, and which of the bytes that a crash has left are
//! records. It does not know the meaning of a record, and files. The paper has no log.
//!
//! A log is a sequence of *records*, numbered from 0 and split into *segments*. Each segment begins with a header:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `GAIW` |
//! | 4 | 2 | version of the log |
//! | 6 | 2 | bytes of the node's name |
//! | 8 | 8 | hash of the plan |
//! | 16 | 8 | number of the segment's first record |
//! | 24 | n | the node's name |
//! | 24 + n | 4 | CRC-32 of the header so far |
//!
//! The header is followed by *entries* of thirty-two bytes and a body each, little endian like the header:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | bytes of the body; 0 for a mark |
//! | 4 | 4 | CRC-32 of the body |
//! | 8 | 8 | number of the record; of a mark, which has no number, that of the next record |
//! | 16 | 8 | all records below this number were synced when the entry was written |
//! | 24 | 4 | the CRC-32 at the end of the entry before, or of the header |
//! | 28 | 4 | CRC-32 of these bytes so far, with the header's CRC as initial value |
//!
//! So the CRC of an entry that belongs to another segment, or that followed another entry, does not match.
//!
//! **Writing.** A writer appends a *group* of records, syncs, and appends a *mark*, which states that the group is
//! synced. Actions that depend on the records follow after that. The mark is synced with the next group. The header of
//! a segment is synced before its first record is written. A segment is synced before the next one begins.
//!
//! **After a crash.** If the process was killed, all its writes are present, except the end of the last one. If the
//! machine has lost power, all synced bytes are present, and any part of the bytes after them. A disk writes sectors in
//! any order, so a group may have lost its beginning and kept its end, and a file may have its new length with zeros or
//! old bytes in it. Synced bytes are not affected, even within one sector. No action has depended on bytes that were
//! not synced. So they may be truncated. They must be, because an unknown part of them is missing.
//!
//! **Whole, torn or damaged.** A reader goes from entry to entry as long as lengths, CRCs and numbers are valid. At the
//! first invalid entry, number n, [`Scan`] looks for proof that record n was synced: any later entry with a valid CRC
//! of its own that states that all records below some number above n were synced. With such proof, n was whole and is
//! *damaged*. That is an error, and nothing is truncated. Without it, the rest is a *torn tail*.
//!
//! **Continuing.** Whole records behind the last mark may be in the page cache and not on the disk: after a failed sync
//! the operating system does not write the same pages again. A writer that continues behind such records first writes
//! them again at their place, syncs and marks. Only then may actions depend on them.
//!
//! **Limits.** Every fault of a record is detected as damage if a mark, or a record of a later group, can be read
//! behind it. A fault is taken for a torn tail only in the last group and the mark before it, and only if no mark
//! follows: the power failed before the group's mark was on the disk. The bytes do not show whether such a group was
//! synced. After `kill -9`, records on which actions have depended always have their mark. Missing bytes at the end, up
//! to the end of an entry, are not detected here. A caller that knows which records must exist has to compare.

mod appender;
mod entry;
mod error;
mod header;
mod scan;

pub use appender::Appender;
pub use error::{Broken, LogError};
pub use header::{LOG_VERSION, Owner};
pub use scan::{End, Record, Scan, TornTail};
