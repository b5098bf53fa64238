//! The view of several runs in progress at once.

use std::io::Write;
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::board::Board;
use super::screen::state;
use super::standard_error::redrawn;
use super::{LiveMode, is_due};
use crate::text::{fitted, plain};

/// Several runs at once: a line for each on a terminal, redrawn in place; anything else gets a line of a run now and
/// then.
#[derive(Clone, Debug)]
pub struct RunsView(Face);

#[derive(Clone, Debug)]
enum Face {
    Screen(MultiProgress),
    Lines,
    Quiet,
}

impl RunsView {
    /// A view without runs.
    pub fn new(mode: LiveMode) -> Self {
        Self(match mode {
            LiveMode::Screen => {
                let target = ProgressDrawTarget::stderr_with_hz(10);
                Face::Screen(MultiProgress::with_draw_target(target))
            }
            LiveMode::Lines => Face::Lines,
            LiveMode::Quiet => Face::Quiet,
        })
    }

    /// Writes a line above those of the runs. It is shown for people only.
    pub fn say(&self, text: &str) {
        match &self.0 {
            Face::Screen(lines) => {
                let _closed_pipe = lines.println(plain(text));
            }
            Face::Lines => write_line(text),
            Face::Quiet => {}
        }
    }

    /// The line of a run.
    pub(super) fn line(&self) -> RunLine {
        RunLine(match &self.0 {
            Face::Screen(lines) => {
                let style = ProgressStyle::with_template("{msg}");
                let style = style.expect("the template is constant");
                let bar = lines.add(ProgressBar::new_spinner().with_style(style));
                redrawn(&bar);
                LineFace::Screen(bar)
            }
            Face::Lines => LineFace::Lines { shown: Some(Instant::now()) },
            Face::Quiet => LineFace::Quiet,
        })
    }
}

/// The line of one of several runs.
pub(super) struct RunLine(LineFace);

enum LineFace {
    Screen(ProgressBar),
    Lines { shown: Option<Instant> },
    Quiet,
}

impl RunLine {
    pub(super) fn show(&mut self, board: &Board) {
        let text = || format!("{}  {}", board.plan.title, state(board));
        match &mut self.0 {
            LineFace::Screen(bar) => {
                let (_, columns) = Term::stderr().size();
                let columns = usize::from(columns).saturating_sub(1).max(40);
                bar.set_message(fitted(&text(), columns));
                bar.tick();
            }
            LineFace::Lines { shown } if is_due(*shown, LINE_EVERY) => {
                *shown = Some(Instant::now());
                write_line(&text());
            }
            LineFace::Lines { .. } | LineFace::Quiet => {}
        }
    }

    pub(super) fn clear(&mut self) {
        if let LineFace::Screen(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A line that cannot be written is dropped: a broken log must not end a run.
fn write_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", plain(text));
}

/// How often a run has a line where lines stay.
const LINE_EVERY: Duration = Duration::from_secs(10);
