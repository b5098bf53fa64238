//! `[log]`: how nodes of the real driver log what they receive.

use serde::{Deserialize, Serialize};

use crate::document::Problem;
use crate::range::{self, Checks};
use gaia_core::types::ByteSize;

/// How nodes of the real driver log what they receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// When the log is synced to the disk.
    pub sync: LogSync,
    /// The size from which on a worker's update or read is bulky. No answer waits for a bulky one to be logged: it is
    /// logged before anything that follows from it leaves the data center, or a checkpoint takes its place. After a crash
    /// the data center's workers repeat the clocks that were lost. Counts, which cannot be repeated, are never bulky.
    pub bulky: ByteSize,
}

impl LogConfig {
    pub(crate) fn check(&self, checks: &Checks<'_>) -> Result<(), Problem> {
        let most = range::BULKY_MAX;
        if self.bulky > most {
            return Err(checks.wrong("log.bulky", self.bulky, format!("at most {most}")));
        }
        Ok(())
    }
}

/// When a node waits for its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogSync {
    /// Before a message leaves the node. What the node has sent is on its disk after a power cut.
    #[default]
    Always,
    /// Never. The log survives the end of the process, but not that of the machine.
    Never,
}

impl Default for LogConfig {
    /// A disk of 300 MB/s writes a megabyte in about the time that it takes to sync anything.
    fn default() -> Self {
        Self { sync: LogSync::default(), bulky: ByteSize(1_000_000) }
    }
}
