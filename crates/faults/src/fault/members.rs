//! Data centers that join late, and that leave for good.

use super::{FAULTS_LAST, Fault, FaultKind, LASTS_MAX, Nodes, millis};
use crate::draws::within;
use gaia_core::types::{DurationSetting, Seed};

/// In one schedule of six a data center joins late, and in one of six one leaves; it may be the same.
pub(super) fn draw(seed: Seed, nodes: Nodes) -> Vec<Fault> {
    let mut chance = seed.random();
    let mut faults = Vec::new();
    for kind in [FaultKind::LateJoin, FaultKind::Leave] {
        let strikes = within(&mut chance, 0, 5) == 0;
        let at = millis(within(&mut chance, 0, FAULTS_LAST.as_millis() as u64));
        let lasts = millis(within(&mut chance, 0, LASTS_MAX.as_millis() as u64));
        let dc = within(&mut chance, 0, nodes.data_centers - 1) as u16;
        let lasts = if kind.is_a_moment() { DurationSetting::default() } else { lasts };
        faults.extend(strikes.then(|| Fault::of(kind, at, lasts, dc)));
    }
    faults
}
