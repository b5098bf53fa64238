//! The charts of runs over several seeds: medians as lines, ranges as bands.

use super::axes::{Axes, Labels};
use super::colour::{GREY, colour};
use super::pictures::{Pictures, shown_first};
use crate::chart::{Curve, Plot};
use crate::comparison::LAN;
use crate::seeds::{SeedCell, SeededComparison, band, metric};
use crate::text::numbers;
use crate::text::phrases::seeds as seeds_said;

/// The objective over time on the first WAN that is not the LAN, beside BSP on the LAN.
pub(crate) fn seeds_plot(seeds: &SeededComparison) -> Plot {
    plot(Axes::ObjectiveOverTime, seeds, shown_first(&seeds.wans()))
}

/// The charts of one WAN. `id` is unique on the page.
pub(in crate::page) fn seed_pictures(seeds: &SeededComparison, wan: &str, id: &str) -> Pictures {
    Pictures::of(id, metric(&seeds.cells()), |axes| plot(axes, seeds, wan))
}

fn plot(axes: Axes, seeds: &SeededComparison, wan: &str) -> Plot {
    let cells = seeds.cells();
    let own = cells.iter().filter(|cell| cell.wan() == wan).enumerate();
    let mut curves: Vec<Curve> = own
        .filter_map(|(at, cell)| curve(axes, cell, cell.remote().into(), colour(cell.remote(), at)))
        .collect();
    if wan != LAN {
        let lan = cells.iter().find(|cell| cell.wan() == LAN && cell.remote() == "bsp");
        curves.extend(lan.and_then(|lan| curve(axes, lan, "bsp on the LAN".into(), GREY)));
    }

    let over = seeds_said(&seeds.seeds());
    let labels = Labels {
        description: format!(
            "{} on {wan}: medians over {over}, with the range over all of them",
            said(axes)
        ),
        is_simulated: cells.first().is_some_and(|cell| cell.first().driver == "simulated"),
        metric: metric(&cells),
        target: seeds.targets().and_then(|target| target.median),
    };
    axes.plot(labels, curves)
}

fn said(axes: Axes) -> &'static str {
    match axes {
        Axes::ObjectiveOverTime => "The objective over time",
        Axes::ObjectiveOverBytes => "The objective over WAN bytes",
        Axes::MetricOverTime => "The held-out metric over time",
    }
}

fn curve(axes: Axes, cell: &SeedCell<'_>, label: String, colour: usize) -> Option<Curve> {
    let sends = cell.runs.iter().any(|(_, run)| run.row.summary.wan_bytes > 0);
    if axes == Axes::ObjectiveOverBytes && !sends {
        return None;
    }

    let runs = cell.runs.iter().map(|(_, run)| run);
    let curves: Vec<Vec<(f64, f64)>> =
        runs.map(|run| axes.points(&run.row.summary, &run.progress)).collect();
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
    Some(Curve {
        label,
        note,
        colour,
        band: band.range,
        band_label: "",
        marked: Vec::new(),
        points: band.points,
    })
}
