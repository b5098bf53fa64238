//! Progress on a terminal: a headline, a heading, and a line for each data center that fits the screen.

use std::time::Duration;

use console::{Alignment, Style, Term, pad_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::board::{Board, DcBoard};
use super::standard_error::redrawn;
use crate::text::numbers;
use crate::text::{fitted, plain};

/// A part of the terminal that is redrawn in place, at most ten times a second.
pub(super) struct Screen {
    text: ProgressBar,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self::on(ProgressDrawTarget::stderr_with_hz(10))
    }

    fn on(terminal: ProgressDrawTarget) -> Self {
        let style = ProgressStyle::with_template("{msg}").expect("the template is constant");
        let text = ProgressBar::with_draw_target(None, terminal).with_style(style);
        text.enable_steady_tick(REDRAW_EVERY);
        redrawn(&text);
        Self { text }
    }

    pub(super) fn show(&self, board: &Board) {
        let (rows, columns) = Term::stderr().size();
        self.text.set_message(lines(board, usize::from(rows), usize::from(columns)).join("\n"));
    }

    pub(super) fn clear(&self) {
        self.text.finish_and_clear();
    }
}

/// The lines for a terminal of so many rows and columns. One row and one column stay free.
fn lines(board: &Board, rows: usize, columns: usize) -> Vec<String> {
    let columns = columns.saturating_sub(1).max(40);
    let (bold, dim) = (Style::new().for_stderr().bold(), Style::new().for_stderr().dim());
    let title = bold.apply_to(fitted(&board.plan.title, columns)).to_string();
    let mut lines = vec![title, fitted(&state(board), columns)];

    let longest = board.plan.data_centers.iter();
    let longest = longest.map(|dc| console::measure_text_width(&plain(&dc.name))).max();
    let width = longest.unwrap_or(0).clamp(11, columns.saturating_sub(FIGURES).max(11));
    let head = row("data center", width, ["clock", "objective", "WAN out", "blocked"]);
    lines.push(dim.apply_to(fitted(&head, columns)).to_string());

    let taken_over = board.taken_over.iter().map(|(lost, by)| format!("{lost} by {by}"));
    let taken_over = taken_over.collect::<Vec<_>>().join(", ");
    // A terminal with few rows shows data centers first.
    let shows_foot = !taken_over.is_empty() && rows > lines.len() + 3;
    let foot = shows_foot.then(|| format!("  taken over: {taken_over}"));

    let room = rows.saturating_sub(lines.len() + 1 + usize::from(foot.is_some())).max(1);
    let all = board.data_centers.len();
    let shown = if all <= room { all } else { room.saturating_sub(1).max(1) };

    let named = board.plan.data_centers.iter().zip(&board.data_centers);
    for (plan, dc) in named.take(shown) {
        lines.push(fitted(&row(&plain(&plan.name), width, figures(dc)), columns));
    }

    if shown < all {
        let more = numbers::counted(all - shown, "more data center");
        lines.push(dim.apply_to(fitted(&format!("  {more}"), columns)).to_string());
    }

    lines.extend(foot.map(|foot| fitted(&foot, columns)));
    lines
}

/// `12.4 s · objective 0.7312, target 0.71 · WAN 14.2 MB`
pub(super) fn state(board: &Board) -> String {
    let mut parts = vec![numbers::seconds(board.time_s)];
    if let Some(evaluation) = &board.evaluation {
        let objective = numbers::objective(evaluation.objective);
        parts.push(match board.plan.target_objective {
            Some(target) => format!("objective {objective}, target {}", numbers::target(target)),
            None => format!("objective {objective}"),
        });
    }
    parts.push(format!("WAN {}", numbers::bytes(board.wan_bytes)));
    parts.join(" · ")
}

fn figures(dc: &DcBoard) -> [String; 4] {
    [
        if dc.absent { "away".into() } else { numbers::count(dc.clock) },
        numbers::shown(dc.objective, numbers::objective),
        numbers::shown(dc.wan_rate, numbers::megabits),
        numbers::shown(dc.blocked_share, numbers::percent),
    ]
}

fn row<T: AsRef<str>>(name: &str, width: usize, figures: [T; 4]) -> String {
    let mut line = format!("  {}", pad_str(name, width, Alignment::Left, Some("…")));
    for (figure, width) in figures.iter().zip([9, 12, 14, 9]) {
        line.push_str(&pad_str(figure.as_ref(), width, Alignment::Right, None));
    }
    line
}

/// Columns of a line that are not the name.
const FIGURES: usize = 46;
const REDRAW_EVERY: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use console::measure_text_width;
    use indicatif::TermLike;

    use super::super::StandardError;
    use super::super::board::{DcPlan, LivePlan};
    use super::*;
    use gaia_telemetry::{DcProgress, Progress};

    /// A board of a run at 12.4 s, with evaluations at 11.4 s and at 12.4 s.
    fn board(names: &[&str]) -> Board {
        let plan = |name: &&str| DcPlan { name: (*name).into(), workers: 2 };
        let mut board = Board::new(LivePlan {
            title: "movielens: asp over gaia-2016-ec2-all".into(),
            target_objective: Some(0.71),
            metric: "rmse".into(),
            data_centers: names.iter().map(plan).collect(),
        });

        for round in 0..2_u32 {
            let data_centers = names.iter().zip(0_u32..).map(|(name, at)| DcProgress {
                name: (*name).into(),
                clock: u64::from(100 + 9 * round + at % 3),
                objective: 0.74 - 0.01 * f64::from(round),
                metric: 0.9,
                wan_sent_bytes: u64::from(1_000_000 + 150_000 * round * (at + 1)),
                blocked_s: 3.0 + 0.08 * f64::from(round * at),
                ..DcProgress::default()
            });

            let data_centers: Vec<DcProgress> = data_centers.collect();
            board.on_progress(&Progress {
                time_s: 11.4 + f64::from(round),
                clock: 109,
                objective: 0.7312,
                objective_mean: 0.73,
                metric: 0.9,
                wan_bytes: 14_234_567,
                data_centers,
            });
        }

        board
    }

    fn check(board: &Board, rows: usize, columns: usize) -> String {
        let lines = lines(board, rows, columns);
        assert!(lines.len() < rows.max(6));
        for line in &lines {
            assert!(measure_text_width(line) < columns.max(41), "{line}");
        }
        lines.join("\n")
    }

    #[test]
    fn each_data_center_has_a_line() {
        let text = check(&board(&["virginia", "ireland", "tokyo"]), 24, 80);
        insta::assert_snapshot!(text, @r#"
        movielens: asp over gaia-2016-ec2-all
        12.4 s · objective 0.7312, target 0.71 · WAN 14.2 MB
          data center    clock   objective       WAN out  blocked
          virginia         109      0.7300   1.20 Mbit/s      0 %
          ireland          110      0.7300   2.40 Mbit/s    4.0 %
          tokyo            111      0.7300   3.60 Mbit/s    8.0 %
        "#);
    }

    #[test]
    fn a_low_terminal_shows_as_many_as_fit() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        insta::assert_snapshot!(check(&board(&names), 8, 80), @r#"
        movielens: asp over gaia-2016-ec2-all
        12.4 s · objective 0.7312, target 0.71 · WAN 14.2 MB
          data center    clock   objective       WAN out  blocked
          a                109      0.7300   1.20 Mbit/s      0 %
          b                110      0.7300   2.40 Mbit/s    4.0 %
          c                111      0.7300   3.60 Mbit/s    8.0 %
          8 more data centers
        "#);
        check(&board(&names), 1, 1);
    }

    #[test]
    fn taken_over_work_is_shown_below_until_the_lost_worker_is_back() {
        let mut board = board(&["virginia", "ireland"]);
        board.on_taken_over("ireland/worker-1", "ireland/worker-0");
        insta::assert_snapshot!(check(&board, 24, 80), @r#"
        movielens: asp over gaia-2016-ec2-all
        12.4 s · objective 0.7312, target 0.71 · WAN 14.2 MB
          data center    clock   objective       WAN out  blocked
          virginia         109      0.7300   1.20 Mbit/s      0 %
          ireland          110      0.7300   2.40 Mbit/s    4.0 %
          taken over: ireland/worker-1 by ireland/worker-0
        "#);
        for rows in [1, 6, 7] {
            check(&board, rows, 40);
        }
        board.on_given_back("ireland/worker-1");
        assert!(!check(&board, 24, 80).contains("taken over"));
    }

    /// A terminal of 80 columns in memory.
    #[derive(Clone, Debug, Default)]
    struct Page(Arc<Mutex<Cells>>);

    /// What it shows, and where its cursor is.
    #[derive(Debug, Default)]
    struct Cells {
        lines: Vec<Vec<char>>,
        row: usize,
        column: usize,
    }

    impl Page {
        fn text(&self) -> String {
            let page = self.0.lock().unwrap();
            let lines = page.lines.iter().map(|line| line.iter().collect::<String>());
            lines.map(|line| line.trim_end().to_owned() + "\n").collect()
        }

        /// Moves the cursor to the row and column that a function makes of those where it is.
        fn go(&self, place: impl FnOnce(usize, usize) -> (usize, usize)) -> io::Result<()> {
            let Cells { row, column, .. } = &mut *self.0.lock().unwrap();
            (*row, *column) = place(*row, *column);
            Ok(())
        }
    }

    impl TermLike for Page {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, rows: usize) -> io::Result<()> {
            self.go(|row, column| (row.saturating_sub(rows), column))
        }

        fn move_cursor_down(&self, rows: usize) -> io::Result<()> {
            self.go(|row, column| (row + rows, column))
        }

        fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
            self.go(|row, column| (row, column + columns))
        }

        fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
            self.go(|row, column| (row, column.saturating_sub(columns)))
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)?;
            self.go(|row, _| (row + 1, 0))
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            let Cells { lines, row, column } = &mut *self.0.lock().unwrap();
            for c in console::strip_ansi_codes(text).chars() {
                // The cursor leaves a full line when the next character is written.
                if *column == 80 {
                    (*row, *column) = (*row + 1, 0);
                }
                if c == '\r' {
                    *column = 0;
                    continue;
                }
                let (rows, columns) = (lines.len().max(*row + 1), *column + 1);
                lines.resize(rows, Vec::new());
                let line = &mut lines[*row];
                line.resize(line.len().max(columns), ' ');
                line[*column] = c;
                *column += 1;
            }
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            let Cells { lines, row, column } = &mut *self.0.lock().unwrap();
            if let Some(line) = lines.get_mut(*row) {
                line.clear();
            }
            *column = 0;
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_of_the_log_stays_above_what_is_redrawn() {
        let page = Page::default();
        let screen = Screen::on(ProgressDrawTarget::term_like(Box::new(page.clone())));
        let mut board = board(&["virginia", "ireland"]);
        screen.show(&board);
        let lost = "tokyo";
        writeln!(StandardError, "{lost} is lost").unwrap();
        writeln!(StandardError, "two lines\nof a note").unwrap();
        board.on_taken_over("ireland/worker-1", "ireland/worker-0");
        screen.show(&board);
        screen.text.tick();

        let text = page.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["tokyo is lost", "two lines", "of a note"], "{text}");
        assert_eq!(lines[3], "movielens: asp over gaia-2016-ec2-all", "{text}");
        assert_eq!(text.matches("movielens: asp").count(), 1, "{text}");
        screen.clear();
        assert!(!page.text().contains("movielens"), "{}", page.text());
    }
}
