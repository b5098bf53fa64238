//! Data centers that join late, and that leave permanently.

use std::time::Duration;

use super::{FAULTS_LAST, Fault, FaultKind, LASTS_MAX, Nodes, millis};
use crate::scenario::draws::within;
use gaia_core::types::{DurationSetting, Seed};

/// Draws a late join in one schedule of six, and a leave in one of six. Both may be of the same data center.
pub(crate) fn draw(seed: Seed, nodes: Nodes) -> Vec<Fault> {
    let mut chance = seed.random();
    let mut faults = Vec::new();
    for kind in [FaultKind::LateJoin, FaultKind::Leave] {
        let occurs = within(&mut chance, 0, 5) == 0;
        let at = millis(within(&mut chance, 0, FAULTS_LAST.as_millis() as u64));
        let lasts = millis(within(&mut chance, 0, LASTS_MAX.as_millis() as u64));
        let dc = within(&mut chance, 0, nodes.data_centers - 1) as u16;
        let lasts = if kind.is_instantaneous() { DurationSetting::default() } else { lasts };
        faults.extend(occurs.then(|| Fault::of(kind, at, lasts, dc)));
    }
    faults
}

/// Adds faults to half of the late joins: soon after the join a server loses its disk, while its data center is
/// partitioned from another one. A mirror there is notified of the server's first incarnation by other mirrors only,
/// and receives the hello of the second.
pub(crate) fn draw_lost_joiner(seed: Seed, nodes: Nodes, faults: &mut Vec<Fault>) {
    let mut chance = seed.random();
    let occurs = within(&mut chance, 0, 1) == 0;
    let late = faults.iter().find(|fault| fault.kind == FaultKind::LateJoin);
    let Some(join) = late.cloned().filter(|_| occurs) else { return };
    let until_lost = Duration::from_millis(within(&mut chance, 50, UNTIL_LOST_MS_MAX));
    let lasts = millis(within(&mut chance, 1, LOST_LASTS_MS_MAX));
    let server = Some(within(&mut chance, 0, nodes.servers - 1) as u16);
    let peer = within(&mut chance, 1, nodes.data_centers - 1) as u16;
    let cut_after = Duration::from_millis(within(&mut chance, 0, CUT_AFTER_MS_MAX));

    let lost_at = DurationSetting(join.at.0 + until_lost);
    let lost = Fault::of(FaultKind::LostDisk, lost_at, lasts, join.dc);
    faults.push(Fault { server, ..lost });

    let cut_lasts = DurationSetting(until_lost + lasts.0 + cut_after);
    let peer = Some((join.dc + peer) % nodes.data_centers as u16);
    let cut = Fault::of(FaultKind::Partition, join.at, cut_lasts, join.dc);
    faults.push(Fault { peer, ..cut });
}

/// Some round trips of the slowest drawn link, in which the others are notified of a joined or restarted data center.
const UNTIL_LOST_MS_MAX: u64 = 500;
const LOST_LASTS_MS_MAX: u64 = 100;
const CUT_AFTER_MS_MAX: u64 = 600;
