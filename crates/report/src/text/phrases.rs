//! Short phrases about a run, the same on the terminal and on pages.

use super::{numbers, plain};
use crate::seeds::Spread;
use gaia_core::coordinator::StopReason;
use gaia_telemetry::{
    ConservationRecord, GuardRecord, MembershipChange, MembershipRecord, OutlierRecord,
    PartedRecord, Summary, TrivialRecord,
};

/// The application, its data and its size. Older runs say less about the data.
pub(crate) fn trained_on(summary: &Summary) -> String {
    match summary.trained_on.as_str() {
        "" => format!("{} with {}", summary.app, numbers::counted(summary.parameters, "parameter")),
        described => described.into(),
    }
}

/// From which to which metric the data centers are whose copies were evaluated at home. Empty where there are none.
pub(crate) fn metrics_at_home(summary: &Summary) -> String {
    let metrics = || summary.at_home.iter().map(|home| home.metric);
    let (least, most) = (metrics().min_by(f64::total_cmp), metrics().max_by(f64::total_cmp));
    least.zip(most).map_or_else(String::new, |(least, most)| {
        format!("{} to {} at home", numbers::objective(least), numbers::objective(most))
    })
}

/// The data centers of a run whose copies were evaluated at home: the worst, and the mean.
pub(crate) fn at_home(summary: &Summary) -> Option<String> {
    let homes = &summary.at_home;
    let worst = homes.iter().max_by(|a, b| a.objective.total_cmp(&b.objective))?;
    let mean = homes.iter().map(|home| home.objective).sum::<f64>() / homes.len() as f64;
    let [worst_objective, mean] = [worst.objective, mean].map(numbers::objective);
    Some(format!("worst {worst_objective} in {}, mean {mean}", worst.name))
}

/// Whether the run converged, and which rule stopped it.
pub(crate) fn outcome(summary: &Summary) -> String {
    let clocks = numbers::counted(summary.clocks as usize, "clock");

    match (summary.stopped_by.as_str(), summary.converged) {
        ("objective", true) => "yes, the target objective was met".into(),
        ("objective", false) => {
            let objective = numbers::objective(summary.objective);
            format!("no, only copies met the target: the model is at {objective}")
        }
        ("converged", _) => format!("yes, the objective settled{}", little_learnt(summary)),
        ("clocks", false) => format!("no, stopped after {clocks}, not settled"),
        ("seconds", false) => {
            format!("no, stopped after {}, not settled", numbers::seconds(summary.time_s))
        }
        (_, true) => "yes".into(),
        ("diverged", _) => format!("no, diverged after {clocks}"),
        ("ended", _) => format!("no, a worker's task ended after {clocks}"),
        ("interrupted", _) => format!("no, interrupted after {clocks}"),
        (_, false) => format!("no, stopped by {}", summary.stopped_by),
    }
}

/// That the model was better before the run. `None` of others, and where that is not known.
pub(crate) fn worse_than_untrained(summary: &Summary) -> Option<String> {
    let initial = summary.initial.as_ref()?.objective;
    let is_worse = summary.objective > initial;
    is_worse.then(|| format!("better, objective {}", numbers::objective(initial)))
}

/// What is said of a model that is hardly better than a predictor that has learnt nothing. Empty of others.
fn little_learnt(summary: &Summary) -> String {
    match &summary.trivial {
        Some(trivial) if trivial.error_removed < 0.0 => {
            format!(", but the model is worse than the {}", trivial.name)
        }
        Some(trivial) if trivial.error_removed < LITTLE_LEARNT => {
            format!(", but the model is hardly better than the {}", trivial.name)
        }
        _ => String::new(),
    }
}

/// The predictor that the model must beat, and how much less error the model makes, or more.
pub(crate) fn trivial(trivial: &TrivialRecord, metric: &str) -> String {
    let than = if trivial.error_removed < 0.0 { "more" } else { "less" };
    format!(
        "{}: {metric} {}, objective {}; {} {than} error",
        trivial.name,
        numbers::objective(trivial.metric),
        numbers::objective(trivial.objective),
        numbers::percent(trivial.error_removed.abs()),
    )
}

/// `0.4321, AUC 0.9125`: what accuracy hides where classes are not equally frequent.
pub(crate) fn log_loss_and_auc(log_loss: f64, auc: Option<f64>) -> String {
    let area = auc.map_or_else(String::new, |auc| format!(", AUC {}", numbers::objective(auc)));
    format!("{}{area}", numbers::objective(log_loss))
}

/// That all held-out examples have one class, of which any model that names it is right.
pub(crate) fn only_class(names: &[String], counts: &[Vec<u64>]) -> Option<String> {
    let mut found = names.iter().zip(counts).filter(|(_, row)| row.iter().any(|count| *count > 0));
    let (name, _) = found.next()?;
    found.next().is_none().then(|| format!("All held-out examples are of class {name}"))
}

/// The run's time until it met its target, or `never`. Empty of a run that is [`UNDER_WAY`].
pub(crate) fn time_to_target(summary: &Summary) -> String {
    match summary.time_to_target_s {
        Some(time_s) => numbers::seconds(time_s),
        None if summary.stopped_by == UNDER_WAY => String::new(),
        None => "never".into(),
    }
}

/// What a run has been stopped by that goes on.
pub(crate) const UNDER_WAY: &str = "nothing yet";

/// The same in a column with other runs, of which one took `longest` seconds.
pub(crate) fn time_to_target_among(summary: &Summary, longest: f64) -> String {
    match summary.time_to_target_s {
        Some(time_s) => numbers::seconds_among(time_s, longest),
        None => without_target(summary).into(),
    }
}

/// What stands for the time to a target that a run has not reached.
pub(crate) fn without_target(summary: &Summary) -> &'static str {
    if is_interrupted_before_target(summary) { "interrupted" } else { "never" }
}

/// Whether a run was interrupted before it reached its target, which it may have reached later.
pub(crate) fn is_interrupted_before_target(summary: &Summary) -> bool {
    summary.was_stopped_by(StopReason::Interrupted) && summary.time_to_target_s.is_none()
}

/// The clock at which the target was met; with the last clock where the run went on after it.
///
/// Empty where the target was not met.
pub(crate) fn clocks_to_target(summary: &Summary) -> String {
    let Some(clock) = summary.clocks_to_target else { return String::new() };

    let last = if clock == summary.clocks {
        String::new()
    } else {
        format!(" of {}", numbers::count(summary.clocks))
    };
    format!("clock {}{last}", numbers::count(clock))
}

/// The bytes sent until the target was met.
///
/// Empty where the target was not met, or where nothing was sent after it.
pub(crate) fn bytes_to_target(summary: &Summary) -> String {
    match summary.wan_bytes_to_target {
        Some(bytes) if bytes != summary.wan_bytes => {
            format!("{} to the target", numbers::bytes(bytes))
        }
        _ => String::new(),
    }
}

/// From the lowest to the highest value of a figure over seeds, as `2.90× to 3.42×`; one value where both are written
/// alike. `missing` stands for a bound that there is not.
pub(crate) fn range(spread: &Spread, missing: &str, show: impl Fn(f64) -> String) -> String {
    let [low, high] =
        [spread.low, spread.high].map(|bound| bound.map_or_else(|| missing.into(), &show));
    if low == high { low } else { format!("{low} to {high}") }
}

/// `seed 7`, `seeds 1 to 5`, or the seeds themselves where some are missing between them.
pub fn seeds(seeds: &[u64]) -> String {
    match seeds {
        [] => "no seed".into(),
        [one] => format!("seed {one}"),
        [first, .., last] if last - first == seeds.len() as u64 - 1 => {
            format!("seeds {first} to {last}")
        }
        all => {
            let all: Vec<String> = all.iter().map(u64::to_string).collect();
            format!("seeds {}", all.join(", "))
        }
    }
}

/// The factor applied to all WAN bandwidths; empty where it is 1.
pub(crate) fn bandwidth_scale(summary: &Summary) -> String {
    if summary.bandwidth_scale == 1.0 {
        return String::new();
    }
    let scale = numbers::significant(summary.bandwidth_scale, 3);
    format!("bandwidths × {}", numbers::trim(&scale))
}

/// The factor applied to all WAN bandwidths, with the word WAN; empty where it is 1.
pub(crate) fn wan_bandwidth_scale(summary: &Summary) -> String {
    match bandwidth_scale(summary) {
        scale if scale.is_empty() => scale,
        scale => format!("WAN {scale}"),
    }
}

/// Which data centers joined and left, and when.
pub(crate) fn membership(records: &[MembershipRecord]) -> String {
    let changes = records.iter().map(|record| {
        let change = match record.change {
            MembershipChange::Joined => "joined",
            MembershipChange::Left => "left",
        };
        let (name, time) = (plain(&record.data_center), numbers::seconds(record.time_s));
        format!("{name} {change} at {time}")
    });
    changes.collect::<Vec<_>>().join(", ")
}

/// Whether both ends of every link counted the same frames.
pub(crate) fn conservation(record: &ConservationRecord) -> String {
    let frames = numbers::counted(record.frames as usize, "frame");
    let links = numbers::counted(record.links, "link");
    match record.broken.len() {
        0 => format!("{frames} over {links}, each applied once and in order"),
        broken => format!("{broken} of {links} broken, {frames} applied"),
    }
}

/// That copies parted, and what to do about it.
pub(crate) fn parted(parted: &PartedRecord) -> String {
    let PartedRecord { clock, add, loss: _ } = parted;
    format!("copies part since clock {clock}: add {add} to [sync.remote]")
}

/// How far copies parted.
pub(crate) fn parted_by(parted: &PartedRecord) -> String {
    let lost = numbers::percent(parted.loss);
    format!(
        "on the examples of others copies lost {lost} of the initial loss more than the copies there"
    )
}

/// The workers of which updates were above the limits.
pub(crate) fn outliers(outliers: &[OutlierRecord]) -> String {
    let of = |OutlierRecord { worker, updates, .. }: &OutlierRecord| {
        format!("{} of {worker}", numbers::counted(*updates as usize, "update"))
    };
    let all: Vec<String> = outliers.iter().map(of).collect();
    format!("limited {}", all.join(", "))
}

/// What a guard against skew measured.
pub(crate) fn guard(guard: &GuardRecord) -> String {
    let probes = numbers::counted(guard.probes as usize, "probe");
    let alarms = numbers::counted(guard.alarms as usize, "alarm");
    let bytes = numbers::bytes(guard.bytes);
    format!("{probes} ({bytes}), {alarms}, tightness {} in the end", guard.tightness)
}

/// The share of a trivial predictor's error below which what a model removes can be chance.
const LITTLE_LEARNT: f64 = 0.02;
