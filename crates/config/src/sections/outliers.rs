//! `[sync.outliers]`: the limits on workers' updates.

use crate::document::Problem;
use crate::range::{self, Checks};
use gaia_core::sync::OutlierConfig;
use gaia_ml::apps::AppConfig;

/// Checks the limits, and that the application is one whose updates may be changed.
pub(crate) fn outliers(
    checks: &Checks<'_>,
    outliers: OutlierConfig,
    app: Option<&AppConfig>,
) -> Result<(), Problem> {
    let OutlierConfig { norm_max, median_times, action: _ } = outliers;

    if norm_max.is_none() && median_times.is_none() {
        let expected = "`norm_max`, `median_times` or both".to_owned();
        return Err(checks.found("sync.outliers", "no limit".into(), expected));
    }
    if let Some(norm) = norm_max {
        checks.number("sync.outliers.norm_max", norm, range::NORM)?;
    }
    if let Some(times) = median_times {
        checks.number("sync.outliers.median_times", times, range::NORM_TIMES)?;
    }

    // A worker moves a count from one topic to another, and takes it for moved.
    app.filter(|app| app.deltas_are_counts()).map_or(Ok(()), |app| {
        let expected = format!(
            "no limits: the deltas of {} are counts, which must be applied as they are",
            app.kind()
        );
        Err(checks.found("sync.outliers", "limits".into(), expected))
    })
}
