//! What a run tells about itself: one record per evaluation, one per link, one at the end.
//!
//! Drivers fill these records in; `report/` shows them. Nothing here measures anything.

mod records;

pub(crate) use records::finite_or_null;
pub use records::{
    BlockedSeconds, BrakeRecord, DcProgress, GuardRecord, LinkRecord, MetricRecord, Observer,
    Progress, Summary,
};
