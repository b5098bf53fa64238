//! What the charts of runs draw over what, and what their axes say.

use crate::chart::{Curve, Plot, Quantity, Spacing, Trend};
use gaia_telemetry::{InitialRecord, Progress, Summary};

/// What is drawn over what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Axes {
    ObjectiveOverTime,
    ObjectiveOverBytes,
    MetricOverTime,
}

/// What a chart says besides its curves.
pub(super) struct Labels<'a> {
    /// What the chart shows, for screen readers.
    pub(super) description: String,
    /// Whether times are virtual.
    pub(super) is_simulated: bool,
    /// The name of the held-out metric.
    pub(super) metric: &'a str,
    /// The objective that runs trained for.
    pub(super) target: Option<f64>,
}

impl Axes {
    fn point(self, at: &Progress) -> (f64, f64) {
        match self {
            Self::ObjectiveOverTime => (at.time_s, at.objective),
            Self::ObjectiveOverBytes => (at.wan_bytes as f64, at.objective),
            Self::MetricOverTime => (at.time_s, at.metric),
        }
    }

    /// Where the evaluations of a run are, and before them the initial model.
    pub(super) fn points(self, summary: &Summary, progress: &[Progress]) -> Vec<(f64, f64)> {
        let begin = beginning(summary, progress).map(|initial| (0.0, self.value(initial)));
        begin.into_iter().chain(progress.iter().map(|at| self.point(at))).collect()
    }

    /// What is drawn of the initial model.
    pub(super) fn value(self, InitialRecord { objective, metric }: InitialRecord) -> f64 {
        if self == Self::MetricOverTime { metric } else { objective }
    }

    pub(super) fn heading(self, metric: &str) -> String {
        match self {
            Self::ObjectiveOverTime => "Objective over time".into(),
            Self::ObjectiveOverBytes => "Objective over WAN bytes".into(),
            Self::MetricOverTime => format!("Held-out {metric} over time"),
        }
    }

    /// The chart of these curves.
    pub(super) fn plot(self, labels: Labels<'_>, curves: Vec<Curve>) -> Plot {
        let Labels { description, is_simulated, metric, target } = labels;
        let time = if is_simulated { "simulated time" } else { "time" };
        let (x, x_label) = match self {
            Self::ObjectiveOverBytes => (Quantity::Bytes, "sent over the WAN"),
            _ => (Quantity::Seconds, time),
        };
        let (y_label, trend, target) = match self {
            Self::MetricOverTime => (metric, Trend::Either, None),
            _ => ("objective", Trend::Falling, target),
        };

        Plot {
            description,
            x,
            x_label: x_label.into(),
            y_label: y_label.into(),
            trend,
            x_spacing: Spacing::Fitting,
            y_spacing: Spacing::Fitting,
            curves,
            target,
        }
    }
}

/// The evaluation of the initial model, where it is known and is none of a run's own.
pub(super) fn beginning(summary: &Summary, progress: &[Progress]) -> Option<InitialRecord> {
    summary.initial.filter(|_| progress.iter().all(|at| at.clock > 0))
}
