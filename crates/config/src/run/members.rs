//! Which data centers may join a run late, leave it, or have a server rebuilt from a mirror.

use std::collections::BTreeSet;

use super::Plan;
use crate::document::Problem;
use crate::range::Checks;
use crate::sections::{DriverKind, FailuresConfig, OnGiveUp};
use gaia_core::sync::RemoteSync;
use gaia_core::types::DcId;

/// Checks the settings about data centers that join late, or leave.
pub(super) fn members(plan: &Plan, checks: &Checks<'_>) -> Result<(), Problem> {
    let FailuresConfig { on_give_up, late, .. } = &plan.failures;
    let topology = &plan.topology;

    // No data center may be missing where it alone has values, or updates that it has not forwarded.
    let may_miss_one = |key: &str, found: &str| match plan.needs_all() {
        Some(why) => Err(checks.wrong(key, found, why)),
        None => Ok(()),
    };

    if *on_give_up == OnGiveUp::Leave {
        may_miss_one("failures.on_give_up", "leave")?;
    }

    let names = topology.data_centers.iter().map(|dc| dc.name.as_str());
    for name in late {
        if !names.clone().any(|known| known == name) {
            let names: Vec<&str> = names.collect();
            let expected = format!("names of data centers: {}", names.join(", "));
            return Err(checks.wrong("failures.late", name, expected));
        }
        may_miss_one("failures.late", name)?;
    }

    if plan.late().len() == topology.data_centers.len() {
        let expected =
            "not all data centers: one that joins copies the values of one that is present";
        return Err(checks.wrong("failures.late", late.join(", "), expected));
    }

    if !late.is_empty() && plan.has_own_data() {
        let expected =
            "none: with data of their own all data centers report it before the run begins";
        return Err(checks.wrong("failures.late", late.join(", "), expected));
    }

    if !late.is_empty() && plan.driver != DriverKind::Real {
        let driver = plan.driver.name();
        let expected = format!("none: with the {driver} driver all data centers start together");
        return Err(checks.wrong("failures.late", late.join(", "), expected));
    }

    Ok(())
}

impl Plan {
    /// The mirror from which a server of `dc` that has lost its copy gets a new one soonest.
    ///
    /// A copy is `bytes` bytes long. Only data centers that send updates to `dc`, and for which `there` is true, are
    /// considered. `None` where there is no such data center; where the remote model is BSP, SSP or local steps; and
    /// where `dc` is a hub, since no other node has the updates that it has not forwarded.
    pub fn copy_source(&self, dc: DcId, bytes: u64, there: impl Fn(DcId) -> bool) -> Option<DcId> {
        let overlay = self.overlay();
        let shares_updates = matches!(self.remote, RemoteSync::Tap(_) | RemoteSync::Asp(_));
        if !shares_updates || overlay.is_hub(dc) {
            return None;
        }

        let mirrors = overlay.neighbours(dc).into_iter().flatten().filter(|from| there(*from));
        mirrors.min_by_key(|from| {
            let link = self.topology.link(*from, dc);
            link.rtt.0 / 2 + link.bandwidth.time_for(bytes)
        })
    }

    /// The data centers that may join after the start.
    pub fn late(&self) -> BTreeSet<DcId> {
        let is_late = |dc: &DcId| self.failures.late.contains(&self.topology.dc(*dc).name);
        self.topology.dc_ids().filter(is_late).collect()
    }

    /// The setting that would let data centers join late and leave, with the reason. `None` where they can already.
    pub fn needs_all(&self) -> Option<String> {
        let name = self.remote.name();
        let lacks = self.topology.dc_ids().any(|dc| self.copy_source(dc, 0, |_| true).is_none());
        let alone = self.topology.data_centers.len() == 1;
        (lacks && !alone).then(|| match name {
            "asp" => {
                "`overlay = \"mesh\"`: no other node has the updates that a hub has not forwarded"
                    .into()
            }
            _ => format!("`tap` or `asp`: under {name} every clock needs all data centers"),
        })
    }
}
