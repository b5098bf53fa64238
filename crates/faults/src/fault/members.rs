//! Data centers that join late, and that leave for good.

use std::time::Duration;

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

/// Of every other data center that joins late, a server loses its disk soon after, and nothing passes meanwhile between it
/// and one of the others: a mirror there hears of the first incarnation of the server from the rest alone, and meets the second.
pub(super) fn draw_lost_joiner(seed: Seed, nodes: Nodes, faults: &mut Vec<Fault>) {
    let mut chance = seed.random();
    let strikes = within(&mut chance, 0, 1) == 0;
    let late = faults.iter().find(|fault| fault.kind == FaultKind::LateJoin);
    let Some(join) = late.cloned().filter(|_| strikes) else { return };
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

/// Some round trips of the slowest link that is drawn: in these the others hear of one that has joined, or has come back.
const UNTIL_LOST_MS_MAX: u64 = 500;
const LOST_LASTS_MS_MAX: u64 = 100;
const CUT_AFTER_MS_MAX: u64 = 600;
