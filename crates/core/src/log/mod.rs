//! The write-ahead log of a node, as bytes.
//!
//! This room decides how records lie in a segment of the log and which of the bytes that a crash has left are records.
//! It refuses to know what a record means, and files. The paper has no log.
//!
//! A log is a row of *records*, numbered from 0 and cut into *segments*. Each segment opens with a header:
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
//! After it come *entries*, thirty-two bytes and a body each, little endian like the header:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | bytes of the body; 0 for a mark |
//! | 4 | 4 | CRC-32 of the body |
//! | 8 | 8 | number of the record; of a mark, which takes none, that of the next record |
//! | 16 | 8 | all records below this number were synced when the entry was written |
//! | 24 | 4 | the CRC-32 that ends the entry before, or the header |
//! | 28 | 4 | CRC-32 of these bytes so far, begun with that of the header |
//!
//! So an entry of another segment does not pass, nor one that had another history before it, though it may lie where one
//! is looked for.
//!
//! **Writing.** A writer appends a *group* of records, syncs, and appends a *mark*, which says so; what depends on the
//! records happens after that. The mark is synced with the next group. A segment's header is synced before its first
//! record is written, and a segment before there is a next one.
//!
//! **What a crash leaves.** If the process was killed, all that it has written is there, but for the end of the last
//! write. If the machine has lost power, what was synced is there, and of everything after it any part: a disk writes
//! sectors in an order of its own, so that a group may have lost its beginning and kept its end, and a file may have its
//! new length with zeros or old garbage in it. What was synced before it leaves alone, even within one sector. Nothing of what was not synced has had consequences, so that it may be
//! cut off, and must be: nobody knows what is missing within it.
//!
//! **What is whole, torn or damaged.** Reading goes from entry to entry while lengths, checksums and numbers are right. At
//! the first entry, number n, that is not, [`Scan`] looks for proof that record n was synced: an entry anywhere behind
//! whose own checksum is right and which says that all records below some number above n were. With it, n was whole once
//! and is *damaged* now: that is an error, nothing is cut off. Without it, the rest is a *torn tail*.
//!
//! **Going on.** What is whole behind the last mark may be in the memory of the machine and not on its disk: a disk that has
//! once failed to sync does not try again. A writer that goes on behind it writes it again first, in its place, syncs and
//! marks, and only then lets anything depend on it.
//!
//! So whatever befalls a record is found as damage if a mark or a later group's record behind it can still be read. It
//! reads as a torn tail only in the last group and the mark before it, and only if no mark has followed: if the power
//! failed before the mark of that group came to the disk. Such a group may have been synced or not, and no reader of
//! these bytes can tell. After `kill -9`, what has had consequences always has its mark. Bytes that are missing from the
//! end up to the end of an entry leave no trace here; who knows from elsewhere which records there must be has to compare.

mod appender;
mod entry;
mod error;
mod header;
mod scan;

pub use appender::Appender;
pub use error::{Broken, LogError};
pub use header::{LOG_VERSION, Owner};
pub use scan::{End, Record, Scan, TornTail};
