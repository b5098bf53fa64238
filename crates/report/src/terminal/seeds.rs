//! How runs over several seeds end on the terminal.

use std::path::Path;

use console::Alignment;

use super::comparison::wan_heading;
use super::lines::{closing, line, short_seconds, target_lines};
use super::paint::Paint;
use crate::seeds::{SeedCell, SeededComparison, Spread, SpreadRow, seed_verdicts};
use crate::text::phrases::{range, seeds as seeds_said, trained_on};
use crate::text::{TextTable, WIDTH, fitted, numbers, wrapped};

/// The medians of all figures over the seeds, each with its lowest and its highest value.
///
/// Several models are shown as a comparison shows them, with two more lines each. One model alone is shown with a
/// line for each figure. Every line but the path of `page` is at most 80 columns wide.
pub fn seeds_block(seeds: &SeededComparison, page: Option<&Path>, paint: Paint) -> String {
    let mut block = String::new();
    let cells = seeds.cells();
    let Some(first) = cells.first().map(SeedCell::first) else { return block };

    let seeds_said = seeds_said(&seeds.seeds());
    if let [one] = cells.as_slice() {
        let (remote, wan) = (one.remote(), one.wan());
        let title = format!("{}: {remote} over {wan}, {}, {seeds_said}", first.name, first.driver);
        line(&mut block, &paint.bold(&fitted(&title, WIDTH)));
        wrapped(&trained_on(first), WIDTH).iter().for_each(|text| line(&mut block, text));
        line(&mut block, "");
        figures_of_one(&mut block, &SpreadRow::of(one), &first.metric.name, paint);
    } else {
        let title = format!("{}: {}, {seeds_said}", first.name, first.driver);
        line(&mut block, &paint.bold(&fitted(&title, WIDTH)));
        let target = seeds.targets().map_or_else(String::new, |target| {
            format!("objective {}: ", range(&target, numbers::NONE, numbers::target))
        });
        target_lines(&mut block, &format!("{target}{}", seeds.definition()), paint);
        for text in seeds.slowdown().iter().flat_map(|fitted| wrapped(&fitted.said(), WIDTH)) {
            line(&mut block, &text);
        }
        line(&mut block, "");
        figures_of_all(&mut block, seeds, paint);
    }
    line(&mut block, "");

    closing(&mut block, &seed_verdicts(seeds), page, paint);
    block
}

/// A line for each figure.
fn figures_of_one(block: &mut String, row: &SpreadRow, metric: &str, paint: Paint) {
    let right = Alignment::Right;
    let mut table = TextTable::new(&[
        ("", Alignment::Left),
        ("median", right),
        ("lowest", right),
        ("highest", right),
    ]);
    let longest = longest([&row.time_to_target_s]);
    let time = |value| numbers::seconds_among(value, longest);
    let mut figure = |label: &str, spread: &Spread, missing: &str, show: &dyn Fn(f64) -> String| {
        let cells = [spread.median, spread.low, spread.high];
        let cells = cells.map(|value| value.map_or_else(|| missing.into(), show));
        table.row([vec![format!("  {label}")], cells.to_vec()].concat());
    };
    let count = |value: f64| numbers::count(value.round() as u64);
    let bytes = |value: f64| numbers::bytes(value.round() as u64);
    figure("time to target", &row.time_to_target_s, "never", &time);
    figure("clocks to target", &row.clocks_to_target, "never", &count);
    figure("objective", &row.objective, "not finite", &numbers::objective);
    figure(&format!("{metric}, held out"), &row.metric, "not finite", &numbers::objective);
    figure("WAN traffic", &row.wan_bytes, numbers::NONE, &bytes);
    figure("cost", &row.cost_usd, numbers::NONE, &numbers::dollars);
    figure("blocked, worker-seconds", &row.blocked_s, numbers::NONE, &numbers::seconds);

    let (head, rows) = table.lines(WIDTH);
    line(block, &paint.dim(&head));
    rows.iter().for_each(|text| line(block, text));
}

/// Three lines for each model on each WAN.
fn figures_of_all(block: &mut String, seeds: &SeededComparison, paint: Paint) {
    let cells = seeds.cells();
    let rows: Vec<SpreadRow> = cells.iter().map(SpreadRow::of).collect();
    let longest = longest(rows.iter().map(|row| &row.time_to_target_s));

    let right = Alignment::Right;
    let mut table = TextTable::new(&[
        ("", Alignment::Left),
        ("to target", right),
        ("vs BSP", right),
        ("vs LAN", right),
        ("WAN sent", right),
        ("cost", right),
        ("blocked", right),
    ]);
    for row in &rows {
        let bounds: [(String, Bound); 3] = [
            (format!("  {}", row.remote_sync), |spread| spread.median),
            ("    lowest".into(), |spread| spread.low),
            ("    highest".into(), |spread| spread.high),
        ];
        for (label, bound) in bounds {
            let ratio = |spread: &Option<Spread>| {
                numbers::shown(spread.as_ref().and_then(bound), numbers::times)
            };
            let bytes = |value: f64| numbers::bytes(value.round() as u64);
            let time = |value| numbers::seconds_among(value, longest);
            table.row(vec![
                label,
                bound(&row.time_to_target_s).map_or_else(|| "never".into(), time),
                ratio(&row.speedup_vs_bsp),
                ratio(&row.times_lan),
                numbers::shown(bound(&row.wan_bytes), bytes),
                numbers::shown(bound(&row.cost_usd), numbers::dollars),
                numbers::shown(bound(&row.blocked_s), short_seconds),
            ]);
        }
    }

    let (head, lines) = table.lines(WIDTH);
    line(block, &paint.dim(&head));
    let mut wan = None;
    for (cell, lines) in cells.iter().zip(lines.chunks(3)) {
        if wan != Some(cell.wan()) {
            wan = Some(cell.wan());
            line(block, &paint.bold(&wan_heading(cell.first())));
        }
        for (at, text) in lines.iter().enumerate() {
            line(block, &if at == 0 { text.clone() } else { paint.dim(text) });
        }
    }
    line(block, "");
    line(block, &paint.dim("blocked: worker-seconds that reads were held back"));
}

/// One of the three values of a spread.
type Bound = fn(&Spread) -> Option<f64>;

/// The longest of some times, in seconds.
fn longest<'a>(times: impl IntoIterator<Item = &'a Spread>) -> f64 {
    let all = times.into_iter().flat_map(|spread| [spread.low, spread.median, spread.high]);
    all.flatten().fold(0.0, f64::max)
}
