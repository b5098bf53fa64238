//! Bugs planted around the core, to see whether checkers would catch them.
//!
//! Each is a small change to what passes between nodes, their disks and the network, as a mistake in one of them would
//! make it.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// The session passes on what comes again.
    AcceptsRepeats,
    /// A hello counts one data frame too many as received.
    WatermarkOffByOne,
    /// A frame is acknowledged when it comes, though those before it have not.
    AcknowledgesBeforeDelivery,
    /// After a reconnect sending goes on one frame too late.
    ResendsFromWrongNumber,
    /// What has come is never acknowledged.
    NeverAcknowledges,
    /// A damaged message is taken for a whole one.
    AcceptsDamage,
    /// A connection that broke stays broken.
    NeverReconnects,
    /// Frames are cut whatever is under way.
    IgnoresWindow,
    /// Data is given to a link that has no room.
    IgnoresLinkRate,
    /// Control frames are passed on in pairs, the later first.
    SwapsControl,
    /// Cutting a frame counts one change as sent that is not in it.
    ForgetsResidual,
    /// A mirror clock is reported some clocks early.
    ReportsClockEarly,
    /// Every other mirror clock is less than one before it.
    MirrorClockRunsBackwards,
    /// Reads do not wait for slow mirrors.
    IgnoresMirrorClock,
    /// Reads do not wait for announced parameters.
    IgnoresAnnouncements,
    /// The last update counts as one after the end.
    DrainEndsEarly,
    /// One value of the drain's result is another in each data center.
    DrainDiffers,
    /// An update is added to a value that is not the one meant.
    AddsElsewhere,
    /// Some inputs never reach the log.
    SkipsLog,
    /// Everything leaves before it is synced.
    SendsBeforeSync,
    /// Frames are acknowledged before they are synced.
    AcknowledgesBeforeSync,
    /// Workers are answered before what led to it is synced.
    AnswersBeforeSync,
    /// The coordinator hears of clocks before they are synced.
    ReportsBeforeSync,
    /// A write that failed is taken for done.
    TakesFailedWriteForDone,
    /// A checkpoint comes back without what links have carried.
    ForgetsResidualsAtRecovery,
    /// The last record of a checkpoint is heard again.
    ReplaysOneTooMany,
    /// The first record after a checkpoint is not heard.
    ReplaysOneTooFew,
    /// With what is torn goes the last whole record.
    CutsTailTooFar,
    /// A node that was started again says that it is the one before.
    KeepsIncarnation,
    /// Messages of an earlier incarnation pass for those of this one.
    AcceptsStaleIncarnation,
    /// The last answer is not said again to a worker that comes back.
    ForgetsLastAnswer,
    /// What a worker changed is added twice where it comes after a reconnect.
    AddsUpdateTwice,
    /// Nobody is told how far a link had come when another went on from it.
    ForgetsFork,
    /// One change of what belongs to a copy, and came to its source later, is not passed on.
    ForgetsBacklog,
    /// Copies are to become equal with those that take no part, too.
    DrainsWithTheAbsent,
    /// A server that has nothing is not told to take a copy.
    BeginsWithoutCopy,
    /// A worker says that it has stopped while it runs its last iteration.
    ReportsStopEarly,
    /// The coordinator gives an order before it writes it down.
    OrdersBeforeWriting,
    /// A coordinator that comes back does not say again what it has ordered.
    RepeatsNoOrder,
    /// Nodes do not say again to a coordinator that comes back what it may have forgotten.
    SaysNothingAgain,
    /// Servers are not told that connections are lost.
    MissesLostConnections,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 41] = [
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
        Self::MirrorClockRunsBackwards,
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
    ];
}
