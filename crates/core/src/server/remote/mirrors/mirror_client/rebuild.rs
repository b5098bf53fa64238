//! What is kept for a mirror that takes its copy from here, until it has all that belongs to the copy.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::catch_up_backlog::CatchUpBacklog;
use super::copying::Copying;
use crate::persist;
use crate::types::{Content, DcId};

/// What is done for a mirror that takes its copy from here.
#[derive(Debug)]
pub(super) struct Rebuild {
    /// What is left to send of the copy.
    pub(super) copying: Option<Copying>,
    /// What the link had carried when the copy was taken for another mirror's sake: to this incarnation of the mirror where the
    /// two have met in it before it asks, to the one before otherwise; nothing where that is settled. It carries nothing
    /// more until the mirror asks.
    pub(super) carried: Vec<f32>,
    pub(super) backlog: CatchUpBacklog,
    pub(super) rest: Rest,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Rest {
    /// Whether it has asked for the copy itself, and not only others for its sake.
    pub(super) asked: bool,
    /// The mirrors whose links have not forked: what they send is owed.
    pub(super) unforked: BTreeSet<DcId>,
    /// Whether it has been told that nothing more is owed.
    pub(super) paid: bool,
}

impl Rebuild {
    /// Whether the mirror has asked for the copy itself.
    pub(super) fn is_asked_for(&self) -> bool {
        self.rest.asked
    }

    /// One to put state into.
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
