//! The charts of runs over several seeds: medians as lines, ranges as bands.

use super::colour::{GREY, colour};
use super::picture::Picture;
use super::pictures::Pictures;
use crate::chart::{Curve, Plot, Quantity, Size, Spacing, Trend};
use crate::comparison::LAN;
use crate::seeds::{SeedCell, SeededComparison, band};
use crate::text::numbers;
use crate::text::phrases::seeds as seeds_said;
use gaia_telemetry::Progress;

/// What is drawn over what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axes {
    ObjectiveOverTime,
    ObjectiveOverBytes,
    MetricOverTime,
}

/// The objective over time on the first WAN that is not the LAN, beside BSP on the LAN.
pub(crate) fn seeds_plot(seeds: &SeededComparison) -> Plot {
    let wans = seeds.wans();
    let wan = wans.iter().find(|wan| **wan != LAN).or_else(|| wans.first()).copied();
    plot(Axes::ObjectiveOverTime, seeds, wan.unwrap_or(LAN))
}

/// The charts of one WAN. `id` is unique on the page.
pub(in crate::page) fn seed_pictures(seeds: &SeededComparison, wan: &str, id: &str) -> Pictures {
    let over_time = plot(Axes::ObjectiveOverTime, seeds, wan);
    let over_bytes = plot(Axes::ObjectiveOverBytes, seeds, wan);
    let metric = plot(Axes::MetricOverTime, seeds, wan);

    let mut others = Vec::new();
    if !over_bytes.curves.is_empty() {
        others.push(Picture::of_plot("Objective over WAN bytes", &over_bytes, Size::HALF));
    }
    let heading = format!("Held-out {} over time", metric.y_label);
    others.push(Picture::of_plot(heading, &metric, Size::HALF));
    Pictures::new(Picture::of_views("Objective over time", id, over_time), others)
}

fn plot(axes: Axes, seeds: &SeededComparison, wan: &str) -> Plot {
    let cells = seeds.cells();
    let first = cells.first().map(SeedCell::first);
    let simulated = first.is_some_and(|first| first.driver == "simulated");
    let own = cells.iter().filter(|cell| cell.wan() == wan).enumerate();
    let mut curves: Vec<Curve> = own
        .filter_map(|(at, cell)| curve(axes, cell, cell.remote().into(), colour(cell.remote(), at)))
        .collect();
    if wan != LAN {
        let lan = cells.iter().find(|cell| cell.wan() == LAN && cell.remote() == "bsp");
        curves.extend(lan.and_then(|lan| curve(axes, lan, "bsp on the LAN".into(), GREY)));
    }

    let target = seeds.targets().and_then(|target| target.median);
    Plot {
        description: format!(
            "{} on {wan}: medians over {}, with the range over all of them",
            axes.said(),
            seeds_said(&seeds.seeds())
        ),
        x: if axes == Axes::ObjectiveOverBytes { Quantity::Bytes } else { Quantity::Seconds },
        x_label: match axes {
            Axes::ObjectiveOverBytes => "sent over the WAN".into(),
            _ if simulated => "simulated time".into(),
            _ => "time".into(),
        },
        y_label: match axes {
            Axes::MetricOverTime => {
                first.map_or_else(|| "metric".into(), |first| first.metric.name.clone())
            }
            _ => "objective".into(),
        },
        trend: match axes {
            Axes::MetricOverTime => Trend::Either,
            _ => Trend::Falling,
        },
        x_spacing: Spacing::Fitting,
        y_spacing: Spacing::Fitting,
        curves,
        target: target.filter(|_| axes != Axes::MetricOverTime),
    }
}

fn curve(axes: Axes, cell: &SeedCell<'_>, label: String, colour: usize) -> Option<Curve> {
    let sends = cell.runs.iter().any(|(_, run)| run.row.summary.wan_bytes > 0);
    if axes == Axes::ObjectiveOverBytes && !sends {
        return None;
    }

    let points = |progress: &[Progress]| progress.iter().map(|at| axes.point(at)).collect();
    let curves: Vec<Vec<(f64, f64)>> =
        cell.runs.iter().map(|(_, run)| points(&run.progress)).collect();
    let band = band(&curves);
    let time = cell.spread_to_target(|summary| summary.time_to_target_s).median;
    let note = match axes {
        Axes::ObjectiveOverTime => time.map_or_else(|| "never".into(), numbers::seconds),
        Axes::ObjectiveOverBytes => {
            let bytes = cell.spread(|row| row.summary.wan_bytes as f64).median;
            numbers::shown(bytes, |bytes| numbers::bytes(bytes.round() as u64))
        }
        Axes::MetricOverTime => {
            let metric = cell.spread(|row| row.summary.metric.value).median;
            numbers::shown(metric, numbers::objective)
        }
    };
    Some(Curve { label, note, colour, band: band.range, marked: Vec::new(), points: band.points })
}

impl Axes {
    fn point(self, at: &Progress) -> (f64, f64) {
        match self {
            Self::ObjectiveOverTime => (at.time_s, at.objective),
            Self::ObjectiveOverBytes => (at.wan_bytes as f64, at.objective),
            Self::MetricOverTime => (at.time_s, at.metric),
        }
    }

    fn said(self) -> &'static str {
        match self {
            Self::ObjectiveOverTime => "The objective over time",
            Self::ObjectiveOverBytes => "The objective over WAN bytes",
            Self::MetricOverTime => "The held-out metric over time",
        }
    }
}
