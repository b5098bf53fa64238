//! How a run ends on the terminal.

use std::path::PathBuf;

use console::Alignment;

use super::lines::{line, short_seconds};
use super::paint::Paint;
use crate::directory::HIGHLIGHTS;
use crate::text::phrases::{self, bytes_to_target, clocks_to_target, outcome, time_to_target};
use crate::text::{TextTable, WIDTH, fitted, numbers, plain, wrapped};
use gaia_telemetry::{BlockedSeconds, BreakdownRecord, LinkRecord, Summary};

/// The figures of a finished run, and its busiest links.
///
/// `files` are paths that people look for after a run, each with its label. Every line but these is at most 80 columns
/// wide. Control characters in names are replaced.
pub fn run_block(summary: &Summary, files: &[(&str, PathBuf)], paint: Paint) -> String {
    let mut block = String::new();
    let title = format!(
        "{}: {} over {}, {}, seed {}",
        summary.name, summary.remote_sync, summary.wan, summary.driver, summary.seed
    );
    line(&mut block, &paint.bold(&fitted(&title, WIDTH)));
    for text in wrapped(&summary.trained_on, WIDTH) {
        line(&mut block, &text);
    }
    if let Some(reason) = &summary.remote_sync_reason {
        let chosen = format!("{} was chosen by model = \"auto\". {reason}", summary.remote_sync);
        for text in wrapped(&chosen, WIDTH) {
            line(&mut block, &text);
        }
    }
    line(&mut block, "");

    for (label, value) in figures(summary) {
        let mut label = label;
        for text in wrapped(&value, WIDTH - 18) {
            line(&mut block, &format!("  {}{text}", paint.dim(&format!("{label:<16}"))));
            label = "";
        }
    }

    for (label, path) in files {
        let label = paint.dim(&format!("{label:<16}"));
        line(&mut block, &format!("  {label}{}", plain(&path.display().to_string())));
    }

    if !summary.links.is_empty() {
        line(&mut block, "");
        block.push_str(&link_table(&summary.links, paint));
    }

    block
}

/// The first ten of the lines in which an application describes what it has learnt.
///
/// Empty where there are none. Every line is at most 80 columns wide.
pub fn highlights_block(lines: &[String], paint: Paint) -> String {
    let mut block = String::new();
    for text in lines.iter().take(HIGHLIGHTS_SHOWN) {
        line(&mut block, &format!("  {}", fitted(text, WIDTH - 2)));
    }
    if let Some(more) = lines.len().checked_sub(HIGHLIGHTS_SHOWN).filter(|more| *more > 0) {
        let more = format!("{} in {HIGHLIGHTS}", numbers::counted(more, "more line"));
        line(&mut block, &format!("  {}", paint.dim(&more)));
    }
    if block.is_empty() { block } else { format!("\n{block}") }
}

/// Every figure with its label; a figure that does not apply to the run is left out.
fn figures(summary: &Summary) -> Vec<(&'static str, String)> {
    let target = summary
        .target_objective
        .map_or_else(String::new, |target| format!(", target {}", numbers::target(target)));
    let metric = &summary.metric;
    let mut figures = vec![
        ("converged", outcome(summary)),
        ("time to target", join(time_to_target(summary), clocks_to_target(summary))),
        ("objective", format!("{}{target}", numbers::objective(summary.objective))),
        (
            "metric",
            join(
                format!("{} {}, held out", metric.name, numbers::objective(metric.value)),
                phrases::metrics_at_home(summary),
            ),
        ),
    ];

    if let Some(BreakdownRecord::Classes { names, counts, log_loss, auc }) = &summary.breakdown {
        figures.push(("log loss", phrases::log_loss_and_auc(*log_loss, *auc)));
        figures.extend(phrases::only_class(names, counts).map(|one| ("", one)));
    }

    if let Some(trivial) = &summary.trivial {
        figures.push(("to beat", phrases::trivial(trivial, &metric.name)));
    }

    figures.extend(phrases::worse_than_untrained(summary).map(|was| ("untrained", was)));

    figures.extend([
        ("WAN traffic", join(numbers::bytes(summary.wan_bytes), bytes_to_target(summary))),
        ("WAN cost", numbers::dollars(summary.wan_cost_usd)),
        ("LAN traffic", numbers::bytes(summary.lan_bytes)),
        ("blocked", blocked(summary.blocked_s)),
    ]);

    if summary.machine_cost_usd > 0.0 {
        figures.push(("machine cost", numbers::dollars(summary.machine_cost_usd)));
    }

    if let Some(homes) = phrases::at_home(summary) {
        figures.push(("at home", homes));
    }

    if !summary.links.is_empty() {
        figures.extend(copies(summary));
    }

    if !summary.membership.is_empty() {
        figures.push(("membership", phrases::membership(&summary.membership)));
    }

    if let Some(record) = &summary.conservation {
        figures.push(("conservation", phrases::conservation(record)));
    }

    if let Some(parted) = &summary.parted {
        figures.push(("skew", phrases::parted(parted)));
    }

    if !summary.outliers.is_empty() {
        figures.push(("outliers", phrases::outliers(&summary.outliers)));
    }

    if let Some(guard) = &summary.guard {
        figures.push(("guard", phrases::guard(guard)));
    }

    if summary.bandwidth_scale != 1.0 {
        figures.push(("bandwidth scale", phrases::wan_bandwidth_scale(summary)));
    }

    let wall = numbers::seconds(summary.wall_s);
    figures.push(("took", format!("{wall} of this machine's time, gaia {}", summary.version)));

    figures
}

/// How much of what changed was shared, and how far the copies were apart.
fn copies(summary: &Summary) -> [(&'static str, String); 2] {
    let share = numbers::percent(summary.significant_fraction);
    let copies = if summary.copies_equal { "equal after the drain" } else { "not equal" };
    let lag = numbers::counted(summary.clock_lag_max as usize, "clock");
    [
        ("shared", format!("{share} of parameter changes")),
        ("copies", format!("{copies}, never more than {lag} apart")),
    ]
}

fn join(value: String, note: String) -> String {
    if note.is_empty() { value } else { format!("{value}, {note}") }
}

/// The time that reads were held back, with its causes.
fn blocked(blocked: BlockedSeconds) -> String {
    let causes: Vec<String> = blocked_causes(blocked)
        .iter()
        .map(|(cause, seconds)| format!("{cause} {}", numbers::seconds(*seconds)))
        .collect();
    match causes.len() {
        0 => "no read was held back".into(),
        1 => format!("{} (worker-seconds)", causes[0]),
        _ => {
            let total = numbers::seconds(blocked.total());
            format!("{total} (worker-seconds): {}", causes.join(", "))
        }
    }
}

/// The causes that held reads back, the largest first.
fn blocked_causes(blocked: BlockedSeconds) -> Vec<(&'static str, f64)> {
    let mut causes = vec![
        ("barrier", blocked.barrier),
        ("mirror clock", blocked.mirror_clock),
        ("bandwidth", blocked.bandwidth),
        ("local", blocked.local),
        ("partial partition", blocked.partial_partition),
    ];
    causes.retain(|(_, seconds)| *seconds > 0.0);
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    causes
}

/// The links that carried the most bytes.
fn link_table(links: &[LinkRecord], paint: Paint) -> String {
    let right = Alignment::Right;
    let mut table = TextTable::new(&[
        ("link", Alignment::Left),
        ("sent", right),
        ("updates", right),
        ("held back", right),
        ("busy", right),
        ("blocked", right),
        ("cost", right),
    ]);

    let mut links: Vec<&LinkRecord> = links.iter().collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.bytes));

    for link in links.iter().take(LINKS_SHOWN) {
        table.row(vec![
            link_name(&link.from, &link.to),
            numbers::bytes(link.bytes),
            numbers::count(link.updates),
            numbers::percent(link.held_back_fraction),
            numbers::percent(link.utilisation),
            short_seconds(link.blocked_s.total()),
            numbers::dollars(link.cost_usd),
        ]);
    }

    let (head, rows) = table.lines(WIDTH - 2);
    let mut block = String::new();
    line(&mut block, &format!("  {}", paint.dim(&head)));

    for row in rows {
        line(&mut block, &format!("  {row}"));
    }

    if let Some(more) = links.len().checked_sub(LINKS_SHOWN).filter(|more| *more > 0) {
        let more = numbers::counted(more, "more link");
        line(&mut block, &format!("  {}", paint.dim(&format!("{more} in the report"))));
    }

    block
}

/// Where a link leads. Names that have no room together give way in the middle, so that both show how they end.
fn link_name(from: &str, to: &str) -> String {
    let length = |name: &str| name.chars().count();
    let has_room = length(from) + length(to) <= LINK_NAMES;
    let shown = |name: &str| {
        if has_room || length(name) <= 2 * NAME_END {
            return name.to_owned();
        }
        let characters: Vec<char> = name.chars().collect();
        let (first, last) =
            (&characters[..NAME_END - 1], &characters[characters.len() - NAME_END..]);
        first.iter().chain(['…'].iter()).chain(last).collect()
    };
    format!("{} → {}", shown(from), shown(to))
}

/// Characters of both names of a link for which there is room beside figures of usual lengths.
const LINK_NAMES: usize = 32;
/// Characters at the end of a name that is cut.
const NAME_END: usize = 7;
const LINKS_SHOWN: usize = 10;
const HIGHLIGHTS_SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_a_link_are_cut_in_the_middle_and_its_direction_shows() {
        assert_eq!(
            link_name("ap-northeast-1", "ap-southeast-2"),
            "ap-northeast-1 → ap-southeast-2"
        );
        let long = "company-production-eu-central-1";
        let other = "company-production-eu-west-2";
        assert_eq!(link_name(long, other), "compan…ntral-1 → compan…-west-2");
        assert_eq!(link_name("tokyo", long), "tokyo → compan…ntral-1");
    }

    #[test]
    fn reads_that_were_held_back_have_a_unit_whatever_the_number_of_causes() {
        let one = BlockedSeconds { local: 2.0, ..BlockedSeconds::default() };
        assert_eq!(blocked(one), "local 2.00 s (worker-seconds)");
        let two = BlockedSeconds { barrier: 1.0, ..one };
        assert_eq!(blocked(two), "3.00 s (worker-seconds): local 2.00 s, barrier 1.00 s");
    }
}
