//! `compare.html` over several seeds: the same runs repeated, with medians and ranges.

use serde::Serialize;

use super::parts::{Cell, Pictures, Table, colour, seed_pictures};
use super::template::render;
use crate::comparison::LAN;
use crate::seeds::{SeedCell, SeededComparison, Spread, SpreadRow, metric, seed_verdicts};
use crate::text::numbers;
use crate::text::phrases::{
    outcome, range, seeds as seeds_said, time_to_target, trained_on, wan_bandwidth_scale,
};
use gaia_telemetry::Summary;

#[derive(Serialize)]
struct SeedsView<'a> {
    title: String,
    sentence: String,
    target: String,
    slowdown: Option<String>,
    verdicts: Vec<String>,
    medians: Table,
    wans: Vec<WanView>,
    runs: Table,
    about: Option<&'a Summary>,
    seeds: String,
    run_toml: &'a str,
}

/// The charts of one WAN.
#[derive(Serialize)]
struct WanView {
    name: String,
    /// The LAN comes last on the page.
    is_lan: bool,
    pictures: Pictures,
}

/// The page of runs over several seeds, as text.
pub(crate) fn seeds_page(run_toml: &str, seeds: &SeededComparison) -> String {
    let cells = seeds.cells();
    let about = cells.first().map(SeedCell::first);
    let seeds_said = seeds_said(&seeds.seeds());
    let name = about.map_or("gaia", |about| &about.name);
    let target = seeds.targets().map_or_else(String::new, |target| {
        format!("objective {}, ", range(&target, numbers::NONE, numbers::target))
    });

    render(
        "seeds.html",
        &SeedsView {
            title: format!("{name}: {seeds_said}"),
            sentence: about.map_or_else(String::new, |about| format!("{}.", trained_on(about))),
            target: format!("{target}{}", seeds.definition()),
            slowdown: seeds.slowdown().map(|fitted| fitted.said()),
            verdicts: seed_verdicts(seeds),
            medians: medians(&cells),
            wans: seeds
                .wans()
                .iter()
                .enumerate()
                .map(|(at, wan)| WanView {
                    name: (*wan).into(),
                    is_lan: *wan == LAN,
                    pictures: seed_pictures(seeds, wan, &format!("wan-{at}")),
                })
                .collect(),
            runs: runs(&cells),
            about,
            seeds: seeds_said,
            run_toml,
        },
    )
}

/// A row for each model on each WAN: the median of each figure and its range.
fn medians(cells: &[SeedCell<'_>]) -> Table {
    let metric = metric(cells);
    let rows: Vec<SpreadRow> = cells.iter().map(SpreadRow::of).collect();
    // One model alone has nothing that it is compared with.
    let has_ratios = rows.iter().any(|row| row.speedup_vs_bsp.is_some() || row.times_lan.is_some());
    let mut heads = vec!["model", "met", "#time to target"];
    if has_ratios {
        heads.extend(["#vs BSP", "#times LAN"]);
    }
    let metric = format!("#{metric}");
    heads.extend([&*metric, "#WAN bytes", "#cost", "#worker-seconds held back"]);
    let mut table = Table::new("Medians over the seeds", &heads);

    let mut wan = None;
    for ((at, cell), row) in cells.iter().enumerate().zip(&rows) {
        if wan != Some(cell.wan()) {
            wan = Some(cell.wan());
            table.group(heading(cell.first()));
        }
        let bytes = |value: f64| numbers::bytes(value.round() as u64);
        let mut figures = vec![
            Cell::new(cell.remote()).dot(colour(cell.remote(), at)),
            Cell::new(format!("{} of {}", row.reached, row.runs)).miss_if(row.reached < row.runs),
        ];
        figures.push(median(Some(&row.time_to_target_s), "never", numbers::seconds));
        if has_ratios {
            figures.push(median(row.speedup_vs_bsp.as_ref(), numbers::NONE, numbers::times));
            figures.push(median(row.times_lan.as_ref(), numbers::NONE, numbers::times));
        }
        figures.extend([
            median(Some(&row.metric), "not finite", numbers::objective),
            median(Some(&row.wan_bytes), numbers::NONE, bytes),
            median(Some(&row.cost_usd), numbers::NONE, numbers::dollars),
            median(Some(&row.blocked_s), numbers::NONE, numbers::seconds),
        ]);
        table.row(figures);
    }
    table
}

/// The median of a figure, with the range below it unless all seeds have one value.
fn median(spread: Option<&Spread>, missing: &str, show: impl Fn(f64) -> String) -> Cell {
    let Some(spread) = spread else { return Cell::new(numbers::NONE) };
    let median = spread.median.map_or_else(|| missing.into(), &show);
    let range = range(spread, missing, show);
    let below = if range == median { String::new() } else { range };
    Cell::new(median).below(&below)
}

/// A row for each run.
fn runs(cells: &[SeedCell<'_>]) -> Table {
    let metric = format!("#{}", metric(cells));
    let heads = [
        "seed",
        "converged",
        "#time to target",
        "#vs BSP",
        "#clocks",
        "#objective",
        &metric,
        "#WAN bytes",
        "#cost",
    ];
    let mut table = Table::new("Every run", &heads);
    for cell in cells {
        table.group(format!("{}, {}", cell.remote(), heading(cell.first())));
        for (seed, run) in &cell.runs {
            let summary = &run.row.summary;
            table.row(vec![
                Cell::new(seed.to_string()),
                Cell::new(outcome(summary)),
                Cell::new(time_to_target(summary)),
                Cell::new(numbers::shown(run.row.speedup_vs_bsp, numbers::times)),
                Cell::new(numbers::count(summary.clocks)),
                Cell::new(numbers::objective(summary.objective)),
                Cell::new(numbers::objective(summary.metric.value)),
                Cell::new(numbers::bytes(summary.wan_bytes)),
                Cell::new(numbers::dollars(run.row.cost_usd)),
            ]);
        }
    }
    table
}

fn heading(summary: &Summary) -> String {
    match wan_bandwidth_scale(summary) {
        scale if scale.is_empty() => summary.wan.clone(),
        scale => format!("{}, {scale}", summary.wan),
    }
}
