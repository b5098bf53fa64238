//! Dead and silent links between two data centers that still reach the other data centers.

use std::time::Duration;

use super::{FAULTS_LAST, Fault, FaultKind, LASTS_MAX, Nodes, millis};
use crate::scenario::draws::within;
use gaia_core::types::{DurationSetting, Random, Seed};

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
    let fault = between(&mut chance, nodes, kind, (at, lasts));
    occurs.then_some(fault)
}

/// Draws silent links in one schedule of eight: one direction of a link, and in half of these schedules the other one soon
/// after it. Servers are notified of most of these silences.
pub(super) fn draw_silent(seed: Seed, nodes: Nodes) -> Vec<Fault> {
    let mut chance = seed.random();
    let occurs = within(&mut chance, 0, 7) == 0;
    let at = millis(within(&mut chance, 0, FAULTS_LAST.as_millis() as u64));
    let most = LASTS_MAX.as_millis() as u64;
    let lasts = millis(within(&mut chance, most / 2, 3 * most));
    let there = between(&mut chance, nodes, FaultKind::SilentLink, (at, lasts));

    let later = Duration::from_millis(within(&mut chance, 0, most / 2));
    let back = Fault {
        at: DurationSetting(at.0 + later),
        dc: there.peer.unwrap_or_default(),
        peer: Some(there.dc),
        ..there.clone()
    };
    let back = (within(&mut chance, 0, 1) == 0).then_some(back);
    [Some(there), back].into_iter().flatten().filter(|_| occurs).collect()
}

/// A fault of the link between two data centers that are drawn.
fn between(
    chance: &mut Random,
    nodes: Nodes,
    kind: FaultKind,
    (at, lasts): (DurationSetting, DurationSetting),
) -> Fault {
    let dc = within(chance, 0, nodes.data_centers - 1);
    let peer = (dc + within(chance, 1, nodes.data_centers - 1)) % nodes.data_centers;
    Fault { peer: Some(peer as u16), ..Fault::of(kind, at, lasts, dc as u16) }
}
