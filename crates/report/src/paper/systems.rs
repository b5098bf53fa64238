//! Claims of other systems as text: what the terminal and the pages have in common.

use super::records::{SystemFigure, SystemRow, SystemUnit, SystemVerdict};
use crate::text::numbers;

/// How many claims there are, hold, fail, and cannot be checked.
pub(super) fn summary(rows: &[SystemRow]) -> String {
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    format!(
        "{} of {} hold, {} fail, {} cannot be checked here.",
        count(SystemVerdict::Holds),
        numbers::counted(rows.len(), "claim"),
        count(SystemVerdict::Fails),
        count(SystemVerdict::CannotBeChecked),
    )
}

/// One value of a figure in its unit. A run that did not reach its target has none.
pub(super) fn value(figure: &SystemFigure, value: Option<f64>) -> String {
    match (value, figure.unit) {
        (None, _) => numbers::NONE.into(),
        (Some(value), _) if !value.is_finite() => "never".into(),
        (Some(value), SystemUnit::Times) => numbers::times(value),
        (Some(value), SystemUnit::Share) => numbers::percent_tenths(value),
        (Some(value), SystemUnit::Machines) => numbers::count(value.round() as u64),
    }
}
