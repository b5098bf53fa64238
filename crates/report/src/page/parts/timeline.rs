//! Who waited for whom, when and why: a lane for each data center.

use std::collections::BTreeMap;

use super::blocked::class_of;
use super::picture::Picture;
use crate::chart::{Lane, LaneBar, Lanes};
use crate::text::numbers;
use gaia_telemetry::{DcProgress, Progress, Summary};

/// The lanes of a run. `None` where no read was held back, and of runs that have not recorded whom reads waited for.
pub(in crate::page) fn timeline(summary: &Summary, progress: &[Progress]) -> Option<Picture> {
    let ends = evenly(progress);
    let lanes: Vec<Lane> =
        summary.data_centers.iter().map(|name| lane(name, progress, &ends)).collect();
    let bars = || lanes.iter().flat_map(|lane| &lane.bars);
    let amount = |bar: &LaneBar| bar.parts.iter().map(|(_, amount)| amount).sum::<f64>();
    let highest = bars().map(amount).filter(|amount| amount.is_finite()).fold(0.0, f64::max);
    if highest <= 0.0 {
        return None;
    }

    let simulated = summary.driver == "simulated";
    let lanes = Lanes {
        description: "Workers whose reads were held back, by data center and cause, over time"
            .into(),
        x_label: if simulated { "simulated time".into() } else { "time".into() },
        heading: format!("a full lane: {} workers held back", numbers::significant(highest, 2)),
        lanes,
        end_s: progress.last().map_or(0.0, |last| last.time_s).max(0.0),
        highest,
    };
    Some(Picture::of_lanes("Who waited, and for whom", &lanes))
}

/// What a data center waited for between two evaluations, as workers that waited all the time.
fn lane(name: &str, progress: &[Progress], ends: &[usize]) -> Lane {
    let mut bars = Vec::new();
    let mut before = (0.0, BTreeMap::new());
    for end in ends {
        let progress = &progress[*end];
        // A data center that pauses was not evaluated.
        let Some(dc) = progress.data_centers.iter().find(|dc| dc.name == name) else { continue };
        let (from_s, to_s) = (before.0, progress.time_s);
        let found = waited(dc);
        if to_s > from_s {
            bars.extend(bar(name, (from_s, to_s), &before.1, &found));
        }
        before = (to_s, found);
    }
    Lane { label: name.into(), bars }
}

type Waited = BTreeMap<(String, String), f64>;

/// Worker-seconds so far, by cause and by whom they waited for.
fn waited(dc: &DcProgress) -> Waited {
    let whom = |from: &Option<String>| from.clone().unwrap_or_else(|| "its own workers".into());
    dc.waited.iter().map(|w| ((w.cause.clone(), whom(&w.from)), w.seconds)).collect()
}

fn bar(name: &str, (from_s, to_s): (f64, f64), before: &Waited, now: &Waited) -> Option<LaneBar> {
    let mut parts: BTreeMap<&'static str, f64> = BTreeMap::new();
    let mut said = Vec::new();
    for (key @ (cause, whom), seconds) in now {
        let workers = (seconds - before.get(key).unwrap_or(&0.0)) / (to_s - from_s);
        if workers > 0.0 {
            let (class, cause) = class_of(cause);
            *parts.entry(class).or_default() += workers;
            said.push((
                workers,
                format!("{} for {whom} ({cause})", numbers::significant(workers, 2)),
            ));
        }
    }

    said.sort_by(|one, other| other.0.total_cmp(&one.0));
    let said: Vec<String> = said.into_iter().take(SAID_MAX).map(|(_, text)| text).collect();
    let when = format!("{} to {}", numbers::seconds(from_s), numbers::seconds(to_s));
    (!parts.is_empty()).then(|| LaneBar {
        from_s,
        to_s,
        parts: parts.into_iter().collect(),
        title: format!("{name}, {when}: workers held back {}", said.join(", ")),
    })
}

/// The evaluations at which bars end: all, or so many of them, the last among them.
fn evenly(progress: &[Progress]) -> Vec<usize> {
    let wanted = progress.len().min(BARS_MAX);
    (1..=wanted).map(|at| at * progress.len() / wanted - 1).collect()
}

/// Bars of a lane.
const BARS_MAX: usize = 60;
/// Those that were waited for longest are named.
const SAID_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use gaia_telemetry::WaitedRecord;

    #[test]
    fn a_bar_is_what_was_waited_since_the_one_before() {
        let at = |time_s: f64, seconds: f64| Progress {
            time_s,
            clock: 1,
            objective: 1.0,
            objective_mean: 1.0,
            metric: 1.0,
            wan_bytes: 0,
            data_centers: vec![DcProgress {
                name: "tokyo".into(),
                waited: vec![WaitedRecord {
                    cause: "mirror_clock".into(),
                    from: Some("ireland".into()),
                    seconds,
                }],
                ..DcProgress::default()
            }],
        };
        let lane = lane("tokyo", &[at(2.0, 1.0), at(4.0, 4.0), at(6.0, 4.0)], &[0, 1, 2]);
        let bars: Vec<_> = lane.bars.iter().map(|bar| (bar.from_s, &bar.parts[..])).collect();
        assert_eq!(bars, [(0.0, &[("c-mirror", 0.5)][..]), (2.0, &[("c-mirror", 1.5)][..])]);
        assert_eq!(
            lane.bars[1].title,
            "tokyo, 2.00 s to 4.00 s: workers held back 1.5 for ireland (mirror clock)"
        );
    }

    #[test]
    fn a_long_run_has_a_few_bars_that_end_with_it() {
        let progress = vec![
            Progress {
                time_s: 0.0,
                clock: 0,
                objective: 0.0,
                objective_mean: 0.0,
                metric: 0.0,
                wan_bytes: 0,
                data_centers: Vec::new()
            };
            1000
        ];
        let ends = evenly(&progress);
        assert_eq!((ends.len(), ends[BARS_MAX - 1]), (BARS_MAX, 999));
        assert_eq!(evenly(&progress[..2]), [0, 1]);
    }
}
