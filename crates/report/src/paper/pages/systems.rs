//! Claims of other systems, each with its figures and a verdict.

use super::section::Section;
use crate::page::{Cell, Table};
use crate::paper::records::{SystemRow, SystemVerdict};
use crate::paper::systems;

/// How many claims hold, then a section for each.
pub(super) fn sections(rows: &[SystemRow]) -> Vec<Section> {
    let heading = "Claims of other systems";
    if rows.is_empty() {
        return vec![Section::empty(heading, "No claim of another system was checked.")];
    }

    let all = Section::new(heading).say(systems::summary(rows));
    std::iter::once(all).chain(rows.iter().map(claim)).collect()
}

fn claim(row: &SystemRow) -> Section {
    let heading = format!("{}: {}", row.system, row.verdict.name());
    let section = Section::new(&*heading).say(&*row.claim);
    if row.figures.is_empty() {
        return section.say(&*row.reason);
    }

    let mut table = Table::new(heading, &["", "#printed", "#computed", "#measured"]);
    for figure in &row.figures {
        let measured = systems::value(figure, Some(figure.measured));
        table.row(vec![
            Cell::from(&*figure.what),
            systems::value(figure, figure.printed).into(),
            systems::value(figure, figure.computed).into(),
            Cell::new(measured).miss_if(row.verdict == SystemVerdict::Fails),
        ]);
    }
    section.say(&*row.check).say(&*row.reason).lay_out(table)
}
