//! What an evaluation prints at its end.

use std::path::Path;

use console::Alignment;

use super::rates::{self, RateRow};
use super::records::{CellRow, PaperFile, SystemRow};
use super::systems;
use crate::terminal::Paint;
use crate::text::numbers::{self, shown};
use crate::text::{TextTable, WIDTH, plain, wrapped};

/// One line for each cell, each model at its best learning rate, each claim of another system with its figures, and how fast
/// the simulator was.
///
/// Every line but the path of `page` is at most 80 columns wide. Control characters in names are replaced.
pub fn paper_block(file: &PaperFile, page: Option<&Path>, paint: Paint) -> String {
    let mut lines = Vec::new();
    for (title, rows) in [("The paper's WANs", &file.cells), ("Elsewhere", &file.elsewhere)] {
        if rows.is_empty() {
            continue;
        }

        let (head, cells) = table(rows).lines(WIDTH);
        lines.push(paint.bold(title));
        lines.push(paint.dim(&head));
        lines.extend(cells);
        lines.push(String::new());
    }

    if !file.rates.is_empty() {
        let (head, models) = rates_table(&file.rates).lines(WIDTH);
        lines.push(paint.bold("Each remote model at its best learning rate"));
        lines.push(paint.dim(&head));
        lines.extend(models);
        lines.push(String::new());
    }

    if !file.systems.is_empty() {
        lines.push(paint.bold("Claims of other systems"));
        for row in &file.systems {
            lines.extend(claim(row, paint));
        }
        lines.push(systems::summary(&file.systems));
        lines.push(String::new());
    }

    if let Some(speed) = file.heaviest() {
        lines.push(format!("heaviest run     {}", plain(&speed.run)));
        lines.push(format!(
            "                 {} virtual seconds in {}; a second: {} of them, {} frames",
            numbers::count(speed.virtual_seconds.round() as u64),
            numbers::seconds(speed.wall_seconds),
            numbers::significant(speed.virtual_seconds / speed.wall_seconds, 3),
            numbers::count((speed.frames as f64 / speed.wall_seconds).round() as u64),
        ));
    }

    if let Some(page) = page {
        lines.push(format!("report           {}", plain(&page.display().to_string())));
    }

    lines.join("\n") + "\n"
}

/// A claim, its figures in a table, and the verdict.
fn claim(row: &SystemRow, paint: Paint) -> Vec<String> {
    let mut lines = wrapped(&format!("{}: {}", row.system, row.claim), WIDTH);
    let indented = |text: &str| -> Vec<String> {
        let lines = wrapped(text, WIDTH - INDENT.len()).into_iter();
        lines.map(|line| format!("{INDENT}{line}")).collect()
    };

    if !row.figures.is_empty() {
        lines.extend(indented(&row.check));
        let right = Alignment::Right;
        let mut table = TextTable::new(&[
            ("", Alignment::Left),
            ("printed", right),
            ("computed", right),
            ("measured", right),
        ]);
        for figure in &row.figures {
            table.row(vec![
                figure.what.clone(),
                systems::value(figure, figure.printed),
                systems::value(figure, figure.computed),
                systems::value(figure, Some(figure.measured)),
            ]);
        }
        let (head, rows) = table.lines(WIDTH - INDENT.len());
        lines.push(paint.dim(&format!("{INDENT}{head}")));
        lines.extend(rows.into_iter().map(|line| format!("{INDENT}{line}")));
    }

    lines.extend(indented(&format!("{}: {}", row.verdict.name(), row.reason)));
    lines
}

fn table(rows: &[CellRow]) -> TextTable {
    let mut table = TextTable::new(&[
        ("cell", Alignment::Left),
        ("time", Alignment::Right),
        ("vs BSP", Alignment::Right),
        ("paper", Alignment::Right),
        ("× LAN", Alignment::Right),
        ("WAN", Alignment::Right),
        ("cost", Alignment::Right),
    ]);
    for row in rows {
        table.row(vec![
            format!("{} {} {}", row.app, row.wan, row.model),
            shown(row.time_s, numbers::seconds),
            shown(row.speedup_vs_bsp, numbers::times),
            shown(row.paper_speedup, numbers::times),
            shown(row.times_lan, numbers::times),
            numbers::bytes(row.wan_bytes),
            numbers::dollars(row.usd),
        ]);
    }

    table
}

/// Each model with its best rate: medians.
fn rates_table(rows: &[RateRow]) -> TextTable {
    let mut table = TextTable::new(&[
        ("model", Alignment::Left),
        ("rate", Alignment::Right),
        ("clocks", Alignment::Right),
        ("time", Alignment::Right),
        ("sent", Alignment::Right),
        ("accuracy", Alignment::Right),
    ]);
    for row in rates::best(rows) {
        table.row(vec![
            format!("{} {}", row.app, row.model),
            numbers::significant(row.learning_rate, 3),
            shown(rates::median(row.clocks()), rates::count),
            shown(rates::median(row.time_s()), numbers::seconds),
            shown(rates::median(row.sent_bytes()), rates::bytes),
            shown(row.accuracy(), numbers::percent_tenths),
        ]);
    }

    table
}

const INDENT: &str = "  ";
