//! `[log]`: how nodes of the real driver log what they receive.

use serde::{Deserialize, Serialize};

/// How nodes of the real driver log what they receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// When the log is synced to the disk.
    pub sync: LogSync,
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
