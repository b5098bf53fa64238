//! A server's side of the talk with one worker: whose turn it is, and the last answer.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::node::{RowsRead, WorkerMessage};
use crate::types::Clock;

/// One thing that a worker says. In order: a read at clock 0, the update of clock 0, a read at clock 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestSeq {
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
    /// It is due from a worker that began anew, and changes nothing: the server has heard this clock's update from the
    /// process before.
    Known,
    /// Something before it has not been heard.
    Ahead,
}

/// What a server keeps of one worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct WorkerSession {
    /// Whether it is not known what is to come next: the server has lost what it knew, and the worker has not been on
    /// the line since.
    pub(super) lost: bool,
    /// Whether what is to come next is a guess, by the clock of the copy: its read says at which clock the worker is.
    pub(super) guessed: bool,
    /// What is to come next.
    pub(super) next: RequestSeq,
    /// What was answered to the last read, until its update has come.
    pub(super) answer: Option<Arc<RowsRead>>,
    /// Whether the worker begins anew: its next read may be of an earlier clock, where another server lacks that
    /// clock's update.
    pub(super) anew: bool,
}

impl RequestSeq {
    /// Whose turn a message is; [`WorkerMessage::Reset`] has none, as it may come at any time.
    pub fn of(message: &WorkerMessage) -> Option<Self> {
        match message {
            WorkerMessage::Read { clock, .. } => Some(Self { clock: *clock, updates: false }),
            WorkerMessage::Update { clock, .. } => Some(Self { clock: *clock, updates: true }),
            WorkerMessage::Reset => None,
        }
    }

    fn next(self) -> Self {
        let clock = if self.updates { self.clock.next() } else { self.clock };
        Self { clock, updates: !self.updates }
    }
}

impl Default for RequestSeq {
    /// The first.
    fn default() -> Self {
        Self { clock: Clock::ZERO, updates: false }
    }
}

impl fmt::Display for RequestSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.updates { "the update of" } else { "a read at" };
        write!(f, "{what} clock {}", self.clock)
    }
}

impl WorkerSession {
    /// That of a worker of which nothing is known.
    pub(super) fn lost() -> Self {
        Self { lost: true, ..Self::default() }
    }

    /// That of a worker that is to say this next, as it says or as is guessed.
    pub(super) fn at(next: RequestSeq, guessed: bool) -> Self {
        Self { next, guessed, ..Self::default() }
    }

    /// Whether the worker itself can say what is to come next.
    pub(super) fn learns_from(&self, next_request: Option<RequestSeq>) -> bool {
        self.lost || (self.guessed && next_request.is_some())
    }

    /// How a message lies to what is due from a worker that has finished so many clocks.
    pub(super) fn judge(&self, message: &WorkerMessage, finished: Clock) -> Due {
        let Some(said) = RequestSeq::of(message).filter(|_| !self.lost) else {
            return if self.lost { Due::Ahead } else { Due::Now };
        };
        if self.anew && !said.updates && (said < self.next || self.guessed) {
            return Due::Now;
        }
        match said.cmp(&self.next) {
            Ordering::Less => Due::Repeated,
            Ordering::Equal if said.updates && said.clock < finished => Due::Known,
            Ordering::Equal => Due::Now,
            Ordering::Greater => Due::Ahead,
        }
    }

    /// Notes what was due and has come; answers with the clock of the worker, where that was a guess and is known now.
    pub(super) fn hear(&mut self, message: &WorkerMessage) -> Option<Clock> {
        let said = RequestSeq::of(message);
        let learned = said.filter(|_| self.guessed).map(|said| said.clock);
        self.guessed &= said.is_none();
        self.anew = said.is_none();
        if said.is_none_or(|said| said.updates) {
            self.answer = None;
        }
        self.next = match said {
            Some(said) => said.next(),
            None => RequestSeq { updates: false, ..self.next },
        };
        learned
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::{ShardDeltas, ShardRows};
    use crate::types::{Deltas, ModelLayout, RowSet, ShardId, ShardLayout, TableLayout};

    fn layout() -> ShardLayout {
        let table = TableLayout { name: "a".into(), rows: 2, width: 1 };
        ShardLayout::new(Arc::new(ModelLayout::new(vec![table])), ShardId(0), 1)
    }

    fn read(clock: u64) -> WorkerMessage {
        let layout = layout();
        let rows = ShardRows::of(&RowSet::all(layout.model()), &layout);
        WorkerMessage::Read { clock: Clock(clock), rows }
    }

    fn update(clock: u64) -> WorkerMessage {
        let deltas = Deltas::none(layout().model());
        let deltas = ShardDeltas::split(deltas, &[layout()]).remove(0);
        WorkerMessage::Update { clock: Clock(clock), deltas, probed: Vec::new() }
    }

    /// What becomes of messages, one after the other, at the session of a worker that has said everything before clock 3.
    fn check(said: &[(WorkerMessage, Due)], next: RequestSeq) {
        let mut worker_session = WorkerSession {
            next: RequestSeq { clock: Clock(3), updates: false },
            ..WorkerSession::default()
        };
        let mut finished = Clock(3);
        for (message, expected) in said {
            let due = worker_session.judge(message, finished);
            assert_eq!(due, *expected, "{message:?}");
            if matches!(due, Due::Now | Due::Known) {
                assert_eq!(worker_session.hear(message), None);
            }
            if due == Due::Now && matches!(message, WorkerMessage::Update { .. }) {
                finished = finished.next();
            }
        }
        assert_eq!(worker_session.next, next);
    }

    #[test]
    fn a_guess_is_given_up_for_the_clock_that_the_worker_reads_at() {
        for clock in [3, 7, 9] {
            let mut worker_session =
                WorkerSession::at(RequestSeq { clock: Clock(7), updates: false }, true);
            assert_eq!(worker_session.hear(&WorkerMessage::Reset), None);
            assert_eq!(worker_session.judge(&read(clock), Clock::ZERO), Due::Now);
            assert_eq!(worker_session.hear(&read(clock)), Some(Clock(clock)));
            assert_eq!(worker_session.judge(&update(clock), Clock(clock)), Due::Now);
            assert_eq!(worker_session.hear(&update(clock)), None);
        }
    }

    #[test]
    fn a_worker_that_begins_anew_has_each_clock_counted_once() {
        let at = |clock, updates| RequestSeq { clock: Clock(clock), updates };
        use Due::{Ahead, Known, Now, Repeated};

        // As ever.
        check(&[(read(3), Now), (read(3), Repeated), (update(3), Now)], at(4, false));
        check(&[(read(2), Repeated), (update(2), Repeated), (update(3), Ahead)], at(3, false));

        // The read that waits is let go, and asked again.
        check(&[(read(3), Now), (WorkerMessage::Reset, Now), (read(3), Now)], at(3, true));

        // Another server lacks clock 2: it is gone through again, and its update known here.
        let again = [(WorkerMessage::Reset, Now), (read(2), Now), (read(2), Repeated)];
        check(&again, at(2, true));
        let rest = [(update(2), Known), (read(3), Now), (update(3), Now)];
        check(&[&again[..], &rest].concat(), at(4, false));
        check(
            &[(WorkerMessage::Reset, Now), (read(4), Ahead), (update(2), Repeated)],
            at(3, false),
        );

        // Twice in a row.
        let anew = (WorkerMessage::Reset, Now);
        check(
            &[anew.clone(), (read(2), Now), anew, (read(2), Now), (update(2), Known)],
            at(3, false),
        );
    }
}
