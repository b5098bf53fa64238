//! The trivial predictor beside a run's result.

use gaia_core::application::{Application, Direction, TrivialPredictor};
use gaia_telemetry::TrivialRecord;
use tracing::warn;

/// The predictor that a model with this metric must beat, which takes a pass over the data. `None` where the application has
/// none, or cannot evaluate it: a run that has ended does not fail for it.
pub(super) fn trivial(application: &dyn Application, metric: f64) -> Option<TrivialRecord> {
    let predictor = application.trivial_predictor().unwrap_or_else(|error| {
        warn!("the trivial predictor cannot be evaluated: {error}");
        None
    });
    let TrivialPredictor { name, evaluation } = predictor?;

    let (own, error) = match application.metric().direction {
        Direction::Higher => (1.0 - metric, 1.0 - evaluation.metric),
        Direction::Lower => (metric, evaluation.metric),
    };
    let error_removed = 1.0 - own / error;
    error_removed.is_finite().then(|| TrivialRecord {
        name: name.into(),
        objective: evaluation.objective,
        metric: evaluation.metric,
        error_removed,
    })
}
