//! What a process that simulates writes of each run.

use std::fs;

use serde::{Deserialize, Serialize};

use gaia_planner::Simulated;

/// What came of a run, as a line of JSON. A process that cannot say it ends.
#[derive(Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) simulated: Simulated,
    /// The most memory that the process has had so far. `None` where the system does not say.
    pub(super) peak_bytes: Option<u64>,
}

/// The most memory that this process has had so far.
pub(super) fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}
