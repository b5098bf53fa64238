//! Workers that lose their disk with their process, and come back without anything.

use super::{Fault, FaultKind};
use crate::draws::within;
use gaia_core::types::Seed;

/// Has every other crash of a single worker, but for those that wait for a write, take the disk along.
pub(super) fn draw(seed: Seed, faults: &mut [Fault]) {
    let mut chance = seed.random();
    for fault in faults {
        fault.blank = within(&mut chance, 0, 1) == 0 && may_be(fault);
    }
}

/// The key that is wrong, what it holds and what was expected.
pub(super) fn mistake(fault: &Fault) -> Option<(&'static str, String, String)> {
    let expected = "a crash of a single worker, at no write".into();
    (fault.blank && !may_be(fault)).then(|| ("blank", "true".into(), expected))
}

fn may_be(fault: &Fault) -> bool {
    fault.kind == FaultKind::Crash && fault.worker.is_some() && fault.write.is_none()
}
