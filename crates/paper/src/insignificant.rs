//! The share of insignificant updates: the paper's Figure 5.
//!
//! Training without a network: all workers read one model, and the changes of one data center's workers in one clock
//! are its update. The significance of an update is its size relative to the changed value. All values of an updated
//! row count, including unchanged ones: in the paper 95 % of the topic model's updates are below every threshold, and
//! integers do not change by less than 0.01 %.

use super::EvaluationError;
use super::bench::{Bench, in_parallel};
use super::experiment::PreparedExperiment;
use super::published::{SIGNIFICANCES, insignificant};
use super::suite::WORST;
use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::types::{Clock, Deltas, Model, TableId, TableLayout};
use gaia_report::paper::InsignificantRow;

/// One row for each application over each of the paper's WANs, for the number of clocks of BSP on the LAN.
pub(super) fn rows(
    all_prepared: &[PreparedExperiment<'_>],
    bench: &Bench<'_>,
) -> Result<Vec<InsignificantRow>, EvaluationError> {
    // Without a network, two WANs with the same machines give the same result.
    let measured: Vec<&PreparedExperiment<'_>> = all_prepared
        .iter()
        .filter(|prepared| prepared.experiment.has_cells() && prepared.experiment.wan.name != WORST)
        .collect();
    in_parallel(&measured, |prepared| {
        let plan = &prepared.bsp.plan;
        let application = bench.application(plan)?;
        let shares = shares_below(application.as_ref(), plan, prepared.lan.summary.clocks);
        let app = prepared.experiment.app.name;
        let points = SIGNIFICANCES.iter().zip(shares);
        Ok(InsignificantRow {
            app: app.into(),
            wan: prepared.experiment.wan.name.into(),
            points: points.map(|(&at, share)| (at, share, insignificant(app, at))).collect(),
        })
    })
}

/// The share of updates below each significance, 0 to 1, over all data centers and clocks.
fn shares_below(
    application: &dyn Application,
    plan: &Plan,
    clocks: u64,
) -> [f64; SIGNIFICANCES.len()] {
    let mut model = application.initial_model(plan.seed.child("model"));
    let seed = plan.seed.child("tasks");
    let workers = plan.topology.workers();
    let mut tasks: Vec<_> =
        (0..workers).map(|worker| application.task(worker, seed.nth(worker))).collect();
    let mut below = [0_u64; SIGNIFICANCES.len()];
    let mut all = 0_u64;
    let mut update = vec![None; model.values.len()];

    let mut updated = model.values.clone();
    for clock in (0..clocks).map(Clock) {
        let mut first = 0;
        for dc in plan.topology.dc_ids() {
            update.fill(None);
            let last = first + plan.topology.dc(dc).workers;
            for task in &mut tasks[first..last] {
                task.rows(clock);
                let computed = task.iterate(clock, &model);
                let (deltas, _) = computed.expect("built-in applications do not fail");
                add(&deltas, &model, &mut update);
            }
            first = last;
            for ((change, value), updated) in update.iter().zip(&model.values).zip(&mut updated) {
                let Some(change) = *change else { continue };
                all += 1;
                let significance = if change == 0.0 { 0.0 } else { (change / value).abs() };
                for (below, bar) in below.iter_mut().zip(SIGNIFICANCES) {
                    *below += u64::from(f64::from(significance) < bar);
                }
                *updated += change;
            }
        }
        model.values.copy_from_slice(&updated);
    }

    below.map(|count| count as f64 / all.max(1) as f64)
}

fn add(deltas: &Deltas, model: &Model, sums: &mut [Option<f32>]) {
    for (table, changed) in deltas.tables.iter().enumerate() {
        let table = TableId(table as u16);
        let TableLayout { rows, width, .. } = *model.layout().table(table);
        for (row, values) in changed.rows.iter(rows).zip(changed.values.chunks_exact(width)) {
            let start = model.layout().row_offset(table, row as usize);
            for (sum, value) in sums[start..start + width].iter_mut().zip(values) {
                *sum = Some(sum.unwrap_or_default() + value);
            }
        }
    }
}
