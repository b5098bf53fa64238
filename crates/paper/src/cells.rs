//! The rows of the tables: each contender compared with BSP, the LAN and the published result.

use std::collections::BTreeMap;

use super::bench::Finished;
use super::centralize::centralize;
use super::ground::Ground;
use super::money::{Bill, bill};
use super::request::Request;
use super::suite::{BSP, CENTRALIZE, LAN, Suite};
use gaia_report::paper::CellRow;
use gaia_telemetry::BlockedSeconds;

/// The rows of one application over one WAN, in the order of the suite's models.
pub(super) fn rows(
    suite: &Suite,
    request: &Request,
    ground: &Ground<'_>,
    grounds: &[Ground<'_>],
    runs: &BTreeMap<String, Finished>,
) -> Vec<CellRow> {
    let shown = suite.models().filter(|model| request.shows(model));
    shown
        .filter_map(|model| match model {
            LAN => Some(row(ground, LAN, &ground.lan)),
            BSP => Some(row(ground, BSP, &ground.bsp)),
            CENTRALIZE => ground.data_bytes(grounds).map(|bytes| centralized(ground, bytes)),
            model => runs.get(&ground.site.name(model)).map(|run| row(ground, model, run)),
        })
        .collect()
}

/// The ratio of a run's time to the target to that of BSP on the LAN.
pub(super) fn times_lan(ground: &Ground<'_>, run: &Finished) -> Option<f64> {
    Some(run.summary.time_to_target_s? / ground.lan_s())
}

fn row(ground: &Ground<'_>, model: &str, run: &Finished) -> CellRow {
    let summary = &run.summary;
    let bill = bill(summary, &run.plan.topology);
    let time_s = summary.time_to_target_s;
    let off = ground.lan_objective_after(summary.clocks).filter(|at| *at != 0.0);
    CellRow {
        clocks: summary.clocks_to_target,
        wan_bytes: summary.wan_bytes_to_target.unwrap_or(summary.wan_bytes),
        converged: time_s.is_some(),
        objective: summary.objective,
        objective_off: off.map(|at| (summary.objective - at) / at.abs()),
        copies_equal: summary.copies_equal,
        blocked_s: summary.blocked_s,
        curve: run.curve(),
        ..skeleton(ground, model, time_s, bill)
    }
}

fn centralized(ground: &Ground<'_>, data_bytes: f64) -> CellRow {
    let central = centralize(&ground.bsp.plan.topology, data_bytes, ground.lan_s());
    let lan = &ground.lan.summary;
    CellRow {
        clocks: lan.clocks_to_target,
        wan_bytes: (central.bytes * ground.fit.scale) as u64,
        objective: lan.objective,
        objective_off: Some(0.0),
        usd_waiting: Some(central.bill_waiting.total()),
        ..skeleton(ground, CENTRALIZE, Some(central.time_s), central.bill)
    }
}

/// The fields of a row that follow from its time and its bill.
fn skeleton(ground: &Ground<'_>, model: &str, time_s: Option<f64>, bill: Bill) -> CellRow {
    let paper = ground.site.published();
    let bsp_s = ground.bsp.summary.time_to_target_s;
    CellRow {
        app: ground.site.app.name.into(),
        wan: ground.site.wan.name.into(),
        model: model.into(),
        time_s,
        clocks: None,
        times_lan: time_s.map(|time| time / ground.lan_s()),
        speedup_vs_bsp: bsp_s.zip(time_s).map(|(bsp, time)| bsp / time),
        wan_bytes: 0,
        usd: bill.total(),
        usd_machines: bill.machines,
        usd_wan: bill.wan,
        usd_waiting: None,
        converged: true,
        paper_speedup: paper.and_then(|row| row.speedup(model)),
        paper_cost_ratio: paper.and_then(|row| row.cost_ratio(model)),
        paper_wan_share: paper.and_then(|row| row.wan_share).filter(|_| model == BSP),
        objective: f64::NAN,
        objective_off: None,
        copies_equal: true,
        blocked_s: BlockedSeconds::default(),
        curve: Vec::new(),
    }
}
