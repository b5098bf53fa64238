//! Standard error beside the parts of a terminal that are redrawn in place.
//!
//! Such a part clears its own lines before it is drawn again. It counts them up from the cursor, so a line that somebody else
//! has written meanwhile would be cleared, and one of its own would stay. Hence all parts are known here, and lines of others
//! are written by the part itself, above it.

use std::fmt;
use std::io::{self, Write, stderr};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, WeakProgressBar};

/// Standard error for whole lines, which stay where a part of the terminal is redrawn in place.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardError;

impl Write for StandardError {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let parts = REDRAWN.lock().unwrap_or_else(PoisonError::into_inner);
        match parts.iter().rev().find_map(visible) {
            Some(part) => part.println(String::from_utf8_lossy(lines).trim_end_matches('\n')),
            None => stderr().write_all(lines)?,
        }
        Ok(lines.len())
    }

    /// Writes all of the text at once: the part is redrawn between two writes.
    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.write_all(text.to_string().as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}

/// Makes a part of the terminal known until it is finished or dropped.
pub(super) fn redrawn(part: &ProgressBar) {
    let mut parts = REDRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    parts.retain(|part| visible(part).is_some());
    parts.push(part.downgrade());
}

/// The part, if it can be on the terminal.
fn visible(part: &WeakProgressBar) -> Option<ProgressBar> {
    part.upgrade().filter(|part| !part.is_finished() && !part.is_hidden())
}

/// Parts that are redrawn, the newest last.
static REDRAWN: Mutex<Vec<WeakProgressBar>> = Mutex::new(Vec::new());
