//! The two orders in which frames reach a peer.

use serde::{Deserialize, Serialize};

/// One of the two orders of frames towards a peer. Control overtakes data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    Control,
    Data,
}

impl Lane {
    /// Both, in the order in which they are served.
    pub const ALL: [Self; 2] = [Self::Control, Self::Data];

    /// The position of this lane in tables indexed by lane.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The lane's name in errors and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Data => "data",
        }
    }
}
