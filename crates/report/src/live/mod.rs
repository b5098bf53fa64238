//! The view of a run in progress.
//!
//! A terminal gets one line for each data center, redrawn in place; anything else gets at most one plain line a
//! second, and a page that somebody serves gets every evaluation. The board holds the figures and does the arithmetic; it knows neither terminals nor the time of day.

#![allow(
    clippy::disallowed_types,
    reason = "how often the view is redrawn is measured in the machine's time"
)]
#![allow(clippy::disallowed_methods, reason = "a terminal describes itself in the environment")]

mod board;
mod page;
mod plain;
mod recorder;
mod runs;
mod screen;
mod standard_error;
mod waiting;

use std::io::{self, IsTerminal, Stderr};
use std::time::{Duration, Instant};

pub use board::{DcPlan, LivePlan};
pub use page::LivePage;
pub use recorder::Recorder;
pub use runs::RunsView;
pub use standard_error::StandardError;
pub use waiting::Waiting;

use board::Board;
use gaia_telemetry::{Observer, Progress};
use plain::PlainLines;
use runs::RunLine;
use screen::Screen;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveMode {
    /// Redrawn in place.
    Screen,
    /// Plain lines, for a log.
    Lines,
    /// Nothing is shown.
    Quiet,
}

/// Shows a run's progress on standard error. A redrawn part of the terminal is cleared when it is dropped.
pub struct Live {
    board: Board,
    face: Face,
    /// Where the run is shown besides.
    page: Option<LivePage>,
    /// When something was last shown.
    shown: Option<Instant>,
    /// Whether the last evaluation has not been shown.
    unshown: bool,
}

enum Face {
    Screen(Screen),
    Lines(PlainLines<Stderr>),
    /// One of several runs at once.
    Among(RunLine),
    Quiet,
}

impl LiveMode {
    /// [`LiveMode::Screen`] where standard error is a terminal that can be redrawn, else [`LiveMode::Lines`];
    /// [`LiveMode::Quiet`] where that is asked for.
    pub fn detect(quiet: bool) -> Self {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        match (quiet, io::stderr().is_terminal() && !dumb) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Screen,
            (false, false) => Self::Lines,
        }
    }
}

impl Live {
    /// A view in the given mode. Nothing is shown before the first evaluation.
    pub fn new(mode: LiveMode, plan: LivePlan) -> Self {
        let face = match mode {
            LiveMode::Screen => Face::Screen(Screen::new()),
            LiveMode::Lines => Face::Lines(PlainLines::new(io::stderr())),
            LiveMode::Quiet => Face::Quiet,
        };
        Self { board: Board::new(plan), face, page: None, shown: None, unshown: false }
    }

    /// The same view, which also shows the run on a page.
    #[must_use]
    pub fn on_page(mut self, page: Option<LivePage>) -> Self {
        self.page = page;
        self
    }

    /// The name of the held-out metric.
    pub(super) fn metric(&self) -> &str {
        &self.board.plan.metric
    }

    /// One of several runs that are shown at once.
    pub fn among(runs: &RunsView, plan: LivePlan) -> Self {
        let face = Face::Among(runs.line());
        Self { board: Board::new(plan), face, page: None, shown: None, unshown: false }
    }

    /// Ends the view: shows the last evaluation where it has not been shown as a line, or clears the screen.
    pub fn finish(&mut self) {
        match &mut self.face {
            Face::Screen(screen) => screen.clear(),
            Face::Among(line) => line.clear(),
            Face::Lines(lines) if self.unshown => lines.show(&self.board),
            Face::Lines(_) | Face::Quiet => {}
        }
        self.unshown = false;
    }
}

impl Observer for Live {
    fn on_progress(&mut self, progress: &Progress) {
        self.board.on_progress(progress);
        if let Some(page) = &self.page {
            page.on_progress(progress);
        }
        self.unshown = true;
        let due = is_due(self.shown, LINE_EVERY);
        match &mut self.face {
            Face::Screen(screen) => screen.show(&self.board),
            Face::Among(line) => line.show(&self.board),
            Face::Lines(lines) if due => lines.show(&self.board),
            Face::Lines(_) | Face::Quiet => return,
        }
        self.shown = Some(Instant::now());
        self.unshown = false;
    }

    fn on_tick(&mut self, time_s: f64, clocks: &[Option<u64>], wan_sent_bytes: &[u64]) {
        if !is_due(self.shown, REDRAW_EVERY) {
            return;
        }
        match &mut self.face {
            Face::Screen(screen) => {
                self.board.on_tick(time_s, clocks, wan_sent_bytes);
                screen.show(&self.board);
            }
            Face::Among(line) => {
                self.board.on_tick(time_s, clocks, wan_sent_bytes);
                line.show(&self.board);
            }
            Face::Lines(_) | Face::Quiet => return,
        }
        self.shown = Some(Instant::now());
    }

    fn on_taken_over(&mut self, lost: &str, by: &str) {
        self.board.on_taken_over(lost, by);
        if let Face::Lines(lines) = &mut self.face {
            lines.say(&format!("{by} takes over the work of {lost}"));
        }
    }

    fn on_given_back(&mut self, lost: &str, by: &str) {
        self.board.on_given_back(lost);
        if let Face::Lines(lines) = &mut self.face {
            lines.say(&format!("{by} gives back the work of {lost}"));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        match &mut self.face {
            Face::Screen(screen) => screen.clear(),
            Face::Among(line) => line.clear(),
            Face::Lines(_) | Face::Quiet => {}
        }
    }
}

fn is_due(shown: Option<Instant>, every: Duration) -> bool {
    shown.is_none_or(|shown| shown.elapsed() >= every)
}

const LINE_EVERY: Duration = Duration::from_secs(1);
const REDRAW_EVERY: Duration = Duration::from_millis(100);
