//! Tables of every figure of an application's cells, beside the paper's.

use super::section::BlockedGroup;
use super::verdicts::{is_near_lan, lan_below};
use crate::page::{BlockedBar, CauseKey, Cell, Table};
use crate::paper::grid::{ASP, ASP_PAPER, AppWanPair, BSP, Grid, LAN, colour, wan_name};
use crate::paper::records::CellRow;
use crate::text::numbers;

/// Times of an application: a group for each WAN, a row for each model, those that were not run too.
pub(super) fn times(grid: &Grid<'_>, app: &str) -> Table {
    let table = Table::new(format!("Times of {app}"), &TIMES).over(&OVER_TIMES);
    filled(table, grid, app, TIMES.len(), time_cells)
}

/// Bytes and dollars, in the same rows.
pub(super) fn costs(grid: &Grid<'_>, app: &str) -> Table {
    let table = Table::new(format!("Bytes and dollars of {app}"), &COSTS).over(&OVER_COSTS);
    filled(table, grid, app, COSTS.len(), cost_cells)
}

fn filled(
    mut table: Table,
    grid: &Grid<'_>,
    app: &str,
    columns: usize,
    cells: fn(&Grid<'_>, AppWanPair<'_>, &CellRow) -> Vec<Cell>,
) -> Table {
    for pair in pairs(grid, app) {
        table.group(wan_name(pair.wan));
        for model in grid.models_of(app) {
            match grid.find(pair, model) {
                Some(row) if model == ASP => table.own_row(cells(grid, pair, row)),
                Some(row) => table.row(cells(grid, pair, row)),
                None => table.row(not_run(model, columns)),
            }
        }
    }
    table
}

/// Time that reads were held back, by cause, a group for each WAN.
pub(super) fn blocked(grid: &Grid<'_>, app: &str) -> Vec<BlockedGroup> {
    let group = |pair: AppWanPair<'_>| {
        let rows = grid.runs_at(pair);
        let widest = rows.iter().map(|row| row.blocked_s.total()).fold(0.0, f64::max);
        BlockedGroup {
            title: wan_name(pair.wan),
            bars: rows
                .iter()
                .map(|row| BlockedBar::new(&row.model, row.blocked_s, widest))
                .collect(),
        }
    };
    pairs(grid, app).into_iter().map(group).collect()
}

/// The causes among those bars.
pub(super) fn causes(grid: &Grid<'_>, app: &str) -> Vec<CauseKey> {
    let rows = pairs(grid, app).into_iter().flat_map(|pair| grid.runs_at(pair));
    CauseKey::of(rows.map(|row| row.blocked_s))
}

fn pairs<'a>(grid: &Grid<'a>, app: &str) -> Vec<AppWanPair<'a>> {
    grid.pairs().into_iter().filter(|pair| pair.app == app).collect()
}

fn time_cells(grid: &Grid<'_>, pair: AppWanPair<'_>, row: &CellRow) -> Vec<Cell> {
    let lan = grid.find(pair, LAN).and_then(|lan| lan.paper_speedup);
    let printed_lan = lan.zip(row.paper_speedup).map(|(lan, own)| lan / own);
    let slow = row.model == ASP && row.times_lan.is_some() && !is_near_lan(row);
    // What the LAN does not reach is not missed.
    let capped = row.paper_speedup.is_some_and(|printed| lan_below(grid, pair, printed).is_some());
    let off = row.objective_off.filter(|off| off.is_finite());
    vec![
        Cell::new(&*row.model).dot(colour(&row.model)),
        reached(row),
        numbers::shown(row.clocks, numbers::count).into(),
        ratio(row.speedup_vs_bsp).miss_if(
            behind(row, row.speedup_vs_bsp, row.paper_speedup) && !(capped && is_near_lan(row)),
        ),
        ratio(row.paper_speedup),
        ratio(row.times_lan).miss_if(slow),
        ratio(printed_lan),
        numbers::objective(row.objective).into(),
        numbers::shown(off, |off| format!("{:+.2} %", 100.0 * off)).into(),
        Cell::new(if row.copies_equal { "equal" } else { "not equal" }).miss_if(!row.copies_equal),
    ]
}

fn cost_cells(grid: &Grid<'_>, pair: AppWanPair<'_>, row: &CellRow) -> Vec<Cell> {
    let bytes_over = |model: &str| {
        let other = grid.find(pair, model).map(|other| other.wan_bytes as f64);
        ratio(other.filter(|_| row.wan_bytes > 0).map(|bytes| bytes / row.wan_bytes as f64))
    };

    let wan_share = (row.usd > 0.0).then(|| row.usd_wan / row.usd);
    let cheaper = grid
        .find(pair, BSP)
        .filter(|bsp| row.usd > 0.0 && row.converged && bsp.converged)
        .map(|bsp| bsp.usd / row.usd);

    vec![
        Cell::new(&*row.model).dot(colour(&row.model)),
        Cell::new(if row.converged { "yes" } else { "never" }).miss_if(!row.converged),
        numbers::bytes(row.wan_bytes).into(),
        bytes_over(BSP),
        bytes_over(ASP_PAPER),
        numbers::dollars(row.usd_machines).into(),
        numbers::dollars(row.usd_wan).into(),
        numbers::dollars(row.usd).into(),
        numbers::shown(wan_share, numbers::percent).into(),
        numbers::shown(row.paper_wan_share, numbers::percent).into(),
        ratio(cheaper).miss_if(behind(row, cheaper, row.paper_cost_ratio)),
        ratio(row.paper_cost_ratio),
    ]
}

/// Whether ASP does worse than in the paper.
fn behind(row: &CellRow, ours: Option<f64>, printed: Option<f64>) -> bool {
    row.model == ASP && ours.zip(printed).is_some_and(|(ours, printed)| ours < printed)
}

fn ratio(value: Option<f64>) -> Cell {
    numbers::shown(value, numbers::times).into()
}

fn reached(row: &CellRow) -> Cell {
    match row.time_s {
        Some(time) if row.converged => numbers::seconds(time).into(),
        _ => Cell::new("never").miss_if(true),
    }
}

fn not_run(model: &str, columns: usize) -> Vec<Cell> {
    let mut cells = vec![Cell::new(model).dot(colour(model)), Cell::new("not run").miss_if(true)];
    cells.resize_with(columns, || numbers::NONE.into());
    cells
}

const TIMES: [&str; 10] = [
    "",
    "#time to target",
    "#clocks",
    "#ours",
    "#paper",
    "#ours",
    "#paper",
    "#value",
    "#off LAN's then",
    "#copies",
];
const OVER_TIMES: [(&str, usize); 5] = [
    ("", 1),
    ("virtual", 2),
    ("speed-up over BSP", 2),
    ("times LAN", 2),
    ("objective after the drain", 3),
];
const COSTS: [&str; 12] = [
    "",
    "#arrived",
    "#sent",
    "#BSP's ÷ it",
    "#asp-paper's ÷ it",
    "#machines",
    "#WAN",
    "#all",
    "#ours",
    "#paper",
    "#ours",
    "#paper",
];
const OVER_COSTS: [(&str, usize); 5] =
    [("", 2), ("WAN bytes", 3), ("dollars", 3), ("WAN's share", 2), ("BSP's dollars ÷ it", 2)];
