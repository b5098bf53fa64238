//! Dead links between two data centers that still reach the other data centers.

use super::{FAULTS_LAST, Fault, FaultKind, LASTS_MAX, Nodes, millis};
use crate::scenario::draws::within;
use gaia_core::types::Seed;

/// Draws a dead link in one schedule of four, in both directions or in one. In half of these schedules it may be dead
/// for much longer than its ends need to detect that.
pub(super) fn draw(seed: Seed, nodes: Nodes) -> Option<Fault> {
    let mut chance = seed.random();
    let occurs = within(&mut chance, 0, 3) == 0;
    let kinds = [FaultKind::Partition, FaultKind::OneWayPartition];
    let kind = kinds[within(&mut chance, 0, 1) as usize];

    let at = millis(within(&mut chance, 0, FAULTS_LAST.as_millis() as u64));
    let most = LASTS_MAX.as_millis() as u64;
    let lasts = match within(&mut chance, 0, 1) {
        0 => millis(within(&mut chance, 1, most)),
        _ => millis(within(&mut chance, most, 8 * most)),
    };

    let dc = within(&mut chance, 0, nodes.data_centers - 1);
    let peer = (dc + within(&mut chance, 1, nodes.data_centers - 1)) % nodes.data_centers;
    occurs.then(|| Fault { peer: Some(peer as u16), ..Fault::of(kind, at, lasts, dc as u16) })
}
