//! Which links a driver has to poll after an event.

use std::collections::BTreeSet;

use crate::types::DcId;

/// The links for which a server may have frames that it did not have when they were polled last.
///
/// A link with more frames than it had room for is not named again: the driver polls it once it has room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinksToPoll {
    /// Those to these mirrors.
    Some(BTreeSet<DcId>),
    /// Those to all mirrors.
    All,
}

impl LinksToPoll {
    /// No link.
    pub const NONE: Self = Self::Some(BTreeSet::new());

    /// Adds links to mirrors.
    pub fn extend(&mut self, mirrors: impl IntoIterator<Item = DcId>) {
        if let Self::Some(links) = self {
            links.extend(mirrors);
        }
    }

    /// Adds the links of another server.
    pub fn join(&mut self, other: Self) {
        match other {
            Self::Some(links) => self.extend(links),
            Self::All => *self = Self::All,
        }
    }
}
