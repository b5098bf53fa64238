//! `compare.html`: remote models side by side on each WAN.

use serde::Serialize;

use super::parts::{
    AgainstBsp, BlockedBar, CauseKey, Heats, Pictures, against_bsp, colour, comparison_pictures,
    shared_heats,
};
use super::template::render;
use crate::comparison::{CompareRow, ComparedRun, Comparison, LAN};
use crate::text::numbers;
use crate::text::phrases::{time_to_target_among, trained_on, wan_bandwidth_scale};
use crate::verdicts::{listed, verdicts};
use gaia_core::sync::Axes;
use gaia_telemetry::Summary;

#[derive(Serialize)]
struct CompareView<'a> {
    title: String,
    sentence: String,
    target: String,
    definition: String,
    slowdown: Option<String>,
    metric: String,
    verdicts: Vec<String>,
    wans: Vec<WanView>,
    against_bsp: Option<AgainstBsp>,
    /// Whether the table has a column for machine costs.
    has_machine_costs: bool,
    about: Option<&'a Summary>,
    run_toml: &'a str,
}

/// All runs on one WAN.
#[derive(Serialize)]
struct WanView {
    name: String,
    /// The LAN comes first in the table, as the baseline, and last on the page.
    is_lan: bool,
    scale: String,
    rows: Vec<RowView>,
    pictures: Pictures,
    blocked: Vec<BlockedBar>,
    causes: Vec<CauseKey>,
    heats: Option<Heats>,
}

#[derive(Serialize)]
struct RowView {
    remote: String,
    /// Parallelism, optimisation, scheduling and communication.
    axes: [&'static str; 4],
    colour: usize,
    time: String,
    clocks: String,
    speedup: String,
    times_lan: String,
    metric: String,
    bytes: String,
    bytes_to_target: String,
    machine_cost: String,
    cost: String,
    barrier: String,
    mirror_clock: String,
    bandwidth: String,
    local: String,
}

/// The page of a comparison, as text.
pub(crate) fn compare_page(run_toml: &str, comparison: &Comparison) -> String {
    let about = comparison.runs.first().map(|run| &run.row.summary);
    let wans = comparison.wans();

    render(
        "compare.html",
        &CompareView {
            title: format!("{}: remote models compared", about.map_or("gaia", |about| &about.name)),
            sentence: about.map_or(String::new(), |about| sentence(about, comparison)),
            target: comparison.target_objective.map_or_else(String::new, numbers::target),
            definition: comparison.definition(),
            slowdown: comparison.slowdown.map(|fitted| fitted.said()),
            metric: about.map_or_else(|| "metric".into(), |about| about.metric.name.clone()),
            verdicts: verdicts(comparison),
            wans: wans.iter().enumerate().map(|(at, wan)| wan_view(comparison, at, wan)).collect(),
            against_bsp: against_bsp(comparison),
            has_machine_costs: comparison.has_machine_costs(),
            about,
            run_toml,
        },
    )
}

fn wan_view(comparison: &Comparison, at: usize, wan: &str) -> WanView {
    let id = format!("wan-{at}");
    let runs: Vec<&ComparedRun> = comparison.on(wan).collect();
    let summaries = || runs.iter().map(|run| &run.row.summary);
    let widest = summaries().map(|summary| summary.blocked_s.total()).fold(0.0, f64::max);
    WanView {
        name: wan.into(),
        is_lan: wan == LAN,
        scale: summaries().next().map(wan_bandwidth_scale).unwrap_or_default(),
        rows: runs
            .iter()
            .enumerate()
            .map(|(at, run)| row_view(at, &run.row, comparison.longest_s()))
            .collect(),
        pictures: comparison_pictures(comparison, wan, &id),
        blocked: summaries()
            .map(|summary| BlockedBar::new(&summary.remote_sync, summary.blocked_s, widest))
            .collect(),
        causes: CauseKey::of(summaries().map(|summary| summary.blocked_s)),
        heats: shared_heats(&id, &summaries().collect::<Vec<_>>()),
    }
}

fn row_view(at: usize, row: &CompareRow, longest_s: f64) -> RowView {
    let summary = &row.summary;
    RowView {
        remote: summary.remote_sync.clone(),
        axes: axes(summary),
        colour: colour(&summary.remote_sync, at),
        time: time_to_target_among(summary, longest_s),
        clocks: numbers::shown(summary.clocks_to_target, numbers::count),
        speedup: numbers::shown(row.speedup_vs_bsp, numbers::times),
        times_lan: numbers::shown(row.times_lan, numbers::times),
        metric: numbers::objective(summary.metric.value),
        bytes: numbers::bytes(summary.wan_bytes),
        bytes_to_target: numbers::shown(summary.wan_bytes_to_target, numbers::bytes),
        machine_cost: numbers::dollars(summary.machine_cost_usd),
        cost: numbers::dollars(row.cost_usd),
        barrier: numbers::seconds(summary.blocked_s.barrier),
        mirror_clock: numbers::seconds(summary.blocked_s.mirror_clock),
        bandwidth: numbers::seconds(summary.blocked_s.bandwidth),
        local: numbers::seconds(summary.blocked_s.local),
    }
}

fn axes(summary: &Summary) -> [&'static str; 4] {
    match summary.axes {
        Some(Axes { parallelism, optimisation, scheduling, communication }) => {
            [parallelism.name(), optimisation.name(), scheduling.name(), communication.name()]
        }
        None => [numbers::NONE; 4],
    }
}

/// What was compared, in a sentence.
fn sentence(about: &Summary, comparison: &Comparison) -> String {
    let mut remotes: Vec<&str> = Vec::new();
    for run in &comparison.runs {
        if !remotes.contains(&run.row.summary.remote_sync.as_str()) {
            remotes.push(&run.row.summary.remote_sync);
        }
    }
    format!(
        "{}. Trained with {} between data centers on {}.",
        trained_on(about),
        listed(&remotes),
        listed(&comparison.wans()),
    )
}
