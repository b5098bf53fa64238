//! How a comparison ends on the terminal.

use std::path::Path;

use console::Alignment;

use super::lines::{closing, line, short_seconds, target_lines};
use super::paint::Paint;
use crate::comparison::Comparison;
use crate::text::phrases::{bandwidth_scale, time_to_target_among};
use crate::text::{TextTable, WIDTH, fitted, numbers, wrapped};
use crate::verdicts::verdicts;
use gaia_telemetry::Summary;

/// One line for each remote model on each WAN, under the target that all runs trained for.
///
/// Every line but the path of `page` is at most 80 columns wide. Control characters in names are replaced.
pub fn comparison_block(comparison: &Comparison, page: Option<&Path>, paint: Paint) -> String {
    let mut block = String::new();
    let target = match comparison.target_objective {
        Some(target) => format!("objective {}: ", numbers::target(target)),
        None => String::new(),
    };

    target_lines(&mut block, &format!("{target}{}", comparison.definition()), paint);
    for text in comparison.slowdown.iter().flat_map(|fitted| wrapped(&fitted.said(), WIDTH)) {
        line(&mut block, &text);
    }
    line(&mut block, "");

    let (head, rows) = table(comparison).lines(WIDTH);
    line(&mut block, &paint.dim(&head));

    let mut wan = None;
    for (run, text) in comparison.runs.iter().zip(rows) {
        if wan != Some(&run.row.summary.wan) {
            wan = Some(&run.row.summary.wan);
            line(&mut block, &paint.bold(&wan_heading(&run.row.summary)));
        }
        line(&mut block, &text);
    }

    line(&mut block, "");

    let legend = "barrier, mirror clock, bandwidth: worker-seconds that reads were held back";
    line(&mut block, &paint.dim(legend));

    closing(&mut block, &verdicts(comparison), page, paint);
    block
}

/// A row for each run, in the order of the comparison.
fn table(comparison: &Comparison) -> TextTable {
    let right = Alignment::Right;
    let mut table = TextTable::new(&[
        ("", Alignment::Left),
        ("to target", right),
        ("vs BSP", right),
        ("vs LAN", right),
        ("WAN sent", right),
        ("cost", right),
        ("barrier", right),
        ("mirror", right),
        ("bandw.", right),
    ]);

    for run in &comparison.runs {
        let (row, summary) = (&run.row, &run.row.summary);
        table.row(vec![
            format!("  {}", summary.remote_sync),
            time_to_target_among(summary, comparison.longest_s()),
            numbers::shown(row.speedup_vs_bsp, numbers::times),
            numbers::shown(row.times_lan, numbers::times),
            numbers::bytes(summary.wan_bytes),
            numbers::dollars(row.cost_usd),
            short_seconds(summary.blocked_s.barrier),
            short_seconds(summary.blocked_s.mirror_clock),
            short_seconds(summary.blocked_s.bandwidth),
        ]);
    }

    table
}

/// The name of a WAN, with the factor applied to its bandwidths where there is one.
pub(super) fn wan_heading(summary: &Summary) -> String {
    let wan = fitted(&summary.wan, 48);
    match bandwidth_scale(summary) {
        scale if scale.is_empty() => wan,
        scale => format!("{wan}, {scale}"),
    }
}
