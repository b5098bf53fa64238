//! ASP against shipping all data to one data center first, as the paper's Table 1.

use super::section::Section;
use crate::page::{Cell, Table};
use crate::paper::grid::{ASP, CENTRALIZE, Grid, app_name, wan_name};
use crate::paper::records::CellRow;
use crate::text::numbers;

/// The comparison for every pair, beside the paper's ratios where it has the same cells.
pub(super) fn section(grid: &Grid<'_>, the_papers_own: bool) -> Section {
    let heading = "Against shipping the data first";
    if grid.rows().is_empty() {
        return Section::empty(heading, "Nothing was run.");
    }

    let mut table = Table::new(heading, &HEADS).over(&OVER);
    for app in grid.apps() {
        table.group(app_name(app));

        for pair in grid.pairs_of(app) {
            let (own, other) = (grid.find(pair, ASP), grid.find(pair, CENTRALIZE));
            let printed = published(pair.app, pair.wan).filter(|_| the_papers_own);
            let both = own.zip(other);
            let faster = both.and_then(|(own, other)| Some(time(other)? / time(own)?));

            let dearer = |dollars: fn(&CellRow) -> Option<f64>| {
                let (own, other) = both?;
                time(own).zip(time(other))?;
                let other = dollars(other).filter(|other| *other > 0.0)?;
                Some(dollars(own)? / other)
            };

            table.row(vec![
                wan_name(pair.wan).into(),
                timed(own),
                timed(other),
                Cell::new(numbers::shown(faster, numbers::times))
                    .miss_if(faster.is_some_and(|faster| faster < 1.0)),
                numbers::shown(printed.map(|(faster, _)| faster), numbers::times).into(),
                priced(own, dollars),
                priced(other, dollars),
                times_dearer(dearer(dollars)),
                numbers::shown(printed.map(|(_, dearer)| dearer), numbers::times).into(),
                priced(other, dollars_waiting),
                times_dearer(dearer(dollars_waiting)),
            ]);
        }
    }

    Section::new(heading)
        .say(
            "Shipping means: all training data first crosses the WAN to one data center, then BSP trains there. \
             Faster is its time over that of ASP, and cost ratio is ASP's dollars over its own: first with machines \
             that are rented once the data has arrived, then with machines that wait for it, as those of every other \
             model wait for updates. The paper's figures are those of its Table 1.",
        )
        .lay_out(table)
}

/// In how many of the paper's cells Gaia was faster than shipping the data first, and in how many no more expensive.
pub(super) fn printed_wins() -> (String, String) {
    let all = PUBLISHED.len();
    let faster = PUBLISHED.iter().filter(|(_, _, faster, _)| *faster > 1.0).count();
    let cheaper = PUBLISHED.iter().filter(|(_, _, _, dearer)| *dearer <= 1.0).count();
    (format!("the paper: {faster} of {all}"), format!("the paper: {cheaper} of {all}"))
}

fn published(app: &str, wan: &str) -> Option<(f64, f64)> {
    let cell = PUBLISHED.iter().find(|cell| cell.0 == app && cell.1 == wan)?;
    Some((cell.2, cell.3))
}

fn time(row: &CellRow) -> Option<f64> {
    row.time_s.filter(|time| row.converged && *time > 0.0)
}

fn timed(row: Option<&CellRow>) -> Cell {
    match row {
        None => Cell::new("not run").miss_if(true),
        Some(row) => match time(row) {
            Some(time) => numbers::seconds(time).into(),
            None => Cell::new("never").miss_if(true),
        },
    }
}

fn priced(row: Option<&CellRow>, dollars: fn(&CellRow) -> Option<f64>) -> Cell {
    let arrived = row.filter(|row| time(row).is_some());
    numbers::shown(arrived.and_then(dollars), numbers::dollars).into()
}

fn times_dearer(dearer: Option<f64>) -> Cell {
    Cell::new(numbers::shown(dearer, numbers::times))
        .miss_if(dearer.is_some_and(|dearer| dearer > 1.0))
}

pub(super) fn dollars(row: &CellRow) -> Option<f64> {
    Some(row.usd)
}

/// The dollars if every machine is rented from the start. `None` where they are not known.
pub(super) fn dollars_waiting(row: &CellRow) -> Option<f64> {
    if row.model == CENTRALIZE { row.usd_waiting } else { Some(row.usd) }
}

const HEADS: [&str; 11] = [
    "",
    "#asp",
    "#shipping",
    "#faster",
    "#paper",
    "#asp",
    "#shipping",
    "#cost ratio",
    "#paper",
    "#shipping",
    "#cost ratio",
];
const OVER: [(&str, usize); 4] =
    [("", 1), ("time to target", 4), ("dollars", 4), ("machines waiting", 2)];

/// Table 1 of the paper: by how much Gaia is faster than "Centralized", and by how much more expensive.
const PUBLISHED: [(&str, &str, f64, f64); 9] = [
    ("mf", "ec2-all", 1.11, 3.54),
    ("mf", "vc", 1.22, 1.00),
    ("mf", "ss", 2.13, 1.17),
    ("tm", "ec2-all", 0.80, 6.14),
    ("tm", "vc", 1.02, 1.26),
    ("tm", "ss", 1.25, 1.92),
    ("ic", "ec2-all", 0.76, 3.33),
    ("ic", "vc", 1.12, 1.07),
    ("ic", "ss", 1.86, 1.08),
];
