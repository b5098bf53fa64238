//! A server's side of the talk with one worker: whose turn it is, and the last answer.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::node::{RowsRead, WorkerMessage};
use crate::types::Clock;

/// One thing that a worker says. In order: a read at clock 0, the update of clock 0, a read at clock 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Turn {
    pub clock: Clock,
    /// Whether it is the update; the read comes before.
    pub updates: bool,
}

/// How what a worker said lies to what was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Now,
    /// It has been heard before.
    Repeated,
    /// Something before it has not been heard.
    Ahead,
}

/// What a server keeps of one worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Desk {
    /// What is to come next.
    pub(super) next: Turn,
    /// What was answered to the last read, until its update has come.
    pub(super) answer: Option<Arc<RowsRead>>,
}

impl Turn {
    pub fn of(message: &WorkerMessage) -> Self {
        match message {
            WorkerMessage::Read { clock, .. } => Self { clock: *clock, updates: false },
            WorkerMessage::Update { clock, .. } => Self { clock: *clock, updates: true },
        }
    }

    fn next(self) -> Self {
        let clock = if self.updates { self.clock.next() } else { self.clock };
        Self { clock, updates: !self.updates }
    }
}

impl Default for Turn {
    /// The first.
    fn default() -> Self {
        Self { clock: Clock::ZERO, updates: false }
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.updates { "the update of" } else { "a read at" };
        write!(f, "{what} clock {}", self.clock)
    }
}

impl Desk {
    pub(super) fn judge(&self, said: Turn) -> Due {
        match said.cmp(&self.next) {
            std::cmp::Ordering::Less => Due::Repeated,
            std::cmp::Ordering::Equal => Due::Now,
            std::cmp::Ordering::Greater => Due::Ahead,
        }
    }

    /// Notes what was due and has come.
    pub(super) fn hear(&mut self) {
        if self.next.updates {
            self.answer = None;
        }
        self.next = self.next.next();
    }
}
