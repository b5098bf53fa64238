//! What a process that simulates writes of each run.

use serde::{Deserialize, Serialize};

use gaia_planner::Simulated;

/// What came of a run, as a line of JSON. A process that cannot say it ends.
#[derive(Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) simulated: Simulated,
    /// The most memory that the process has had so far. `None` where the system does not say.
    pub(super) peak_bytes: Option<u64>,
}
