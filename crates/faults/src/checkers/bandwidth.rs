//! Bandwidth: a link never exceeds its rate. Data departs no earlier than the bytes before it and its own size allow.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Broken, Checker, Seen, View};
use gaia_core::link::Train;
use gaia_core::types::{DcId, Instant, Lane};

/// For each link, until when it is busy.
#[derive(Debug, Default)]
pub(super) struct Bandwidth {
    busy_until: BTreeMap<(DcId, DcId), Instant>,
}

impl Checker for Bandwidth {
    fn name(&self) -> &'static str {
        "bandwidth"
    }

    fn check(&mut self, view: &View<'_>, seen: Seen<'_>) -> Result<(), Broken> {
        let Seen::Carried { from, to, lane, bytes, departs } = seen else { return Ok(()) };
        let rate = view.plan.topology.link(from, to).bandwidth;
        let time = rate.time_for(Train::of(bytes).bytes);
        let busy_until = self.busy_until.entry((from, to)).or_default();
        if lane == Lane::Data && *busy_until > view.now + ROUNDING {
            let early = busy_until.since(view.now);
            return Err(format!(
                "{from} sends data on the link to {to} {early:?} before the link has room"
            ));
        }
        let earliest = (*busy_until).max(view.now) + time;
        if lane == Lane::Data && departs + ROUNDING < earliest {
            let early = earliest.since(departs);
            return Err(format!("{bytes} bytes from {from} to {to} leave {early:?} too early"));
        }
        *busy_until = earliest;
        Ok(())
    }
}

const ROUNDING: Duration = Duration::from_micros(1);
