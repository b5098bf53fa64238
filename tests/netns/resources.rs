//! What the processes of a run take of their hosts.

use std::fmt;
use std::fs;
use std::path::Path;

/// What processes of one role take, each figure that of the process that takes most of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resources {
    /// The resident set.
    pub(crate) memory_bytes: u64,
    /// Open files, sockets and pipes.
    pub(crate) descriptors: u64,
    /// What its state takes on disk.
    pub(crate) state_bytes: u64,
    /// What it has logged for people.
    pub(crate) log_bytes: u64,
}

impl Resources {
    /// What a process takes now. Nothing, if it has ended meanwhile.
    pub(crate) fn of(process: u32, state: &Path, log: &Path) -> Self {
        let pages = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
        let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).map(Iterator::count);
        Self {
            memory_bytes: resident.unwrap_or(0) * PAGE_BYTES,
            descriptors: descriptors.unwrap_or(0) as u64,
            state_bytes: bytes_under(state),
            log_bytes: bytes_under(log),
        }
    }

    /// The larger of each figure.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            descriptors: self.descriptors.max(other.descriptors),
            state_bytes: self.state_bytes.max(other.state_bytes),
            log_bytes: self.log_bytes.max(other.log_bytes),
        }
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mega = |bytes: u64| bytes as f64 / 1e6;
        let Self { memory_bytes, descriptors, state_bytes, log_bytes } = *self;
        let (memory, state, log) = (mega(memory_bytes), mega(state_bytes), mega(log_bytes));
        write!(
            f,
            "{memory:.1} MB, {descriptors} descriptors, {state:.2} MB of state, {log:.2} MB of log"
        )
    }
}

/// The bytes of a file, or of all files in a folder. What is removed meanwhile has none.
fn bytes_under(path: &Path) -> u64 {
    let Ok(about) = fs::symlink_metadata(path) else { return 0 };
    if !about.is_dir() {
        return about.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| bytes_under(&entry.path())).sum()
}

const PAGE_BYTES: u64 = 4096;
