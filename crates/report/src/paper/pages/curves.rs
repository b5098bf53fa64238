//! The evaluation's curves: every cell's objective over time, and the paper's Figures 5 and 12.

use crate::chart::{Curve, Plot, Quantity, Spacing, Trend};
use crate::paper::grid::{AppWanPair, Grid, app_name, colour, wan_name};
use crate::paper::records::{CellRow, CurveRow, InsignificantRow};
use crate::text::numbers;

/// The objective over time of every model at a pair.
pub(super) fn cells(grid: &Grid<'_>, pair: AppWanPair<'_>) -> Plot {
    let curve = |row: &CellRow| Curve {
        note: row.time_s.map_or_else(|| "never".into(), numbers::seconds),
        marked: marked(row).into_iter().collect(),
        ..line(row.model.clone(), colour(&row.model), row.curve.clone())
    };
    Plot {
        description: format!("Objective over time of {} on {}", pair.app, pair.wan),
        ..over_time(grid.runs_at(pair).into_iter().map(curve).collect())
    }
}

/// Where the curve first is at its time to target.
fn marked(row: &CellRow) -> Option<(f64, f64)> {
    let time = row.time_s?;
    row.curve.iter().copied().find(|(at, _)| *at >= time * (1.0 - 1e-9))
}

/// What happens without the two brakes: the curves of one application over one WAN.
pub(super) fn brakes(rows: &[&CurveRow]) -> Plot {
    let curve = |(at, row): (usize, &&CurveRow)| {
        let end = row.points.last().map(|(_, objective)| numbers::objective(*objective));
        let end = end.map_or_else(String::new, |end| format!("ends at {end}"));
        // Where no brake was ever put on, one line hides the other.
        let note = match rows[..at].iter().find(|other| other.points == row.points) {
            Some(same) => format!("the same as {}", same.model),
            None => end,
        };
        Curve { note, ..line(row.model.clone(), colour(&row.model), row.points.clone()) }
    };
    Plot {
        description: "Objective over time with and without the two brakes".into(),
        // The paper's figure shows the divergence, so that no part of it may be cut off.
        trend: Trend::Whole,
        target: rows.first().map(|row| row.target),
        ..over_time(rows.iter().enumerate().map(curve).collect())
    }
}

/// The share of updates below a significance: lines for ours, marks for the paper's.
pub(super) fn insignificant(rows: &[InsignificantRow]) -> Plot {
    let mut curves = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let colour = SERIES[at % SERIES.len()];
        let ours = row.points.iter().map(|(change, share, _)| (100.0 * change, 100.0 * share));
        let name = format!("{}, {}", row.app, wan_name(&row.wan));

        curves.push(line(name, colour, ours.collect()));

        let printed = row
            .points
            .iter()
            .filter_map(|(change, _, share)| share.map(|share| (100.0 * change, 100.0 * share)));
        let marked: Vec<(f64, f64)> = printed.collect();

        if !marked.is_empty() {
            let name = format!("{} in the paper", row.app);
            curves.push(Curve { marked, ..line(name, colour, Vec::new()) });
        }
    }

    Plot {
        description: "Share of updates below a significance".into(),
        x: Quantity::Value,
        x_label: "change relative to the value (%)".into(),
        y_label: "% of updates that change less".into(),
        curves,
        trend: Trend::Either,
        x_spacing: Spacing::Logarithmic,
        y_spacing: Spacing::Linear,
        target: None,
    }
}

/// The application and WAN of a figure's heading.
pub(super) fn pair_name(app: &str, wan: &str) -> String {
    format!("{} on {}", app_name(app), wan_name(wan))
}

fn over_time(curves: Vec<Curve>) -> Plot {
    Plot {
        description: String::new(),
        x: Quantity::Seconds,
        x_label: "simulated time".into(),
        y_label: "objective of the worst copy".into(),
        curves,
        trend: Trend::Falling,
        // What is slowest would press all others against the axis.
        x_spacing: Spacing::Fitting,
        y_spacing: Spacing::Fitting,
        target: None,
    }
}

fn line(label: String, colour: usize, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        label,
        note: String::new(),
        colour,
        points,
        band: Vec::new(),
        band_label: "",
        marked: Vec::new(),
    }
}

const SERIES: [usize; 6] = [0, 1, 2, 3, 4, 8];
