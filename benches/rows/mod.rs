//! The rows that a benchmark prints: a figure beside a limit of the machine or a peer, both measured in this run.
//!
//! With `--json` each row is a line of JSON; else a line of a table. `scripts/bench` runs all that print rows, and
//! `benches/page.py` puts them into a page.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// A printer of rows.
pub(crate) struct Rows {
    is_json: bool,
    is_quick: bool,
    is_first: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    /// The benchmark that prints the row.
    bench: &'a str,
    name: &'a str,
    /// The median of `runs` values, and their range.
    value: f64,
    range: [f64; 2],
    unit: &'a str,
    /// What the value is compared with.
    reference: &'a str,
    reference_value: Option<f64>,
    /// How many times as good as the reference the value is: 1 is as good.
    ratio: Option<f64>,
    /// The range of the ratios of pairs.
    ratio_range: Option<[f64; 2]>,
    runs: usize,
}

impl Rows {
    /// A printer as the arguments of the benchmark ask: `--json`, `--quick`.
    pub(crate) fn new() -> Self {
        let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
        Self { is_json: asked("--json"), is_quick: asked("--quick"), is_first: true }
    }

    /// How many runs a row is the median of.
    pub(crate) const fn runs(&self) -> usize {
        if self.is_quick { 5 } else { 9 }
    }

    /// Prints a row from the values of all runs, of which less is better, and those of what it is compared with, in pairs
    /// that were measured one after the other. Without references, `reference` says why there are none.
    pub(crate) fn print(
        &mut self,
        name: &str,
        unit: &str,
        values: &[f64],
        (reference, references): (&str, &[f64]),
    ) {
        let ratios: Vec<f64> =
            values.iter().zip(references).map(|(value, reference)| reference / value).collect();
        let row = Row {
            bench: env!("CARGO_CRATE_NAME"),
            name,
            value: median(values).expect("a row has values"),
            range: range(values).expect("a row has values"),
            unit,
            reference,
            reference_value: median(references),
            ratio: median(&ratios),
            ratio_range: range(&ratios),
            runs: values.len(),
        };
        if self.is_json {
            println!("{}", serde_json::to_string(&row).expect("rows are JSON"));
            return;
        }
        if std::mem::take(&mut self.is_first) {
            println!("{:<44} {:>10} {:>18} {:<8} {:>6}  of", "", "median", "range", "", "ratio");
        }
        let range = format!("{} – {}", digits(row.range[0]), digits(row.range[1]));
        let ratio = row.ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"));
        let against = row.reference_value.map_or_else(
            || reference.into(),
            |value| format!("{reference}, {} {unit}", digits(value)),
        );
        println!(
            "{name:<44} {:>10} {range:>18} {unit:<8} {ratio:>6}  {against}",
            digits(row.value)
        );
    }
}

/// Three digits of a number that is neither very small nor very large.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0..1.0 => format!("{value:.3}"),
        1.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The median of some values; `None` of none.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// The least and the greatest of some values; `None` of none.
fn range(values: &[f64]) -> Option<[f64; 2]> {
    let extreme = |choose: fn(f64, f64) -> f64| values.iter().copied().reduce(choose);
    Some([extreme(f64::min)?, extreme(f64::max)?])
}

/// Seconds of processor time that this thread works on something.
pub(crate) fn seconds(work: impl FnOnce()) -> f64 {
    let start = seconds_of(ClockId::ThreadCPUTime);
    work();
    seconds_of(ClockId::ThreadCPUTime) - start
}

/// What a clock of the system shows, in seconds.
pub(crate) fn seconds_of(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}
