//! What each data center sent and paid over every overlay that was tried.

use std::collections::BTreeMap;

use super::bench::Finished;
use super::ground::Ground;
use super::money::data_center_bill;
use super::suite::WIDEST;
use crate::report::paper::HubRow;
use crate::sync::{OverlayKind, RemoteSync};

/// One row for each data center of each overlay, application by application: the runs on the WAN of many regions that
/// are our ASP with another overlay or none changed.
pub(super) fn rows(
    grounds: &[Ground<'_>],
    runs: &BTreeMap<String, Finished>,
    models: &[String],
) -> Vec<HubRow> {
    let mut rows = Vec::new();
    let wide = |ground: &&Ground<'_>| ground.site.has_cells() && ground.site.wan.name == WIDEST;
    for ground in grounds.iter().filter(wide) {
        for model in models {
            let Some(run) = runs.get(&ground.site.name(model)) else { continue };
            rows.extend(of_run(ground, run));
        }
    }
    rows
}

fn of_run(ground: &Ground<'_>, run: &Finished) -> Vec<HubRow> {
    let RemoteSync::Asp(asp) = &run.plan.remote else { return Vec::new() };
    let overlay = match asp.overlay {
        OverlayKind::Mesh => "mesh",
        OverlayKind::Groups => "groups",
        OverlayKind::Tree => "tree",
    };
    let centers = run.plan.topology.data_centers.iter();
    centers
        .map(|dc| {
            let links = run.summary.links.iter().filter(|link| link.from == dc.name);
            let relayed_bytes = links.clone().map(|link| link.relayed_bytes).sum();
            HubRow {
                app: ground.site.app.name.into(),
                overlay: overlay.into(),
                data_center: dc.name.clone(),
                is_hub: relayed_bytes > 0,
                sent_bytes: links.map(|link| link.bytes).sum(),
                relayed_bytes,
                usd: data_center_bill(&run.summary, &run.plan.topology, &dc.name),
            }
        })
        .collect()
}
