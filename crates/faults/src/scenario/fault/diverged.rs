//! Workers whose training diverges: changes that are not finite, or too large to be added up.

use super::{FAULTS_LAST, Fault, FaultKind, Nodes, millis};
use crate::scenario::draws::within;
use gaia_core::types::{DurationSetting, Seed};

/// Draws a diverged update in one schedule of ten. Such a run ends early, so others must be more frequent.
pub(super) fn draw(seed: Seed, nodes: Nodes) -> Option<Fault> {
    let mut chance = seed.random();
    let occurs = within(&mut chance, 0, 9) == 0;
    let at = millis(within(&mut chance, 0, FAULTS_LAST.as_millis() as u64));
    let dc = within(&mut chance, 0, nodes.data_centers - 1) as u16;
    let worker = Some(within(&mut chance, 0, nodes.workers - 1) as u16);
    let of_dc = Fault::of(FaultKind::DivergedUpdate, at, DurationSetting::default(), dc);
    occurs.then_some(Fault { worker, ..of_dc })
}
