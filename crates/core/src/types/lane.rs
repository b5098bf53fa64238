//! The two lanes of a connection to a peer.

use serde::{Deserialize, Serialize};

/// One of the two ordered sequences of frames to a peer. Frames of the control lane overtake those of the data lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// Announcements, mirror clocks and other small messages.
    Control,
    /// Bulk frames with changes of parameters, and messages that must stay in order with them.
    Data,
}

impl Lane {
    /// Both lanes, in the order in which they are served.
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
