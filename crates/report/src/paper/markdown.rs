//! `paper.md`: the tables of an evaluation.

use super::rates::{self, RateRow};
use super::records::{CellRow, PaperFile, SystemRow};
use super::systems;
use crate::text::numbers::{self, shown};

/// The whole page.
pub(super) fn page(file: &PaperFile) -> String {
    let mut page = Page::default();
    let length = if file.quick { "short version, " } else { "" };
    page.line(&format!("# The paper's evaluation ({length}seed {})", file.seed));
    page.line("");
    page.line(INTRODUCTION);
    scales(&mut page, file);

    for (title, rows) in [("The paper's WANs", &file.cells), ("Elsewhere", &file.elsewhere)] {
        if !rows.is_empty() {
            page.section(title);
            cells(&mut page, rows);
        }
    }

    shipping(&mut page, file);
    bills(&mut page, file);
    ablation(&mut page, file);
    insignificant(&mut page, file);
    brakes(&mut page, file);
    skew(&mut page, file);
    rates_table(&mut page, &file.rates);
    claims(&mut page, &file.systems);
    speed(&mut page, file);

    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn section(&mut self, title: &str) {
        self.line("");
        self.line(&format!("## {title}"));
        self.line("");
    }

    fn head(&mut self, heads: &[&str]) {
        self.line(&format!("| {} |", heads.join(" | ")));
        self.line(&format!("|{}", "---|".repeat(heads.len())));
    }

    fn row(&mut self, cells: &[String]) {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        self.line(&format!("| {} |", cells.join(" | ")));
    }
}

fn scales(page: &mut Page, file: &PaperFile) {
    page.section("What is fitted");
    page.line(FITTED);
    page.line("");
    page.head(&["app", "WAN", "bandwidth scale", "BSP ÷ LAN", "paper", "data"]);
    for row in &file.scales {
        let place = if row.elsewhere { " (elsewhere)" } else { "" };
        page.row(&[
            row.app.clone(),
            format!("{}{place}", row.wan),
            numbers::significant(row.bandwidth_scale, 3),
            numbers::times(row.bsp_over_lan),
            shown(row.published, numbers::times),
            numbers::bytes(row.data_bytes as u64),
        ]);
    }
}

fn cells(page: &mut Page, rows: &[CellRow]) {
    page.head(&[
        "app",
        "WAN",
        "model",
        "time",
        "clocks",
        "vs BSP",
        "paper",
        "× LAN",
        "WAN bytes",
        "÷ BSP's",
        "cost",
        "BSP's ÷ it",
        "paper",
        "off the LAN's at that clock",
    ]);

    for row in rows {
        let bsp =
            rows.iter().find(|bsp| bsp.app == row.app && bsp.wan == row.wan && bsp.model == "bsp");
        let of_bsp = |share: fn(&CellRow, &CellRow) -> f64| bsp.map(|bsp| share(row, bsp));
        page.row(&[
            row.app.clone(),
            row.wan.clone(),
            row.model.clone(),
            row.time_s.map_or_else(|| "not reached".into(), numbers::seconds),
            shown(row.clocks, numbers::count),
            shown(row.speedup_vs_bsp, numbers::times),
            shown(row.paper_speedup, numbers::times),
            shown(row.times_lan, numbers::times),
            numbers::bytes(row.wan_bytes),
            shown(of_bsp(|row, bsp| row.wan_bytes as f64 / bsp.wan_bytes as f64), numbers::percent),
            numbers::dollars(row.usd),
            shown(of_bsp(|row, bsp| bsp.usd / row.usd), numbers::times),
            shown(row.paper_cost_ratio, numbers::times),
            shown(row.objective_off, |off| format!("{:+.2} %", off * 100.0)),
        ]);
    }
}

/// ASP's dollars against those of shipping the data first.
fn shipping(page: &mut Page, file: &PaperFile) {
    let asp = |row: &&CellRow| {
        file.cells.iter().find(|asp| asp.model == "asp" && asp.app == row.app && asp.wan == row.wan)
    };

    let shipped = file.cells.iter().filter(|row| row.model == "centralize");
    let pairs: Vec<_> = shipped.filter_map(|row| Some((asp(&row)?, row))).collect();
    if pairs.is_empty() {
        return;
    }

    page.section("ASP's dollars against shipping the data first");
    page.line(SHIPPING);
    page.line("");
    page.head(&["app", "WAN", "asp", "centralize", "asp ÷ it", "machines waiting", "asp ÷ it"]);

    for (asp, row) in pairs {
        let over = |usd: f64| asp.time_s.map(|_| asp.usd / usd);
        page.row(&[
            row.app.clone(),
            row.wan.clone(),
            numbers::dollars(asp.usd),
            numbers::dollars(row.usd),
            shown(over(row.usd), numbers::times),
            shown(row.usd_waiting, numbers::dollars),
            shown(row.usd_waiting.and_then(over), numbers::times),
        ]);
    }
}

fn bills(page: &mut Page, file: &PaperFile) {
    let rows = file.cells.iter().filter(|row| row.paper_wan_share.is_some());
    if rows.clone().next().is_none() {
        return;
    }
    page.section("The WAN's share of BSP's bill");
    page.head(&["app", "WAN", "share", "paper"]);
    for row in rows {
        page.row(&[
            row.app.clone(),
            row.wan.clone(),
            numbers::percent(row.usd_wan / row.usd),
            shown(row.paper_wan_share, numbers::percent),
        ]);
    }
}

fn ablation(page: &mut Page, file: &PaperFile) {
    if file.ablation.is_empty() {
        return;
    }
    page.section("What each setting buys");
    page.head(&["app", "WAN", "change", "what it is", "× LAN", "clocks", "WAN bytes", "cost"]);
    for row in &file.ablation {
        page.row(&[
            row.app.clone(),
            row.wan.clone(),
            format!("`{}`", row.change),
            row.what.clone(),
            row.times_lan.map_or_else(|| "not reached".into(), numbers::times),
            shown(row.clocks, numbers::count),
            numbers::bytes(row.wan_bytes),
            numbers::dollars(row.usd),
        ]);
    }
}

fn insignificant(page: &mut Page, file: &PaperFile) {
    let Some(first) = file.insignificant.first() else { return };
    page.section("Updates below a significance (Figure 5)");
    let bars = first.points.iter().map(|(bar, ..)| format!("{} %", bar * 100.0));
    let heads: Vec<String> = ["app".to_owned(), "WAN".to_owned()].into_iter().chain(bars).collect();
    page.head(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &file.insignificant {
        let mut cells = vec![row.app.clone(), row.wan.clone()];
        cells.extend(row.points.iter().map(|(_, share, paper)| {
            format!("{} ({})", numbers::percent(*share), shown(*paper, numbers::percent))
        }));
        page.row(&cells);
    }
    page.line("");
    page.line("In brackets what the paper drew.");
}

fn brakes(page: &mut Page, file: &PaperFile) {
    if file.brakes.is_empty() {
        return;
    }

    page.section("With and without the brakes (Figure 12)");
    page.line(
        "`asp-async` is `asp-paper` without its brakes, `asp-no-brakes` is `asp` without its own.",
    );
    page.line("");
    page.head(&["app", "WAN", "model", "target", "best", "at", "last", "at"]);

    for curve in &file.brakes {
        let best = curve.points.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let point = |point: Option<&(f64, f64)>| {
            [shown(point, |at| numbers::objective(at.1)), shown(point, |at| numbers::seconds(at.0))]
        };

        let [best, best_at] = point(best);
        let [last, last_at] = point(curve.points.last());
        page.row(&[
            curve.app.clone(),
            curve.wan.clone(),
            curve.model.clone(),
            numbers::objective(curve.target),
            best,
            best_at,
            last,
            last_at,
        ]);
    }
}

fn skew(page: &mut Page, file: &PaperFile) {
    if file.skew.is_empty() {
        return;
    }

    page.section("Label-skewed data");
    page.head(&[
        "app",
        "skew",
        "model",
        "guard",
        "worst copy",
        "after the drain",
        "clocks",
        "time",
        "WAN bytes",
    ]);

    for row in &file.skew {
        page.row(&[
            row.app.clone(),
            numbers::percent(row.skew),
            row.model.clone(),
            if row.guard { "on" } else { "off" }.to_owned(),
            numbers::percent_tenths(row.accuracy_worst),
            numbers::percent_tenths(row.accuracy),
            numbers::count(row.clocks),
            numbers::seconds(row.time_s),
            numbers::bytes(row.wan_bytes),
        ]);
    }
}

fn rates_table(page: &mut Page, rows: &[RateRow]) {
    if rows.is_empty() {
        return;
    }

    page.section("Each remote model at its best learning rate");
    page.head(&[
        "app",
        "model",
        "best rate",
        "clocks to the target",
        "time",
        "a data center sent",
        "accuracy",
        "at each rate",
    ]);
    for row in rates::best(rows) {
        let clocks = rates::shown(row.clocks(), rates::count);
        let at_each_rate = rates::at_each_rate(rows, row).into_iter();
        let at_each_rate = at_each_rate.map(|(rate, figure)| format!("{rate}: {figure}"));
        page.row(&[
            row.app.clone(),
            row.model.clone(),
            numbers::significant(row.learning_rate, 3),
            if row.target.is_some() { clocks } else { numbers::NONE.into() },
            rates::shown(row.time_s(), numbers::seconds),
            rates::shown(row.sent_bytes(), rates::bytes),
            shown(row.accuracy(), numbers::percent_tenths),
            at_each_rate.collect::<Vec<_>>().join(", "),
        ]);
    }
}

fn claims(page: &mut Page, rows: &[SystemRow]) {
    if rows.is_empty() {
        return;
    }

    page.section("Claims of other systems");
    page.line(&systems::summary(rows));
    page.line("");
    page.head(&[
        "system", "claim", "check", "figure", "printed", "computed", "measured", "verdict",
    ]);
    for row in rows {
        let verdict = format!("{}: {}", row.verdict.name(), row.reason);
        let claim = [row.system.clone(), row.claim.clone(), row.check.clone()];
        if row.figures.is_empty() {
            let none = [numbers::NONE; 4].map(str::to_owned);
            page.row(&[&claim[..], &none, &[verdict]].concat());
            continue;
        }
        for (at, figure) in row.figures.iter().enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            let figures = [
                figure.what.clone(),
                systems::value(figure, figure.printed),
                systems::value(figure, figure.computed),
                systems::value(figure, Some(figure.measured)),
            ];
            let claim = claim.clone().map(first);
            page.row(&[&claim[..], &figures, &[first(verdict.clone())]].concat());
        }
    }
}

fn speed(page: &mut Page, file: &PaperFile) {
    let Some(heaviest) = file.heaviest() else { return };
    page.section("The simulator");
    page.line(&format!(
        "The heaviest of {} runs was {}: {} virtual seconds in {}, which is {} virtual seconds and {} frames a second.",
        numbers::count(file.speed.len() as u64),
        heaviest.run,
        numbers::count(heaviest.virtual_seconds.round() as u64),
        numbers::seconds(heaviest.wall_seconds),
        numbers::significant(heaviest.virtual_seconds / heaviest.wall_seconds, 3),
        numbers::count((heaviest.frames as f64 / heaviest.wall_seconds).round() as u64),
    ));
}

const INTRODUCTION: &str = "\
Every run trains until the objective that BSP on the LAN had when it settled: it changed by less than 2 % in 10 clocks. \
Times are virtual seconds to that; `× LAN` is in multiples of BSP on the LAN. Bytes are those of the scaled model; dollars are \
for one of the paper's size: machines, waiting included, and WAN traffic. Rows named `asp-paper` are the published algorithm, \
`asp` is ours with one set of settings for all cells; both stand beside what the paper printed for Gaia.";

const SHIPPING: &str = "\
`centralize` rents machines for training alone; `machines waiting` is what it costs when they are rented from the start, as all other \
models' are.";

const FITTED: &str = "\
A small model over scaled links stands for a large one over real links. For each application and WAN one number is fitted, before any \
other model runs: the scale of all bandwidths, LAN and WAN alike, at which BSP's clocks are as much slower than the LAN's as in the \
paper. The volume of the data is set so that shipping it over S/S takes the paper's share of training on the LAN; over the other WANs \
it is what follows.";
