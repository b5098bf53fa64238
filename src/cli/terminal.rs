//! What the user sees: results on standard output, everything else on standard error.

use std::io::{IsTerminal, Write, stderr, stdout};

use serde::Serialize;

use super::{Failure, LogFormat, VerbosityFlags};
use gaia_report::StandardError;
use gaia_telemetry::TOLD;

/// The two output streams, and how much is written to them.
///
/// A closed pipe is not an error: further output is discarded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    quiet: bool,
    json: bool,
    colour: bool,
    log: LogFormat,
}

impl Terminal {
    pub(crate) fn new(flags: &VerbosityFlags) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = stderr().is_terminal() && !plain;
        Self { quiet: flags.quiet, json: flags.json, colour, log: flags.log }
    }

    /// Whether standard error takes colours.
    pub(crate) fn colour(&self) -> bool {
        self.colour
    }

    /// A line of the result, unless it was asked for as JSON or not at all.
    pub(crate) fn line(&self, text: &str) {
        if !self.quiet && !self.json {
            let _closed_pipe = writeln!(stdout(), "{text}");
        }
    }

    /// The result as JSON, where that was asked for.
    pub(crate) fn result<T: Serialize>(&self, result: &T) {
        if self.json {
            let text = serde_json::to_string_pretty(result).expect("results have string keys");
            let _closed_pipe = writeln!(stdout(), "{text}");
        }
    }

    /// A line about how things go.
    pub(crate) fn note(&self, text: &str) {
        match self.log {
            LogFormat::Json => tracing::info!(target: TOLD, "{text}"),
            LogFormat::Text if self.quiet => {}
            LogFormat::Text => {
                let _closed_pipe = writeln!(StandardError, "{text}");
            }
        }
    }

    pub(super) fn fail(&self, failure: &Failure) {
        let text = failure.text(self.colour && self.log == LogFormat::Text);
        match self.log {
            LogFormat::Json => tracing::error!(target: TOLD, "{text}"),
            LogFormat::Text => {
                let _closed_pipe = writeln!(StandardError, "{text}");
            }
        }
    }
}
