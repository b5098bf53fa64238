//! The paper's Figures 8 to 11 as bars: speed-up over BSP, and dollars against BSP's, on the same WAN.

use crate::chart::{Bar, BarGroup, Bars, Base};
use crate::paper::grid::{AppWanPair, BSP, Grid, colour, wan_name};
use crate::paper::records::CellRow;
use crate::text::numbers;

/// Speed-ups over BSP. BSP itself is the line at 1.
pub(super) fn speedups(grid: &Grid<'_>, app: &str) -> Bars {
    Bars {
        description: format!("{app}: speed-up over BSP on the same WAN"),
        y_label: "speed-up over BSP on the same WAN, logarithmic".into(),
        groups: groups(grid, app, |_, model, row| {
            if model == BSP {
                return row.and_then(missing).map(|why| blank(model, why));
            }

            let Some(row) = row else { return Some(blank(model, "not run")) };
            let bar = match row.speedup_vs_bsp {
                _ if missing(row).is_some() => blank(model, "never"),
                None => blank(model, "BSP never"),
                Some(speedup) => filled(model, vec![speedup], numbers::times(speedup)),
            };

            Some(Bar { printed: row.paper_speedup, ..bar })
        }),
        base: Base::One,
        parts: None,
        printed: PRINTED,
    }
}

/// Dollars until the target, as multiples of BSP's: machines first, then WAN traffic.
pub(super) fn costs(grid: &Grid<'_>, app: &str) -> Bars {
    Bars {
        description: format!(
            "{app}: dollars until the target against those of BSP on the same WAN"
        ),
        y_label: "dollars to target, BSP's on the same WAN = 1".into(),
        groups: groups(grid, app, |pair, model, row| {
            let Some(row) = row else { return Some(blank(model, "not run")) };
            let bsp = grid.find(pair, BSP).filter(|bsp| bsp.usd > 0.0 && missing(bsp).is_none());

            let bar = match bsp {
                _ if missing(row).is_some() => blank(model, "never"),
                None => blank(model, "BSP never"),
                Some(bsp) => {
                    let parts = vec![row.usd_machines / bsp.usd, row.usd_wan / bsp.usd];
                    filled(model, parts, numbers::multiple(row.usd / bsp.usd))
                }
            };

            let printed = row.paper_cost_ratio.filter(|ratio| *ratio > 0.0 && model != BSP);
            Some(Bar { printed: printed.map(|ratio| 1.0 / ratio), ..bar })
        }),
        base: Base::Zero,
        parts: Some(["machines, waiting included", "WAN traffic"]),
        printed: PRINTED,
    }
}

/// A group for each WAN with the bars that `bar` makes of its models.
fn groups<'a>(
    grid: &Grid<'a>,
    app: &str,
    bar: impl Fn(AppWanPair<'_>, &str, Option<&'a CellRow>) -> Option<Bar>,
) -> Vec<BarGroup> {
    let Some(app) = grid.apps().into_iter().find(|known| *known == app) else { return Vec::new() };
    let group = |pair: AppWanPair<'a>| BarGroup {
        label: wan_name(pair.wan),
        bars: grid
            .models_of(app)
            .into_iter()
            .filter_map(|model| bar(pair, model, grid.find(pair, model)))
            .collect(),
    };
    grid.pairs_of(app).into_iter().map(group).collect()
}

/// Why a row has no time to target. `None` where it has one.
fn missing(row: &CellRow) -> Option<&'static str> {
    (row.time_s.is_none() || !row.converged).then_some("never")
}

fn filled(model: &str, parts: Vec<f64>, text: String) -> Bar {
    Bar { label: model.into(), colour: colour(model), parts, text, printed: None }
}

fn blank(model: &str, why: &str) -> Bar {
    filled(model, Vec::new(), why.into())
}

const PRINTED: &str = "printed in the paper";
