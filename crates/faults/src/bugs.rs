//! Planted bugs, which test the checkers.
//!
//! Each is a small change of the data between nodes, their disks and the network, as a defect in one of them would
//! cause it.
//!
//! Some defects are no such change, or break no law of a schedule, and tests are the place for them:
//!
//! - An outbox that covers a clock before all its marks have left sends a report like any other. Only the outbox knows
//!   its marks (`outbox/sweep.rs`, `tests/cores/mirror_clock.rs`).
//! - A worker that forgets the clocks that it owes its servers is wrong inside, before its first message
//!   (`worker/mod.rs`, `tests/cores/returning_worker.rs`).
//! - An exchange that rounds twice changes no sum here: values of schedules are whole numbers, so that sums are exact
//!   (`tests/cores/exchange.rs`).
//! - All nodes of a schedule resolve one plan, so that none has another plan's hash (`tests/cores/peers.rs`).
//! - Nodes of a schedule have no certificates that could be revoked (`tests/certificates/`).

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// A session passes on frames that it has received before.
    AcceptsRepeats,
    /// A hello counts one data frame too many as received.
    WatermarkOffByOne,
    /// A frame is acknowledged when it arrives, although earlier ones have not arrived.
    AcknowledgesBeforeDelivery,
    /// After a reconnect, sending continues one frame too late.
    ResendsFromWrongNumber,
    /// Received frames are never acknowledged.
    NeverAcknowledges,
    /// A damaged message is accepted.
    AcceptsDamage,
    /// A failed connection is not replaced.
    NeverReconnects,
    /// Frames are cut although the window is full.
    IgnoresWindow,
    /// Data is sent on a link that has no room.
    IgnoresLinkRate,
    /// Control frames are delivered in pairs, the later first.
    SwapsControl,
    /// A change that is not in a frame counts as sent with it.
    ForgetsResidual,
    /// A mirror clock is reported some clocks early.
    ReportsClockEarly,
    /// The same, of a server that has reported a pause.
    ReportsClockEarlyAfterPause,
    /// Every second mirror clock is less than the one before it.
    MirrorClockRunsBackwards,
    /// A mirror clock counts one frame before the last one that it covers.
    CountsClockOneFrameEarly,
    /// The same, of a mirror that has lost its state or joined late.
    CountsClockOneFrameEarlyAfterCopy,
    /// Reads do not wait for slow mirrors.
    IgnoresMirrorClock,
    /// Reads do not wait for announced parameters.
    IgnoresAnnouncements,
    /// The last update counts as one after the end of updates.
    DrainEndsEarly,
    /// One value of the drain's result differs between data centers.
    DrainDiffers,
    /// An update is added to another parameter.
    AddsElsewhere,
    /// Some inputs are not written to the log.
    SkipsLog,
    /// All messages are sent before their records are synced.
    SendsBeforeSync,
    /// Frames are acknowledged before they are synced.
    AcknowledgesBeforeSync,
    /// Replies to workers are sent before their records are synced.
    AnswersBeforeSync,
    /// Clocks are reported to the coordinator before they are synced.
    ReportsBeforeSync,
    /// A failed write counts as successful.
    TakesFailedWriteForDone,
    /// A checkpoint is restored without the sums of what was sent on links.
    ForgetsResidualsAtRecovery,
    /// The last record of a checkpoint is replayed.
    ReplaysOneTooMany,
    /// The first record after a checkpoint is not replayed.
    ReplaysOneTooFew,
    /// The last whole record is truncated together with the torn tail.
    CutsTailTooFar,
    /// A restarted node uses the incarnation of the process before.
    KeepsIncarnation,
    /// Messages of an earlier incarnation are accepted.
    AcceptsStaleIncarnation,
    /// Frames that have arrived before their turn are kept when their sender has restarted, and may send others under
    /// their numbers.
    KeepsEarlyFrames,
    /// The last reply is not sent again to a worker that reconnects.
    ForgetsLastAnswer,
    /// A worker's update is added twice if it is sent after a reconnect.
    AddsUpdateTwice,
    /// The marker of a fork is not sent.
    ForgetsFork,
    /// One change of a backlog is not forwarded.
    ForgetsBacklog,
    /// The drain includes inactive data centers.
    DrainsWithTheAbsent,
    /// A server without a state is not ordered to take a copy.
    BeginsWithoutCopy,
    /// A worker reports that it has stopped while it runs its last iteration.
    ReportsStopEarly,
    /// The coordinator gives an order before it writes the order.
    OrdersBeforeWriting,
    /// A restarted coordinator does not repeat its orders.
    RepeatsNoOrder,
    /// Nodes do not repeat to a restarted coordinator what it may have lost.
    SaysNothingAgain,
    /// Servers are not notified of lost connections.
    MissesLostConnections,
    /// Reads do not wait for mirrors that cannot be reached, although `on_partition` is `pause`.
    IgnoresPause,
    /// A mirror is told that it has missed no update.
    CatchesUpEarly,

    /// A checkpoint is restored without what sparse rounds have not sent.
    DropsErrorFeedback,
    /// The drain receives a copy without what its sparse rounds have not sent.
    DrainsWithoutOwed,
    /// A sparse part has more of a change than was cut from what is owed.
    SendsMoreThanCut,
    /// A chunk's partial sum is added twice in a ring or a tree.
    AddsChunkTwice,
    /// A chunk's partial sum is not added in a ring or a tree.
    ForgetsChunk,
    /// The total of an ancestor in a tree is applied before it has the changes of all descendants.
    AppliesTotalBeforeItIsWhole,
    /// A data center has other blocks than those by bandwidth that the others have.
    BlocksDisagree,

    /// A home adds a value of a late part twice.
    CountsLatePartTwice,
    /// A home's total lacks a value of a late part, which counts as included.
    ForgetsLatePart,
    /// A worker's update of a clock that has ended without it is added twice.
    CountsLateUpdateTwice,
    /// A worker's update of a clock that has ended without it is not added.
    ForgetsLateUpdate,

    /// A server takes a diverged change for no change.
    AcceptsDiverged,
    /// A restarted server does not report again that it has rejected an update.
    ForgetsRejection,
    /// A worker stops one clock after the one that it was ordered to stop at.
    StopsLate,
    /// A torn tail stays on the disk, and records are written after it.
    LeavesTornTail,
    /// The beginning of a segment is not synced before a checkpoint lets the segment before it go.
    LeavesSegmentUnsynced,
    /// The log is dropped up to a checkpoint that is not on the disk yet.
    DropsLogTooFar,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 64] = [
        Self::AcceptsRepeats,
        Self::WatermarkOffByOne,
        Self::AcknowledgesBeforeDelivery,
        Self::ResendsFromWrongNumber,
        Self::NeverAcknowledges,
        Self::AcceptsDamage,
        Self::NeverReconnects,
        Self::IgnoresWindow,
        Self::IgnoresLinkRate,
        Self::SwapsControl,
        Self::ForgetsResidual,
        Self::ReportsClockEarly,
        Self::ReportsClockEarlyAfterPause,
        Self::MirrorClockRunsBackwards,
        Self::CountsClockOneFrameEarly,
        Self::CountsClockOneFrameEarlyAfterCopy,
        Self::IgnoresMirrorClock,
        Self::IgnoresAnnouncements,
        Self::DrainEndsEarly,
        Self::DrainDiffers,
        Self::AddsElsewhere,
        Self::SkipsLog,
        Self::SendsBeforeSync,
        Self::AcknowledgesBeforeSync,
        Self::AnswersBeforeSync,
        Self::ReportsBeforeSync,
        Self::TakesFailedWriteForDone,
        Self::ForgetsResidualsAtRecovery,
        Self::ReplaysOneTooMany,
        Self::ReplaysOneTooFew,
        Self::CutsTailTooFar,
        Self::KeepsIncarnation,
        Self::AcceptsStaleIncarnation,
        Self::KeepsEarlyFrames,
        Self::ForgetsLastAnswer,
        Self::AddsUpdateTwice,
        Self::ForgetsFork,
        Self::ForgetsBacklog,
        Self::DrainsWithTheAbsent,
        Self::BeginsWithoutCopy,
        Self::ReportsStopEarly,
        Self::OrdersBeforeWriting,
        Self::RepeatsNoOrder,
        Self::SaysNothingAgain,
        Self::MissesLostConnections,
        Self::IgnoresPause,
        Self::CatchesUpEarly,
        Self::DropsErrorFeedback,
        Self::DrainsWithoutOwed,
        Self::SendsMoreThanCut,
        Self::AddsChunkTwice,
        Self::ForgetsChunk,
        Self::AppliesTotalBeforeItIsWhole,
        Self::BlocksDisagree,
        Self::CountsLatePartTwice,
        Self::ForgetsLatePart,
        Self::CountsLateUpdateTwice,
        Self::ForgetsLateUpdate,
        Self::AcceptsDiverged,
        Self::ForgetsRejection,
        Self::StopsLate,
        Self::LeavesTornTail,
        Self::LeavesSegmentUnsynced,
        Self::DropsLogTooFar,
    ];
}
