//! The state kept for a mirror that takes its copy from this server, until the mirror's copy is complete.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::catch_up_backlog::CatchUpBacklog;
use super::copying::Copying;
use crate::persist;
use crate::types::{Content, DcId};

/// The rebuild of a mirror that takes its copy from this server.
#[derive(Debug)]
pub(super) struct Rebuild {
    /// The unsent rest of the copy.
    pub(super) copying: Option<Copying>,
    /// What was sent on the link when the copy was taken at another mirror's announcement. It was sent to this
    /// incarnation of the mirror if its hello is received before its request, and to the earlier incarnation otherwise.
    /// Empty once that is settled. Nothing more is sent until the mirror requests the copy.
    pub(super) carried: Vec<f32>,
    pub(super) backlog: CatchUpBacklog,
    pub(super) rest: Rest,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Rest {
    /// Whether the mirror itself has requested the copy. Otherwise only other mirrors have announced it.
    pub(super) asked: bool,
    /// The mirrors whose links have not forked. Their updates belong to the backlog.
    pub(super) unforked: BTreeSet<DcId>,
    /// Whether the end of the backlog was sent.
    pub(super) paid: bool,
}

impl Rebuild {
    /// Whether the mirror itself has requested the copy.
    pub(super) fn is_asked_for(&self) -> bool {
        self.rest.asked
    }

    /// Whether a part of the copy is unsent.
    pub(super) fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// An empty rebuild, into which state is restored.
    pub(super) fn none() -> Self {
        Self {
            copying: None,
            carried: Vec::new(),
            backlog: CatchUpBacklog::default(),
            rest: Rest::default(),
        }
    }
}

persist! {
    impl Persist<usize> for Rebuild {
        fn walk(Self { copying, carried, backlog, rest }, walk, parameters) {
            let fresh = || Some(Copying::none(parameters));
            walk.option("copying", copying, fresh, |one, walk| walk.flatten(one, ()))?;
            walk.numbers("carried", Content::Changes, carried, |found| {
                found == 0 || found == parameters
            })?;
            walk.part("backlog", backlog, parameters)?;
            walk.record("rest", rest)
        }
    }
}
