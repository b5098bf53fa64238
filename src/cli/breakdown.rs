//! Where a run's final model is right and where it is wrong.

use gaia_core::application::{Application, Breakdown, RatingError};
use gaia_core::types::Model;
use gaia_telemetry::{BreakdownRecord, RatingRecord};
use tracing::warn;

/// The breakdown of a model, which takes a pass over the held-out examples. `None` where the application has none, or cannot
/// make it: a run that has ended does not fail for it.
pub(super) fn breakdown(application: &dyn Application, model: &Model) -> Option<BreakdownRecord> {
    let found = application.breakdown(model).unwrap_or_else(|error| {
        warn!("the held-out examples cannot be broken down: {error}");
        None
    });
    Some(match found? {
        Breakdown::Classes(classes) => BreakdownRecord::Classes {
            names: classes.names,
            counts: classes.counts,
            log_loss: classes.log_loss,
            auc: classes.auc,
        },
        Breakdown::Ratings(errors) => {
            BreakdownRecord::Ratings { groups: errors.into_iter().map(rating).collect() }
        }
    })
}

fn rating(error: RatingError) -> RatingRecord {
    let RatingError { rating, count, rmse, bias } = error;
    RatingRecord { rating, count, rmse, bias }
}
