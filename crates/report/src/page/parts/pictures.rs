//! The charts of a page: which curves they show, over which axes.

use serde::Serialize;

use super::colour::{GREY, colour};
use super::picture::Picture;
use crate::chart::{Curve, Plot, Quantity, Size, Spacing, Trend};
use crate::comparison::{ComparedRun, Comparison, LAN};
use crate::text::numbers;
use crate::text::phrases::time_to_target;
use gaia_telemetry::{EvaluatedOn, InitialRecord, Progress, Summary};

/// The charts of one run: the first fills the page, the others share a row.
#[derive(Serialize)]
pub(in crate::page) struct Pictures {
    first: Picture,
    others: Vec<Picture>,
}

impl Pictures {
    pub(super) fn new(first: Picture, others: Vec<Picture>) -> Self {
        Self { first, others }
    }

    /// The same without links that save them, which a page that is drawn again and again has no room for.
    pub(in crate::page) fn without_downloads(mut self) -> Self {
        self.others.iter_mut().chain([&mut self.first]).for_each(Picture::remove_downloads);
        self
    }
}

/// What is drawn over what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axes {
    ObjectiveOverTime,
    ObjectiveOverBytes,
    MetricOverTime,
}

/// A run with the label and the colour of its curves.
struct Traced<'a> {
    summary: &'a Summary,
    progress: &'a [Progress],
    label: String,
    colour: usize,
}

/// The objective of one run over time, with the range over the data centers' copies.
pub(crate) fn run_plot(summary: &Summary, progress: &[Progress]) -> Plot {
    plot(Axes::ObjectiveOverTime, &[traced_alone(summary, progress)], summary.target_objective)
}

/// The objective over time of the runs on the first WAN that is not the LAN, beside BSP on the LAN.
pub(crate) fn comparison_plot(comparison: &Comparison) -> Plot {
    let wans = comparison.wans();
    let wan = wans.iter().find(|wan| **wan != LAN).or_else(|| wans.first()).copied().unwrap_or(LAN);
    plot(Axes::ObjectiveOverTime, &traced_on(comparison, wan), comparison.target_objective)
}

pub(in crate::page) fn run_pictures(summary: &Summary, progress: &[Progress]) -> Pictures {
    pictures(&[traced_alone(summary, progress)], summary.target_objective, "run")
}

pub(in crate::page) fn comparison_pictures(
    comparison: &Comparison,
    wan: &str,
    id: &str,
) -> Pictures {
    pictures(&traced_on(comparison, wan), comparison.target_objective, id)
}

/// `id` is unique on the page: the buttons of these pictures are named after it.
fn pictures(runs: &[Traced<'_>], target: Option<f64>, id: &str) -> Pictures {
    let picture = |axes: Axes, size: Size| {
        let target = (axes != Axes::MetricOverTime).then_some(target).flatten();
        let plot = plot(axes, runs, target);
        match axes {
            Axes::ObjectiveOverTime => Picture::of_views(axes.heading(runs), id, plot),
            _ => Picture::of_plot(axes.heading(runs), &plot, size),
        }
    };
    let mut others = Vec::new();
    if runs.iter().any(|run| run.summary.wan_bytes > 0) {
        others.push(picture(Axes::ObjectiveOverBytes, Size::HALF));
    }
    others.push(picture(Axes::MetricOverTime, Size::HALF));
    Pictures { first: picture(Axes::ObjectiveOverTime, Size::WIDE), others }
}

fn plot(axes: Axes, runs: &[Traced<'_>], target: Option<f64>) -> Plot {
    let simulated = runs.iter().all(|run| run.summary.driver == "simulated");
    let time = if simulated { "simulated time" } else { "time" };

    let (x, x_label) = match axes {
        Axes::ObjectiveOverBytes => (Quantity::Bytes, "sent over the WAN"),
        _ => (Quantity::Seconds, time),
    };

    Plot {
        description: format!("{}: {}", axes.heading(runs), described(runs)),
        x,
        x_label: x_label.into(),
        y_label: axes.y_label(runs),
        trend: match axes {
            Axes::MetricOverTime => Trend::Either,
            _ => Trend::Falling,
        },
        x_spacing: Spacing::Fitting,
        y_spacing: Spacing::Fitting,
        curves: runs.iter().filter_map(|run| curve(axes, run, runs.len() == 1)).collect(),
        target,
    }
}

fn curve(axes: Axes, run: &Traced<'_>, alone: bool) -> Option<Curve> {
    if axes == Axes::ObjectiveOverBytes && run.summary.wan_bytes == 0 {
        return None;
    }

    let mut points: Vec<(f64, f64)> = run.progress.iter().map(|at| axes.point(at)).collect();
    let reached = run.summary.time_to_target_s.and_then(|time_s| {
        let slack = 1e-9 * time_s.abs();
        let at = run.progress.iter().position(|at| at.time_s >= time_s - slack)?;
        Some(points[at])
    });

    let begin = axes.beginning(run).filter(|_| run.progress.iter().all(|at| at.clock > 0));
    let mut band: Vec<(f64, f64)> = run.progress.iter().map(over_copies).collect();
    if let Some((x, value)) = begin {
        points.insert(0, (x, value));
        band.insert(0, (value, value));
    }

    let note = match axes {
        Axes::ObjectiveOverTime => time_to_target(run.summary),
        Axes::ObjectiveOverBytes => numbers::bytes(run.summary.wan_bytes),
        Axes::MetricOverTime => numbers::objective(run.summary.metric.value),
    };

    let spread = alone && axes != Axes::MetricOverTime && run.summary.data_centers.len() > 1;
    Some(Curve {
        label: if spread {
            format!("{} (shaded: all copies)", run.label)
        } else {
            run.label.clone()
        },
        note,
        colour: run.colour,
        band: if spread { band } else { Vec::new() },
        marked: reached.into_iter().collect(),
        points,
    })
}

impl Axes {
    fn point(self, at: &Progress) -> (f64, f64) {
        match self {
            Self::ObjectiveOverTime => (at.time_s, at.objective),
            Self::ObjectiveOverBytes => (at.wan_bytes as f64, at.objective),
            Self::MetricOverTime => (at.time_s, at.metric),
        }
    }

    /// Where the initial model is, if it was evaluated.
    fn beginning(self, run: &Traced<'_>) -> Option<(f64, f64)> {
        let InitialRecord { objective, metric } = run.summary.initial?;
        Some((0.0, if self == Self::MetricOverTime { metric } else { objective }))
    }

    fn heading(self, runs: &[Traced<'_>]) -> String {
        match self {
            Self::ObjectiveOverTime => "Objective over time".into(),
            Self::ObjectiveOverBytes => "Objective over WAN bytes".into(),
            Self::MetricOverTime => format!("Held-out {} over time", metric(runs)),
        }
    }

    fn y_label(self, runs: &[Traced<'_>]) -> String {
        match self {
            Self::MetricOverTime => metric(runs),
            _ => "objective".into(),
        }
    }
}

fn metric(runs: &[Traced<'_>]) -> String {
    runs.first().map_or_else(|| "metric".into(), |run| run.summary.metric.name.clone())
}

fn described(runs: &[Traced<'_>]) -> String {
    let runs: Vec<String> = runs
        .iter()
        .map(|run| match time_to_target(run.summary).as_str() {
            "" => run.label.clone(),
            time => format!("{} reaches the target in {time}", run.label),
        })
        .collect();
    runs.join(", ").replace("the target in never", "no target")
}

fn traced_alone<'a>(summary: &'a Summary, progress: &'a [Progress]) -> Traced<'a> {
    let label = match summary.evaluated {
        _ if summary.data_centers.len() == 1 => summary.remote_sync.clone(),
        EvaluatedOn::Everywhere => format!("{}, worst copy", summary.remote_sync),
        EvaluatedOn::Home => format!("{}, copies at home", summary.remote_sync),
    };
    Traced { summary, progress, label, colour: colour(&summary.remote_sync, 0) }
}

/// The runs on a WAN, then BSP on the LAN in grey, which they are measured against.
fn traced_on<'a>(comparison: &'a Comparison, wan: &'a str) -> Vec<Traced<'a>> {
    let named = |(at, run): (usize, &'a ComparedRun)| Traced {
        summary: &run.row.summary,
        progress: &run.progress,
        label: run.row.summary.remote_sync.clone(),
        colour: colour(&run.row.summary.remote_sync, at),
    };

    let mut runs: Vec<Traced<'a>> = comparison.on(wan).enumerate().map(named).collect();
    if wan != LAN
        && let Some(lan) = comparison.lan_baseline()
    {
        runs.push(Traced {
            summary: &lan.row.summary,
            progress: &lan.progress,
            label: "bsp on the LAN".into(),
            colour: GREY,
        });
    }

    runs
}

fn over_copies(at: &Progress) -> (f64, f64) {
    let objectives = at.data_centers.iter().map(|dc| dc.objective);
    objectives.fold((at.objective, at.objective), |(low, high), objective| {
        (objective.min(low), objective.max(high))
    })
}
