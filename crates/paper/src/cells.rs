//! The rows of the tables: each contender compared with BSP, the LAN and the published result.

use std::collections::BTreeMap;

use super::bench::Finished;
use super::centralize::centralize;
use super::experiment::PreparedExperiment;
use super::money::{Bill, bill};
use super::request::Request;
use super::suite::{BSP, CENTRALIZE, LAN, Suite};
use gaia_report::paper::CellRow;
use gaia_telemetry::BlockedSeconds;

/// The rows of one application over one WAN, in the order of the suite's models.
pub(super) fn rows(
    suite: &Suite,
    request: &Request,
    prepared: &PreparedExperiment<'_>,
    all_prepared: &[PreparedExperiment<'_>],
    runs: &BTreeMap<String, Finished>,
) -> Vec<CellRow> {
    let shown = suite.models().filter(|model| request.shows(model));
    shown
        .filter_map(|model| match model {
            LAN => Some(row(prepared, LAN, &prepared.lan)),
            BSP => Some(row(prepared, BSP, &prepared.bsp)),
            CENTRALIZE => {
                prepared.data_bytes(all_prepared).map(|bytes| centralized(prepared, bytes))
            }
            model => {
                runs.get(&prepared.experiment.name(model)).map(|run| row(prepared, model, run))
            }
        })
        .collect()
}

/// The ratio of a run's time to the target to that of BSP on the LAN.
pub(super) fn times_lan(prepared: &PreparedExperiment<'_>, run: &Finished) -> Option<f64> {
    Some(run.summary.time_to_target_s? / prepared.lan_s())
}

fn row(prepared: &PreparedExperiment<'_>, model: &str, run: &Finished) -> CellRow {
    let summary = &run.summary;
    let bill = bill(summary, &run.plan.topology);
    let time_s = summary.time_to_target_s;
    let off = prepared.lan_objective_after(summary.clocks).filter(|at| *at != 0.0);
    CellRow {
        clocks: summary.clocks_to_target,
        wan_bytes: summary.wan_bytes_to_target.unwrap_or(summary.wan_bytes),
        converged: time_s.is_some(),
        objective: summary.objective,
        objective_off: off.map(|at| (summary.objective - at) / at.abs()),
        copies_equal: summary.copies_equal,
        blocked_s: summary.blocked_s,
        curve: run.curve(),
        ..skeleton(prepared, model, time_s, bill)
    }
}

fn centralized(prepared: &PreparedExperiment<'_>, data_bytes: f64) -> CellRow {
    let central = centralize(&prepared.bsp.plan.topology, data_bytes, prepared.lan_s());
    let lan = &prepared.lan.summary;
    CellRow {
        clocks: lan.clocks_to_target,
        wan_bytes: (central.bytes * prepared.fit.scale) as u64,
        objective: lan.objective,
        objective_off: Some(0.0),
        usd_waiting: Some(central.bill_waiting.total()),
        ..skeleton(prepared, CENTRALIZE, Some(central.time_s), central.bill)
    }
}

/// The fields of a row that follow from its time and its bill.
fn skeleton(
    prepared: &PreparedExperiment<'_>,
    model: &str,
    time_s: Option<f64>,
    bill: Bill,
) -> CellRow {
    let paper = prepared.experiment.published();
    let bsp_s = prepared.bsp.summary.time_to_target_s;
    CellRow {
        app: prepared.experiment.app.name.into(),
        wan: prepared.experiment.wan.name.into(),
        model: model.into(),
        time_s,
        clocks: None,
        times_lan: time_s.map(|time| time / prepared.lan_s()),
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
