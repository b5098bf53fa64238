//! What a run tells about itself: one record per evaluation, one per link, one at the end; and for who watches a node
//! of a real run, its metrics and how it stands.
//!
//! Drivers fill all of it in; `report/` shows the records, and whoever asks over HTTP the rest. Nothing here measures
//! anything.

mod definitions;
mod meters;
mod records;
mod standing;
mod watched;

pub use meters::{MirrorMeter, NodeMeter};
pub use records::finite_or_null;
pub use records::{
    BlockedSeconds, BrakeRecord, BrokenLink, ConservationRecord, DcProgress, GuardRecord,
    LinkRecord, MembershipChange, MembershipRecord, MetricRecord, Observer, Progress, Summary,
};
pub use watched::Telemetry;
