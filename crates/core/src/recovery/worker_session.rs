//! A server's record of one worker: the request that is due from it, and the last answer.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::node::{RowsRead, WorkerMessage};
use crate::types::{Clock, SharedValues};

/// The place of a request in a worker's sequence: the read at clock 0, the update of clock 0, the read at clock 1, and
/// so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestSeq {
    /// The clock of the read or the update.
    pub clock: Clock,
    /// Whether the request is the update of the clock. The read precedes it.
    pub updates: bool,
}

/// The position of a request of a worker relative to the one that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrder {
    /// It is the one that is due.
    Due,
    /// It has been taken before.
    Repeated,
    /// It is the update that is due from a worker that has started without its state. The server takes it, but does not
    /// apply it, since it has applied the update of this clock from an earlier process.
    AlreadyApplied,
    /// A request before it has not been received.
    Early,
    /// It is an update of an iteration whose read is held back, which no correct worker can have run.
    Unanswered,
    /// It is an update that skips clocks, in a data center that ends no clock without all its workers.
    Skipping,
    /// It is an update of a clock after the one at which the worker has said to have stopped.
    Stopped,
}

/// A server's record of one worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct WorkerSession {
    /// Whether the next request is not known: the server has lost it, and the worker has not connected since.
    pub(super) lost: bool,
    /// Whether the next request is a guess by the clock of the copy. The next read has the worker's clock.
    pub(super) guessed: bool,
    /// The request that is due.
    pub(super) next: RequestSeq,
    /// The answer to the last read, until the update that follows from it has been received.
    pub(super) answer: Option<Arc<RowsRead>>,
    /// Whether the worker has sent a reset. Its next read may be of an earlier clock, whose update another server
    /// lacks.
    pub(super) is_reset: bool,
}

impl RequestSeq {
    /// The place of a message. `None` for [`WorkerMessage::Reset`] and [`WorkerMessage::HandOver`], which may be received at
    /// any time. A read follows them.
    pub fn of(message: &WorkerMessage) -> Option<Self> {
        match message {
            WorkerMessage::Read { clock, .. } => Some(Self { clock: *clock, updates: false }),
            WorkerMessage::Update { clock, .. } => Some(Self { clock: *clock, updates: true }),
            WorkerMessage::HandOver { .. } | WorkerMessage::Reset => None,
        }
    }
}

impl Default for RequestSeq {
    /// The first request of a run.
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
    /// The session of a worker of which nothing is known.
    pub(super) fn lost() -> Self {
        Self { lost: true, ..Self::default() }
    }

    /// The session of a worker with this next request, which the worker has reported or the server has guessed.
    pub(super) fn at(next: RequestSeq, guessed: bool) -> Self {
        Self { next, guessed, ..Self::default() }
    }

    /// Whether there is an answer, and it has no values.
    pub(super) fn has_answer_without_values(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.values.is_empty())
    }

    /// Gives the answer, if there is one, other values.
    pub(super) fn replace_values(&mut self, values: SharedValues) {
        if let Some(answer) = &mut self.answer {
            Arc::make_mut(answer).values = values;
        }
    }

    /// Whether the server adopts the next request that the worker reports.
    pub(super) fn learns_from(&self, next_request: Option<RequestSeq>) -> bool {
        self.lost || (self.guessed && next_request.is_some())
    }

    /// The position of a message relative to the request that is due from a worker that has finished `finished` clocks.
    pub(super) fn order_of(&self, message: &WorkerMessage, finished: Clock) -> RequestOrder {
        let Some(said) = RequestSeq::of(message).filter(|_| !self.lost) else {
            return if self.lost { RequestOrder::Early } else { RequestOrder::Due };
        };
        // A guess is no knowledge: the worker may have started by what an earlier process of this server had told it.
        if !said.updates && (self.guessed || self.is_reset && said < self.next) {
            return RequestOrder::Due;
        }
        match said.cmp(&self.next) {
            Ordering::Less => RequestOrder::Repeated,
            Ordering::Equal if finishes(message).is_some_and(|clock| clock <= finished) => {
                RequestOrder::AlreadyApplied
            }
            Ordering::Equal => RequestOrder::Due,
            Ordering::Greater => RequestOrder::Early,
        }
    }

    /// Takes the message that was due. Returns the worker's clock if the server had only guessed it.
    pub(super) fn accept(&mut self, message: &WorkerMessage) -> Option<Clock> {
        let said = RequestSeq::of(message);
        let learned = said.filter(|_| self.guessed).map(|said| said.clock);
        self.guessed &= said.is_none();
        self.is_reset = matches!(message, WorkerMessage::Reset);
        if said.is_none_or(|said| said.updates) {
            self.answer = None;
        }
        self.next = match (said, finishes(message)) {
            (Some(_), Some(clock)) => RequestSeq { clock, updates: false },
            (Some(read), None) => RequestSeq { updates: true, ..read },
            (None, _) => RequestSeq { updates: false, ..self.next },
        };
        learned
    }
}

/// The number of clocks that the worker has finished with an update.
fn finishes(message: &WorkerMessage) -> Option<Clock> {
    match message {
        WorkerMessage::Update { at, .. } => Some(at.next()),
        _ => None,
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
        WorkerMessage::Update {
            clock: Clock(clock),
            at: Clock(clock),
            deltas,
            probed: Vec::new(),
            learning_rate_factor: None,
            keeps: false,
        }
    }

    /// Hands messages to the session of a worker that has sent everything before clock 3.
    fn check(said: &[(WorkerMessage, RequestOrder)], next: RequestSeq) {
        let mut worker_session = WorkerSession {
            next: RequestSeq { clock: Clock(3), updates: false },
            ..WorkerSession::default()
        };
        let mut finished = Clock(3);
        for (message, expected) in said {
            let due = worker_session.order_of(message, finished);
            assert_eq!(due, *expected, "{message:?}");
            if matches!(due, RequestOrder::Due | RequestOrder::AlreadyApplied) {
                assert_eq!(worker_session.accept(message), None);
            }
            if due == RequestOrder::Due && matches!(message, WorkerMessage::Update { .. }) {
                finished = finished.next();
            }
        }
        assert_eq!(worker_session.next, next);
    }

    #[test]
    fn a_guess_is_given_up_for_the_clock_that_the_worker_reads_at() {
        for (clock, is_reset) in [3, 7, 9].into_iter().flat_map(|at| [(at, true), (at, false)]) {
            let mut worker_session =
                WorkerSession::at(RequestSeq { clock: Clock(7), updates: false }, true);
            if is_reset {
                assert_eq!(worker_session.accept(&WorkerMessage::Reset), None);
            }
            assert_eq!(worker_session.order_of(&read(clock), Clock::ZERO), RequestOrder::Due);
            assert_eq!(worker_session.accept(&read(clock)), Some(Clock(clock)));
            assert_eq!(worker_session.order_of(&update(clock), Clock(clock)), RequestOrder::Due);
            assert_eq!(worker_session.accept(&update(clock)), None);
        }
    }

    #[test]
    fn a_worker_that_is_reset_has_each_clock_counted_once() {
        let at = |clock, updates| RequestSeq { clock: Clock(clock), updates };
        use RequestOrder::{AlreadyApplied, Due, Early, Repeated};

        // The usual course.
        check(&[(read(3), Due), (read(3), Repeated), (update(3), Due)], at(4, false));
        check(&[(read(2), Repeated), (update(2), Repeated), (update(3), Early)], at(3, false));

        // The read that waits is dropped, and sent again.
        check(&[(read(3), Due), (WorkerMessage::Reset, Due), (read(3), Due)], at(3, true));

        // It gives the read up, hands over what it kept, and goes on after all.
        let deltas = ShardDeltas::split(Deltas::none(layout().model()), &[layout()]).remove(0);
        let hand_over = (WorkerMessage::HandOver { deltas }, Due);
        check(
            &[(read(3), Due), hand_over, (read(2), Repeated), (read(3), Due), (update(3), Due)],
            at(4, false),
        );

        // Another server lacks clock 2: it is run again, and this server has its update.
        let again = [(WorkerMessage::Reset, Due), (read(2), Due), (read(2), Repeated)];
        check(&again, at(2, true));
        let rest = [(update(2), AlreadyApplied), (read(3), Due), (update(3), Due)];
        check(&[&again[..], &rest].concat(), at(4, false));
        check(
            &[(WorkerMessage::Reset, Due), (read(4), Early), (update(2), Repeated)],
            at(3, false),
        );

        // Twice in a row.
        let reset = (WorkerMessage::Reset, Due);
        check(
            &[reset.clone(), (read(2), Due), reset, (read(2), Due), (update(2), AlreadyApplied)],
            at(3, false),
        );
    }
}
