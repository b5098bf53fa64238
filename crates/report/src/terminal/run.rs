//! How a run, or a comparison, ends on the terminal: blocks of at most 80 columns.

use std::path::Path;

use console::{Alignment, Style};

use crate::comparison::Comparison;
use crate::directory::HIGHLIGHTS;
use crate::text::{TextTable, WIDTH, fitted, numbers, plain};
use gaia_telemetry::{
    BlockedSeconds, ConservationRecord, GuardRecord, LinkRecord, MembershipChange,
    MembershipRecord, Summary,
};

/// Whether headings may be styled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Styled,
}

impl Paint {
    /// Styled where standard output is a terminal that wants colours; `NO_COLOR` says no.
    pub fn for_stdout() -> Self {
        if console::colors_enabled() { Self::Styled } else { Self::Plain }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.apply(Style::new().bold(), text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.apply(Style::new().dim(), text)
    }

    fn apply(self, style: Style, text: &str) -> String {
        style.force_styling(self == Self::Styled).apply_to(text).to_string()
    }
}

/// How a run went.
pub fn run_block(summary: &Summary, page: Option<&Path>, paint: Paint) -> String {
    let mut block = String::new();
    let title = format!(
        "{}: {} over {}, {}, seed {}",
        summary.name, summary.remote_sync, summary.wan, summary.driver, summary.seed
    );
    line(&mut block, &paint.bold(&fitted(&title, WIDTH)));
    line(&mut block, "");
    for (label, value) in figures(summary) {
        let value = fitted(&value, WIDTH - 18);
        line(&mut block, &format!("  {}{value}", paint.dim(&format!("{label:<16}"))));
    }
    if let Some(page) = page {
        let label = paint.dim(&format!("{:<16}", "report"));
        line(&mut block, &format!("  {label}{}", plain(&page.display().to_string())));
    }
    if !summary.links.is_empty() {
        line(&mut block, "");
        block.push_str(&link_table(&summary.links, paint));
    }
    block
}

/// The first lines of what an application says it has learnt; empty where it says nothing.
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

/// One line for each remote model on each WAN.
pub fn comparison_block(comparison: &Comparison, page: Option<&Path>, paint: Paint) -> String {
    let mut block = String::new();
    let target = match comparison.target_objective {
        Some(target) => format!("objective {}: ", numbers::target(target)),
        None => String::new(),
    };
    line(&mut block, &format!("{} {target}{}", paint.bold("Target"), comparison.definition()));
    line(&mut block, "");

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
            time_to_target(summary),
            numbers::shown(row.speedup_vs_bsp, numbers::times),
            numbers::shown(row.times_lan, numbers::times),
            numbers::bytes(summary.wan_bytes),
            numbers::dollars(row.cost_usd),
            short_seconds(summary.blocked_s.barrier),
            short_seconds(summary.blocked_s.mirror_clock),
            short_seconds(summary.blocked_s.bandwidth),
        ]);
    }
    let (head, rows) = table.lines(WIDTH);
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
    line(
        &mut block,
        &paint.dim("barrier, mirror clock, bandwidth: worker-seconds that reads were held back"),
    );
    if let Some(page) = page {
        line(
            &mut block,
            &format!("{} {}", paint.dim("report"), plain(&page.display().to_string())),
        );
    }
    block
}

/// How a run stopped, in a few words.
pub(crate) fn outcome(summary: &Summary) -> String {
    let clocks = numbers::counted(summary.clocks as usize, "clock");
    match (summary.stopped_by.as_str(), summary.converged) {
        ("objective", _) => "yes, the target objective was met".into(),
        ("converged", _) => "yes, the objective settled".into(),
        ("clocks", false) => format!("no, stopped after {clocks}"),
        ("seconds", false) => format!("no, stopped after {}", numbers::seconds(summary.time_s)),
        (_, true) => "yes".into(),
        ("diverged", _) => format!("no, diverged after {clocks}"),
        (_, false) => format!("no, stopped by {}", summary.stopped_by),
    }
}

/// The causes of held-back reads that a run has, largest first.
pub(crate) fn blocked_causes(blocked: BlockedSeconds) -> Vec<(&'static str, f64)> {
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

pub(crate) fn time_to_target(summary: &Summary) -> String {
    summary.time_to_target_s.map_or_else(|| "never".into(), numbers::seconds)
}

fn figures(summary: &Summary) -> Vec<(&'static str, String)> {
    let target = summary
        .target_objective
        .map_or_else(String::new, |target| format!(", target {}", numbers::target(target)));
    let metric = &summary.metric;
    let mut figures = vec![
        ("converged", outcome(summary)),
        ("time to target", join(time_to_target(summary), clocks_to_target(summary))),
        ("objective", format!("{}{target}", numbers::objective(summary.objective))),
        ("metric", format!("{} {}, held out", metric.name, numbers::objective(metric.value))),
        ("WAN traffic", join(numbers::bytes(summary.wan_bytes), bytes_to_target(summary))),
        ("WAN cost", numbers::dollars(summary.wan_cost_usd)),
        ("LAN traffic", numbers::bytes(summary.lan_bytes)),
        ("blocked", blocked(summary.blocked_s)),
    ];
    if summary.machine_cost_usd > 0.0 {
        figures.push(("machine cost", numbers::dollars(summary.machine_cost_usd)));
    }
    if !summary.links.is_empty() {
        let share = numbers::percent(summary.significant_fraction);
        let copies = if summary.copies_equal { "equal after the drain" } else { "not equal" };
        let lag = numbers::counted(summary.clock_lag_max as usize, "clock");
        figures.push(("shared", format!("{share} of parameter changes")));
        figures.push(("copies", format!("{copies}, never more than {lag} apart")));
    }
    if !summary.membership.is_empty() {
        figures.push(("membership", changed(&summary.membership)));
    }
    if let Some(record) = &summary.conservation {
        figures.push(("conservation", conserved(record)));
    }
    if let Some(guard) = &summary.guard {
        figures.push(("guard", guarded(guard)));
    }
    if summary.bandwidth_scale != 1.0 {
        let scale = numbers::significant(summary.bandwidth_scale, 3);
        figures.push(("bandwidth scale", format!("WAN bandwidths × {}", numbers::trim(&scale))));
    }
    let wall = numbers::seconds(summary.wall_s);
    figures.push(("took", format!("{wall} of this machine's time, gaia {}", summary.version)));
    figures
}

/// The clock that met the target, and where the run went on after it, the last one; empty where none did.
pub(crate) fn clocks_to_target(summary: &Summary) -> String {
    let Some(clock) = summary.clocks_to_target else { return String::new() };
    let last = if clock == summary.clocks {
        String::new()
    } else {
        format!(" of {}", numbers::count(summary.clocks))
    };
    format!("clock {}{last}", numbers::count(clock))
}

/// What had been sent when the target was met; empty where that is all or it was not met.
pub(crate) fn bytes_to_target(summary: &Summary) -> String {
    match summary.wan_bytes_to_target {
        Some(bytes) if bytes != summary.wan_bytes => {
            format!("{} to the target", numbers::bytes(bytes))
        }
        _ => String::new(),
    }
}

/// Who joined when, and who left, in a few words.
pub(crate) fn changed(membership: &[MembershipRecord]) -> String {
    let told = membership.iter().map(|record| {
        let what = match record.change {
            MembershipChange::Joined => "joined",
            MembershipChange::Left => "left",
        };
        let (who, when) = (plain(&record.data_center), numbers::seconds(record.time_s));
        format!("{who} {what} at {when}")
    });
    told.collect::<Vec<_>>().join(", ")
}

/// What both ends of all links say, in a few words.
pub(crate) fn conserved(record: &ConservationRecord) -> String {
    let frames = numbers::counted(record.frames as usize, "frame");
    let links = numbers::counted(record.links, "link");
    match record.broken.len() {
        0 => format!("{frames} over {links}, each applied once and in order"),
        broken => format!("{broken} of {links} broken, {frames} applied"),
    }
}

/// What a guard against skew found, in a few words.
pub(crate) fn guarded(guard: &GuardRecord) -> String {
    let probes = numbers::counted(guard.probes as usize, "probe");
    let alarms = numbers::counted(guard.alarms as usize, "alarm");
    let bytes = numbers::bytes(guard.bytes);
    format!("{probes} ({bytes}), {alarms}, tightness {} in the end", guard.tightness)
}

fn join(value: String, note: String) -> String {
    if note.is_empty() { value } else { format!("{value}, {note}") }
}

fn blocked(blocked: BlockedSeconds) -> String {
    let causes: Vec<String> = blocked_causes(blocked)
        .iter()
        .map(|(cause, seconds)| format!("{cause} {}", numbers::seconds(*seconds)))
        .collect();
    match causes.len() {
        0 => "no read was held back".into(),
        1 => format!("{} (worker-seconds)", causes[0]),
        _ => format!("{}: {}", numbers::seconds(blocked.total()), causes.join(", ")),
    }
}

/// The links that carried most.
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
            format!("{} → {}", link.from, link.to),
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

/// A length of time in at most six columns.
fn short_seconds(value: f64) -> String {
    match value {
        ..=0.0 => "0 s".into(),
        ..0.001 => "<1 ms".into(),
        ..0.9995 => format!("{:.0} ms", value * 1e3),
        ..1_000.0 => format!("{} s", numbers::trim(&numbers::significant(value, 3))),
        ..100_000.0 => format!("{} min", (value / 60.0).round()),
        _ => format!("{} h", (value / 3_600.0).round()),
    }
}

fn wan_heading(summary: &Summary) -> String {
    let wan = fitted(&summary.wan, 48);
    if summary.bandwidth_scale == 1.0 {
        wan
    } else {
        let scale = numbers::significant(summary.bandwidth_scale, 3);
        format!("{wan}, bandwidths × {}", numbers::trim(&scale))
    }
}

fn line(block: &mut String, text: &str) {
    block.push_str(text.trim_end());
    block.push('\n');
}

const LINKS_SHOWN: usize = 10;
const HIGHLIGHTS_SHOWN: usize = 10;
