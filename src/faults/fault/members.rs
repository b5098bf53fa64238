//! Data centers that join late, and that leave for good.

use super::{FAULTS_LAST, Fault, FaultKind, LASTS_MAX, Nodes, millis, no_slower};
use crate::faults::draws::within;
use crate::types::{Seed, Time};

/// In one schedule of six a data center joins late, and in one of six one leaves; it may be the same.
pub(super) fn draw(seed: Seed, nodes: Nodes) -> Vec<Fault> {
    let mut chance = seed.random();
    let mut faults = Vec::new();
    for kind in [FaultKind::LateJoin, FaultKind::Leave] {
        let strikes = within(&mut chance, 0, 5) == 0;
        let at = millis(within(&mut chance, 0, FAULTS_LAST.as_millis() as u64));
        let lasts = millis(within(&mut chance, 0, LASTS_MAX.as_millis() as u64));
        let dc = within(&mut chance, 0, nodes.data_centers - 1) as u16;
        let fault = Fault {
            kind,
            at,
            lasts: if kind.is_a_moment() { Time::default() } else { lasts },
            dc,
            peer: None,
            server: None,
            worker: None,
            write: None,
            blank: false,
            factor: no_slower(),
            step_s: 0.0,
        };
        faults.extend(strikes.then_some(fault));
    }
    faults
}
