//! `report.html`: one run.

use serde::Serialize;

use super::parts::{
    BlockedBar, BreakdownView, CauseKey, Heats, LinkTable, Picture, Pictures, heat, run_pictures,
    timeline,
};
use super::template::render;
use crate::text::numbers;
use crate::text::phrases::{self, bytes_to_target, clocks_to_target, outcome, time_to_target};
use gaia_telemetry::{Progress, Summary};

#[derive(Serialize)]
struct RunView<'a> {
    title: String,
    /// Whether the run is under way.
    live: bool,
    summary: &'a Summary,
    sentence: String,
    scale: String,
    headlines: Vec<Figure>,
    pictures: Pictures,
    breakdown: Option<BreakdownView>,
    learnt: Learnt<'a>,
    blocked: BlockedBar,
    timeline: Option<Picture>,
    causes: Vec<CauseKey>,
    data_centers: Vec<DcRow>,
    heats: Option<Heats>,
    links: LinkTable,
    facts: Vec<Figure>,
    run_toml: &'a str,
}

/// What was learnt: the first lines are shown, the rest unfolds.
#[derive(Serialize)]
struct Learnt<'a> {
    top: &'a [String],
    rest: &'a [String],
}

#[derive(Serialize)]
struct DcRow {
    name: String,
    clock: String,
    objective: String,
    metric: String,
    sent: String,
    blocked: String,
}

/// A figure with its label: a headline, or one of a list of facts.
#[derive(Serialize)]
struct Figure {
    label: &'static str,
    value: String,
    note: String,
}

/// The page of one run, as text.
pub(crate) fn run_page(
    run_toml: &str,
    progress: &[Progress],
    summary: &Summary,
    highlights: &[String],
) -> String {
    page(run_toml, progress, summary, highlights, headlines(summary), false)
}

/// The page of a run under way, whose summary has the figures of its last evaluation.
pub(crate) fn live_page(run_toml: &str, progress: &[Progress], summary: &Summary) -> String {
    let mut headlines = headlines(summary);
    let clock = format!("clock {}", numbers::count(summary.clocks));
    headlines[0] = Figure::new("Time", numbers::seconds(summary.time_s), clock);
    // What the bytes cost is known at the end.
    headlines.retain(|headline| headline.label != "WAN cost");
    if progress.is_empty() {
        headlines.retain(|headline| !["Objective", "Held-out metric"].contains(&headline.label));
    }
    page(run_toml, progress, summary, &[], headlines, true)
}

/// The page shown while there is no run.
pub(crate) fn waiting_page() -> String {
    #[derive(Serialize)]
    struct WaitingView {
        title: &'static str,
        live: bool,
    }
    render("waiting.html", &WaitingView { title: "gaia", live: true })
}

fn page(
    run_toml: &str,
    progress: &[Progress],
    summary: &Summary,
    highlights: &[String],
    headlines: Vec<Figure>,
    live: bool,
) -> String {
    let blocked = summary.blocked_s;
    render(
        "run.html",
        &RunView {
            title: format!("{}: {} over {}", summary.name, summary.remote_sync, summary.wan),
            live,
            summary,
            sentence: sentence(summary),
            scale: phrases::wan_bandwidth_scale(summary),
            headlines,
            pictures: match live {
                true => run_pictures(summary, progress).without_downloads(),
                false => run_pictures(summary, progress),
            },
            breakdown: summary.breakdown.as_ref().map(BreakdownView::new),
            learnt: Learnt::new(highlights),
            blocked: BlockedBar::new("", blocked, blocked.total()),
            timeline: timeline(summary, progress),
            causes: CauseKey::of([blocked]),
            data_centers: data_centers(progress),
            heats: heat("run", summary),
            links: LinkTable::new(&summary.links, live),
            facts: facts(summary),
            run_toml,
        },
    )
}

impl<'a> Learnt<'a> {
    fn new(lines: &'a [String]) -> Self {
        let shown = if lines.len() > LINES_SHOWN + 2 { LINES_SHOWN } else { lines.len() };
        let (top, rest) = lines.split_at(shown);
        Self { top, rest }
    }
}

impl Figure {
    fn new(label: &'static str, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { label, value: value.into(), note: note.into() }
    }
}

/// What ran, in a sentence.
fn sentence(summary: &Summary) -> String {
    let (remote, local) = (&summary.remote_sync, &summary.local_sync);
    let (place, sync) = match summary.data_centers.len() {
        1 => ("in one data center".into(), format!("{local} among its workers")),
        all => (
            format!("over {all} data centers"),
            format!("{remote} between data centers, {local} inside them"),
        ),
    };
    format!(
        "{}. Trained {place} by {} and {}: {sync}.",
        phrases::trained_on(summary),
        numbers::counted(summary.workers, "worker"),
        numbers::counted(summary.servers, "parameter server"),
    )
}

fn headlines(summary: &Summary) -> Vec<Figure> {
    let target =
        summary.target_objective.map(|target| format!("target {}", numbers::target(target)));
    let worse = phrases::worse_than_untrained(summary).map(|was| format!("untrained: {was}"));
    let notes: Vec<String> = target.into_iter().chain(worse).collect();
    let reached = match summary.clocks_to_target {
        Some(_) => clocks_to_target(summary),
        None => outcome(summary),
    };

    let metric = &summary.metric;
    vec![
        Figure::new("Time to target", time_to_target(summary), reached),
        Figure::new("Objective", numbers::objective(summary.objective), notes.join("; ")),
        Figure::new("Held-out metric", numbers::objective(metric.value), metric_note(summary)),
        Figure::new("WAN traffic", numbers::bytes(summary.wan_bytes), bytes_to_target(summary)),
        Figure::new("WAN cost", numbers::dollars(summary.wan_cost_usd), ""),
        Figure::new(
            "Reads held back",
            numbers::seconds(summary.blocked_s.total()),
            "worker-seconds",
        ),
    ]
}

/// What the metric is, its range over data centers, and the predictor that it must beat.
fn metric_note(summary: &Summary) -> String {
    let mut note = summary.metric.name.clone();
    let range = phrases::metrics_at_home(summary);
    if !range.is_empty() {
        note = format!("{note}, {range}");
    }
    if let Some(trivial) = &summary.trivial {
        note = format!("{note}, {}: {}", trivial.name, numbers::objective(trivial.metric));
    }
    note
}

fn facts(summary: &Summary) -> Vec<Figure> {
    let copies = if summary.copies_equal { "equal" } else { "not equal" };
    let converged = if summary.converged { "yes" } else { "no" };
    let mut facts = vec![
        Figure::new("Converged", converged, ""),
        Figure::new("Driver", &*summary.driver, ""),
        Figure::new("Seed", summary.seed.to_string(), ""),
        Figure::new("Gaia", &*summary.version, ""),
        Figure::new(
            "Bandwidth scale",
            numbers::trim(&numbers::significant(summary.bandwidth_scale, 4)),
            "",
        ),
        Figure::new("Trained for", numbers::seconds(summary.time_s), ""),
        Figure::new("Clocks", numbers::count(summary.clocks), ""),
    ];
    // One data center alone has no other copy.
    if !summary.links.is_empty() {
        facts.extend([
            Figure::new("Largest clock lag", numbers::count(summary.clock_lag_max), ""),
            Figure::new("Changes shared", numbers::percent(summary.significant_fraction), ""),
            Figure::new("Copies after drain", copies, ""),
        ]);
    }
    facts.extend([
        Figure::new("LAN traffic", numbers::bytes(summary.lan_bytes), ""),
        Figure::new("Real time taken", numbers::seconds(summary.wall_s), ""),
    ]);

    if let Some(homes) = phrases::at_home(summary) {
        facts.push(Figure::new("Objective at home", homes, ""));
    }

    if !summary.membership.is_empty() {
        facts.push(Figure::new("Membership", phrases::membership(&summary.membership), ""));
    }

    if let Some(record) = &summary.conservation {
        facts.push(Figure::new("Between mirrors", phrases::conservation(record), ""));
    }

    if let Some(reason) = &summary.remote_sync_reason {
        facts.push(Figure::new(
            "Remote model",
            format!("{} was chosen: {reason}", summary.remote_sync),
            "",
        ));
    }

    if let Some(parted) = &summary.parted {
        let (what, how) = (phrases::parted(parted), phrases::parted_by(parted));
        facts.push(Figure::new("Skew", format!("{what}; {how}"), ""));
    }

    if !summary.outliers.is_empty() {
        facts.push(Figure::new("Outliers", phrases::outliers(&summary.outliers), ""));
    }

    if let Some(guard) = &summary.guard {
        facts.push(Figure::new("Guard against skew", phrases::guard(guard), ""));
    }

    if summary.machine_cost_usd > 0.0 {
        facts.push(Figure::new("Machine cost", numbers::dollars(summary.machine_cost_usd), ""));
    }

    facts
}

/// The data centers at the last evaluation.
fn data_centers(progress: &[Progress]) -> Vec<DcRow> {
    let last = progress.last().map(|last| last.data_centers.as_slice()).unwrap_or_default();
    let row = |dc: &gaia_telemetry::DcProgress| DcRow {
        name: dc.name.clone(),
        clock: numbers::count(dc.clock),
        objective: numbers::objective(dc.objective),
        metric: numbers::objective(dc.metric),
        sent: numbers::bytes(dc.wan_sent_bytes),
        blocked: numbers::seconds(dc.blocked_s),
    };
    last.iter().map(row).collect()
}

/// Lines of what was learnt that are shown before the rest unfolds.
const LINES_SHOWN: usize = 10;
