//! The file of a model that a run has trained, and which evaluations it is written at.

use gaia_config::Plan;
use gaia_core::application::Application;
use gaia_core::application::{Direction, Metric};
use gaia_core::types::Model;
use gaia_model::{MetricValue, ModelDescription, model_bytes};
use gaia_telemetry::{ModelSnapshot, Progress};

/// What is known of a model when it is written.
pub(crate) struct Figures<'f> {
    pub(crate) clock: u64,
    pub(crate) objective: f64,
    pub(crate) metric: (&'f str, f64),
}

/// The description of a model in its file.
pub(crate) fn description(plan: &Plan, figures: &Figures<'_>) -> String {
    let Figures { clock, objective, metric: (name, value) } = *figures;
    let description = ModelDescription {
        run: plan.name.clone(),
        seed: plan.seed.0,
        application: serde_json::to_value(&plan.app).expect("settings can be written as JSON"),
        settings: plan.to_toml(),
        remote_sync: plan.remote.name().into(),
        clock,
        objective,
        metric: MetricValue { name: name.into(), value },
        version: env!("CARGO_PKG_VERSION").into(),
    };
    serde_json::to_string(&description).expect("a description can be written as JSON")
}

/// The model of the last of these evaluations as a file. `None` where its figures are not finite.
pub(crate) fn snapshot(
    plan: &Plan,
    application: &dyn Application,
    progress: &[Progress],
    model: &Model,
) -> Option<ModelSnapshot> {
    let last = progress.last()?;
    if !last.objective.is_finite() || !last.metric.is_finite() {
        return None;
    }
    let metric = application.metric();
    let figures = Figures {
        clock: last.clock,
        objective: last.objective,
        metric: (metric.name, last.metric),
    };
    let is_best = is_best(plan, metric, &progress[..progress.len() - 1], last.metric);
    let file = model_bytes(model, &application.attachments(), Some(&description(plan, &figures)));
    Some(ModelSnapshot { clock: last.clock, is_best, file })
}

/// Whether a snapshot is written at an evaluation of `clock`, after those before it.
pub(crate) fn is_due(plan: &Plan, before: &[Progress], clock: u64) -> bool {
    let last = before.last().map_or(0, |progress| progress.clock);
    plan.model.every.is_some_and(|every| clock / every > last / every)
}

/// Whether a value of the metric is better than that of every snapshot before. Of a run without snapshots none is.
pub(crate) fn is_best(plan: &Plan, metric: Metric, before: &[Progress], value: f64) -> bool {
    let is_snapshot = |at: &usize| is_due(plan, &before[..*at], before[*at].clock);
    let is_worse = |other: f64| match metric.direction {
        Direction::Lower => other > value,
        Direction::Higher => other < value,
    };
    let mut earlier = (0..before.len()).filter(is_snapshot).map(|at| before[at].metric);
    plan.model.every.is_some()
        && value.is_finite()
        && earlier.all(|other| !other.is_finite() || is_worse(other))
}
