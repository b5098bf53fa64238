//! The records and the metrics of a run: one record for each evaluation, one for each link, one at the end; and, for a
//! process of a real run, its metrics and its health.
//!
//! Drivers fill them in. `gaia-report` shows the records, and the real driver serves the metrics over HTTP. This crate
//! measures nothing itself.

#![warn(missing_docs)]

mod definitions;
mod meters;
mod node_health;
mod records;
mod watched;

pub use meters::{MirrorMeter, NodeMeter};
pub use records::finite_or_null;
pub use records::{
    BlockedSeconds, BrakeRecord, BreakdownRecord, BrokenLink, ConservationRecord, DcProgress,
    EvaluatedOn, GuardRecord, HomeEvaluation, InitialRecord, LinkRecord, MembershipChange,
    MembershipRecord, MetricRecord, ModelSnapshot, Observer, OutlierRecord, PartedRecord, Progress,
    RatingRecord, Summary, TrivialRecord, Unobserved, WaitedRecord,
};
pub use watched::Telemetry;

/// The target of log events that are notes for a person, who is shown their text alone.
pub const TOLD: &str = "gaia::told";
