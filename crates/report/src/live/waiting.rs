//! What a program waits for before a run begins.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::LiveMode;
use super::standard_error::redrawn;

/// A line on a terminal that says what is waited for, and for how long. It is cleared when it is dropped.
pub struct Waiting(Option<ProgressBar>);

impl Waiting {
    /// The line that this is waited for, on a terminal that can be redrawn.
    pub fn new(mode: LiveMode, what: &'static str) -> Self {
        let bar = (mode == LiveMode::Screen).then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
            let style = style.expect("the template is constant");
            let target = ProgressDrawTarget::stderr_with_hz(4);
            let bar = ProgressBar::with_draw_target(None, target).with_style(style);
            bar.set_message(what);
            bar.enable_steady_tick(REDRAW_EVERY);
            redrawn(&bar);
            bar
        });
        Self(bar)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

const REDRAW_EVERY: Duration = Duration::from_millis(250);
