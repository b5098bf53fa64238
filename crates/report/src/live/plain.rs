//! Progress as lines of text: a heading once, then one line an evaluation. They go to files and pipes, so that no name is
//! cut.

use std::io::Write;

use super::board::Board;
use crate::text::numbers;
use crate::text::{fitted, plain};

/// Writes lines to a log. A line that cannot be written is dropped: a broken log must not end a run.
pub(super) struct PlainLines<W> {
    into: W,
    headed: bool,
}

impl<W: Write> PlainLines<W> {
    pub(super) fn new(into: W) -> Self {
        Self { into, headed: false }
    }

    pub(super) fn show(&mut self, board: &Board) {
        let Some(evaluation) = &board.evaluation else { return };

        if !self.headed {
            self.headed = true;
            let metric = fitted(&board.plan.metric, 9);
            self.line(&board.plan.title);
            self.line(&row(
                ["time", "clock", "objective", &metric, "WAN sent"],
                "slowest and fastest",
            ));
        }

        let figures = [
            &numbers::seconds(evaluation.time_s),
            &numbers::count(evaluation.clock),
            &numbers::objective(evaluation.objective),
            &numbers::objective(evaluation.metric),
            &numbers::bytes(evaluation.wan_bytes),
        ];
        let line = row(figures.map(String::as_str), &spread(board));
        self.line(&line);
    }

    /// Writes an event that is not an evaluation.
    pub(super) fn say(&mut self, text: &str) {
        self.line(&format!("{:>10} {text}", ""));
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.into, "{}", plain(text));
    }
}

fn row(figures: [&str; 5], tail: &str) -> String {
    let [time, clock, objective, metric, sent] = figures;
    format!("{time:>10} {clock:>8} {objective:>10} {metric:>9} {sent:>8}  {tail}")
}

/// `tokyo 118, oregon 124`.
fn spread(board: &Board) -> String {
    let Some((slowest, fastest)) = board.slowest_and_fastest() else { return String::new() };
    let clock = |at: usize| numbers::count(board.data_centers[at].clock);
    let name = |at: usize| &board.plan.data_centers[at].name;
    if board.data_centers[slowest].clock == board.data_centers[fastest].clock {
        return "all even".into();
    }
    format!("{} {}, {} {}", name(slowest), clock(slowest), name(fastest), clock(fastest))
}

#[cfg(test)]
mod tests {
    use super::super::board::{DcPlan, LivePlan};
    use super::*;
    use gaia_telemetry::{DcProgress, Progress};

    fn progress(time_s: f64, clocks: &[u64], names: &[&str]) -> Progress {
        Progress {
            time_s,
            clock: clocks.iter().copied().min().unwrap(),
            objective: 0.709_812,
            objective_mean: 0.7,
            metric: 0.87,
            wan_bytes: 14_234_567,
            data_centers: names
                .iter()
                .zip(clocks)
                .map(|(name, clock)| DcProgress {
                    name: (*name).into(),
                    clock: *clock,
                    objective: 0.7,
                    metric: 0.87,
                    wan_sent_bytes: 7_000_000,
                    blocked_s: 1.0,
                    ..DcProgress::default()
                })
                .collect(),
        }
    }

    #[test]
    fn names_are_whole_and_send_no_commands() {
        let names =
            ["a data center with a very long name", "\u{1b}[31mred", "東京東京東京東京東京東京"];
        let data_centers =
            names.iter().map(|name| DcPlan { name: (*name).into(), workers: 2 }).collect();

        let mut board = Board::new(LivePlan {
            title: "quickstart: asp over three-regions".into(),
            target_objective: Some(0.71),
            metric: "rmse".into(),
            data_centers,
        });

        let mut lines = PlainLines::new(Vec::new());
        for (time_s, clocks) in
            [(0.0, [0, 0, 0]), (12.4, [9_118, 9_124, 9_120]), (7_300.0, [4, 9, 12_345_678])]
        {
            board.on_progress(&progress(time_s, &clocks, &names));
            lines.show(&board);
        }

        let text = String::from_utf8(lines.into).unwrap();
        insta::assert_snapshot!(text, @r#"
        quickstart: asp over three-regions
              time    clock  objective      rmse WAN sent  slowest and fastest
               0 s        0     0.7098    0.8700  14.2 MB  all even
            12.4 s    9,118     0.7098    0.8700  14.2 MB  a data center with a very long name 9,118, �[31mred 9,124
        2 h 01 min        4     0.7098    0.8700  14.2 MB  a data center with a very long name 4, 東京東京東京東京東京東京 12,345,678
        "#);

        for line in text.lines() {
            assert!(!line.chars().any(char::is_control));
        }
    }
}
