//! Workers that lose their disk in a crash, and restart without a state.

use super::{Fault, FaultKind};
use crate::scenario::draws::within;
use gaia_core::types::Seed;

/// Adds the loss of the disk to half of the crashes of single workers, except those at a write.
pub(crate) fn draw(seed: Seed, faults: &mut [Fault]) {
    let mut chance = seed.random();
    for fault in faults {
        fault.blank = within(&mut chance, 0, 1) == 0 && may_be(fault);
    }
}

/// The first invalid key, its value, and the expected value.
pub(crate) fn mistake(fault: &Fault) -> Option<(&'static str, String, String)> {
    let expected = "a crash of a single worker, without `write`".into();
    (fault.blank && !may_be(fault)).then(|| ("blank", "true".into(), expected))
}

fn may_be(fault: &Fault) -> bool {
    fault.kind == FaultKind::Crash && fault.worker.is_some() && fault.write.is_none()
}
