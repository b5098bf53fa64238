//! What was fitted before the runs, and how fast the simulator was.

use super::section::{Section, Unfold};
use crate::page::{Cell, Table};
use crate::paper::grid::{app_name, wan_name};
use crate::paper::records::{ScaleRow, SpeedRow};
use crate::text::numbers;

/// What was fitted for the paper's WANs, or what other WANs take over from that.
pub(super) fn fitted(rows: &[ScaleRow], elsewhere: bool) -> Section {
    let heading = if elsewhere { "What was taken over" } else { "What was fitted" };
    let rows: Vec<&ScaleRow> = rows.iter().filter(|row| row.elsewhere == elsewhere).collect();
    if rows.is_empty() {
        return Section::empty(heading, "Nothing was fitted.");
    }

    let heads =
        ["", "#bandwidths ×", "#BSP over LAN", "#paper's LAN column", "#off", "#training data"];
    let mut table = Table::new(heading, &heads);
    let mut last = None;

    for row in rows {
        if last != Some(&row.app) {
            last = Some(&row.app);
            table.group(app_name(&row.app));
        }

        let off = row.published.map(|published| row.bsp_over_lan / published - 1.0);
        let off = off.filter(|off| off.is_finite());
        let scale = numbers::significant(row.bandwidth_scale, 3);

        table.row(vec![
            wan_name(&row.wan).into(),
            numbers::trim(&scale).into(),
            numbers::times(row.bsp_over_lan).into(),
            numbers::shown(row.published, numbers::times).into(),
            Cell::new(numbers::shown(off, |off| format!("{:+.1} %", 100.0 * off)))
                .miss_if(off.is_some_and(|off| off.abs() > FIT)),
            numbers::bytes(row.data_bytes.max(0.0) as u64).into(),
        ]);
    }

    Section::new(heading).say(if elsewhere { TAKEN_OVER } else { FITTED }).lay_out(table)
}

pub(super) fn speed(rows: &[SpeedRow]) -> Section {
    let heading = "How fast the simulator was";
    if rows.is_empty() {
        return Section::empty(heading, "No run was timed.");
    }

    let heads =
        ["run", "#virtual time", "#real time", "#virtual ÷ real", "#frames", "#frames a second"];
    let mut table = Table::new(heading, &heads);
    for row in rows {
        table.row(vec![
            Cell::from(&*row.run),
            numbers::seconds(row.virtual_seconds).into(),
            numbers::seconds(row.wall_seconds).into(),
            numbers::times(row.virtual_seconds / row.wall_seconds).into(),
            numbers::count(row.frames).into(),
            rate(row.frames as f64 / row.wall_seconds).into(),
        ]);
    }

    let sum = |seconds: fn(&SpeedRow) -> f64| rows.iter().map(seconds).sum::<f64>();
    let frames: f64 = rows.iter().map(|row| row.frames as f64).sum();
    let (virtual_s, wall_s) = (sum(|row| row.virtual_seconds), sum(|row| row.wall_seconds));

    Section::new(heading)
        .say(format!(
            "{} simulated {} in {} of real time: {} faster than real, {} frames a second.",
            numbers::counted(rows.len(), "run"),
            numbers::seconds(virtual_s),
            numbers::seconds(wall_s),
            numbers::times(virtual_s / wall_s),
            rate(frames / wall_s),
        ))
        .unfold(Unfold {
            summary: format!("All {}", numbers::counted(rows.len(), "run")),
            table: Some(table),
            ..Unfold::default()
        })
}

fn rate(per_second: f64) -> String {
    if per_second.is_finite() {
        numbers::count(per_second.round() as u64)
    } else {
        numbers::NONE.into()
    }
}

/// A fit further off than this is a miss.
const FIT: f64 = 0.05;

const FITTED: &str = "A small model over scaled links stands for a large one over real links: all bandwidths, LAN and \
    WAN alike, are multiplied by the one number at which BSP's clocks are as much slower than the LAN's as in the \
    paper. That is the one thing fitted of the network, before ASP is run; every other figure is measured. The \
    training data is given the volume at which shipping it over S/S takes the paper's share of training on the LAN.";
const TAKEN_OVER: &str = "Nothing is fitted to these WANs: each application keeps the bandwidth scale and the volume of \
    training data that its fit to one of the paper's WANs has given it.";
