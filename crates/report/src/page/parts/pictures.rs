//! The charts of a page: which curves they show, over which axes.

use serde::Serialize;

use super::axes::{Axes, Labels, beginning};
use super::colour::{GREY, colour};
use super::picture::Picture;
use crate::chart::{Curve, Plot, Size};
use crate::comparison::{ComparedRun, Comparison, LAN};
use crate::text::numbers;
use crate::text::phrases::time_to_target;
use gaia_telemetry::{EvaluatedOn, Progress, Summary};

/// The charts of one run: the first fills the page, the others share a row.
#[derive(Serialize)]
pub(in crate::page) struct Pictures {
    first: Picture,
    others: Vec<Picture>,
}

impl Pictures {
    /// `draw` makes each chart; one without curves is left out. `id` is unique on the page: the buttons of these pictures are
    /// named after it.
    pub(super) fn of(id: &str, metric: &str, draw: impl Fn(Axes) -> Plot) -> Self {
        let half = |axes: Axes| {
            let plot = draw(axes);
            let picture = || Picture::of_plot(axes.heading(metric), &plot, Size::HALF);
            (!plot.curves.is_empty() || axes == Axes::MetricOverTime).then(picture)
        };
        let over_time = Axes::ObjectiveOverTime;
        Self {
            first: Picture::of_views(over_time.heading(metric), id, draw(over_time)),
            others: [Axes::ObjectiveOverBytes, Axes::MetricOverTime]
                .into_iter()
                .filter_map(half)
                .collect(),
        }
    }

    /// The same without links that save them, which a page that is drawn again and again has no room for.
    pub(in crate::page) fn without_downloads(mut self) -> Self {
        self.others.iter_mut().chain([&mut self.first]).for_each(Picture::remove_downloads);
        self
    }
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
    let wan = shown_first(&comparison.wans());
    plot(Axes::ObjectiveOverTime, &traced_on(comparison, wan), comparison.target_objective)
}

/// The WAN of the picture that stands for all: the first that is not the LAN.
pub(super) fn shown_first<'a>(wans: &[&'a str]) -> &'a str {
    wans.iter().find(|wan| **wan != LAN).or_else(|| wans.first()).copied().unwrap_or(LAN)
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

fn pictures(runs: &[Traced<'_>], target: Option<f64>, id: &str) -> Pictures {
    Pictures::of(id, metric(runs), |axes| plot(axes, runs, target))
}

fn plot(axes: Axes, runs: &[Traced<'_>], target: Option<f64>) -> Plot {
    let metric = metric(runs);
    let labels = Labels {
        description: format!("{}: {}", axes.heading(metric), described(runs)),
        is_simulated: runs.iter().all(|run| run.summary.driver == "simulated"),
        metric,
        target,
    };
    axes.plot(labels, runs.iter().filter_map(|run| curve(axes, run, runs.len() == 1)).collect())
}

fn curve(axes: Axes, run: &Traced<'_>, alone: bool) -> Option<Curve> {
    if axes == Axes::ObjectiveOverBytes && run.summary.wan_bytes == 0 {
        return None;
    }

    let points = axes.points(run.summary, run.progress);
    let begin = beginning(run.summary, run.progress);
    let reached = run.summary.time_to_target_s.and_then(|time_s| {
        let slack = 1e-9 * time_s.abs();
        let at = run.progress.iter().position(|at| at.time_s >= time_s - slack)?;
        Some(points[at + usize::from(begin.is_some())])
    });
    let begin = begin.map(|initial| axes.value(initial));
    let band = begin.into_iter().map(|value| (value, value));
    let band = band.chain(run.progress.iter().map(over_copies)).collect();

    let note = match axes {
        Axes::ObjectiveOverTime => time_to_target(run.summary),
        Axes::ObjectiveOverBytes => numbers::bytes(run.summary.wan_bytes),
        Axes::MetricOverTime => numbers::objective(run.summary.metric.value),
    };

    let spread = alone && axes != Axes::MetricOverTime && run.summary.data_centers.len() > 1;
    Some(Curve {
        label: run.label.clone(),
        note,
        colour: run.colour,
        band: if spread { band } else { Vec::new() },
        band_label: "all copies",
        marked: reached.into_iter().collect(),
        points,
    })
}

fn metric<'a>(runs: &[Traced<'a>]) -> &'a str {
    runs.first().map_or("metric", |run| &run.summary.metric.name)
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
