//! What a comparison says in sentences: which model is fastest on each WAN, and which runs are the same.

use crate::comparison::{ComparedRun, Comparison, LAN};
use crate::text::numbers;
use crate::text::phrases::is_interrupted_before_target;
use gaia_core::coordinator::StopReason;

/// A sentence for each WAN, or one that says why times are not compared; one for each run that was interrupted, one for each WAN
/// whose machines are not those of the LAN, and one for each set of runs that went alike.
pub(crate) fn verdicts(comparison: &Comparison) -> Vec<String> {
    let wans = comparison.wans();
    let fastest: Vec<String> = match comparison.why_not_compared() {
        Some(why) => vec![why.into()],
        None => wans.iter().filter_map(|wan| verdict(comparison, wan)).collect(),
    };
    let unfinished = wans.iter().flat_map(|wan| unfinished(comparison, wan));
    let machines = wans.iter().filter_map(|wan| other_machines(comparison, wan));
    let identical = wans.iter().flat_map(|wan| identical(comparison, wan));
    fastest.into_iter().chain(unfinished).chain(machines).chain(identical).collect()
}

/// The runs on a WAN that were interrupted, in a sentence each.
fn unfinished(comparison: &Comparison, wan: &str) -> Vec<String> {
    let those = comparison.on(wan).filter(|run| is_interrupted_before_target(&run.row.summary));
    let name = |run: &ComparedRun| run.row.summary.remote_sync.clone();
    those.map(|run| format!("On {wan}, {} was interrupted before the target.", name(run))).collect()
}

/// The runs on a WAN that are equal in every evaluation, in a sentence for each set of them.
fn identical(comparison: &Comparison, wan: &str) -> Vec<String> {
    let mut sets: Vec<Vec<&ComparedRun>> = Vec::new();
    for run in comparison.on(wan) {
        let alike = sets.iter_mut().find(|set| are_alike(set[0], run));
        match alike {
            Some(set) => set.push(run),
            None => sets.push(vec![run]),
        }
    }

    let said = |set: &Vec<&ComparedRun>| {
        let names: Vec<&str> = set.iter().map(|run| &*run.row.summary.remote_sync).collect();
        format!("On {wan}, {} are one and the same run: all evaluations are equal.", listed(&names))
    };
    sets.iter().filter(|set| set.len() > 1).map(said).collect()
}

/// Whether two runs have gone alike to the end of both, or until the shorter one met the target.
fn are_alike(one: &ComparedRun, other: &ComparedRun) -> bool {
    let (shorter, longer) = match one.progress.len() <= other.progress.len() {
        true => (one, other),
        false => (other, one),
    };
    let is_whole = shorter.progress.len() == longer.progress.len()
        || shorter.row.summary.was_stopped_by(StopReason::Objective);
    is_whole && !shorter.progress.is_empty() && longer.progress.starts_with(&shorter.progress)
}

/// How the fastest of the other models compares with BSP, in a sentence. `None` where there is nothing to compare.
fn verdict(comparison: &Comparison, wan: &str) -> Option<String> {
    if wan == LAN {
        return None;
    }

    let time = |run: &ComparedRun| run.row.summary.time_to_target_s.unwrap_or(f64::INFINITY);
    // How soon a run that was interrupted would have been there is not known.
    let runs = || comparison.on(wan).filter(|run| !is_interrupted_before_target(&run.row.summary));
    let bsp = runs().find(|run| run.row.summary.remote_sync == "bsp");
    let others = || runs().filter(|run| run.row.summary.remote_sync != "bsp");
    let best = others().min_by(|a, b| time(a).total_cmp(&time(b)))?;
    let Some(time_s) = best.row.summary.time_to_target_s else {
        let reaches = bsp.is_some_and(|bsp| time(bsp).is_finite());
        let but = if reaches { " but bsp" } else { "" };
        return Some(format!("On {wan}, no model{but} reaches the target."));
    };

    let pace = match (best.row.speedup_vs_bsp, bsp) {
        (Some(speedup), _) if is_even(speedup) => "as soon as bsp".to_owned(),
        (Some(speedup), _) if speedup > 1.0 => {
            format!("{} sooner than bsp", numbers::times(speedup))
        }
        (Some(speedup), _) => format!("{} later than bsp", numbers::times(1.0 / speedup)),
        (None, Some(_)) => format!("after {}, and bsp never does", numbers::seconds(time_s)),
        (None, None) if others().count() > 1 => {
            format!("first, after {}", numbers::seconds(time_s))
        }
        (None, None) => return None,
    };
    let traffic = bsp.map_or_else(String::new, |bsp| traffic(best, bsp));
    let lan = best.row.times_lan.map_or(String::new(), |times| {
        format!("; that is {} the time that BSP takes on the LAN", numbers::times(times))
    });

    let remote = &best.row.summary.remote_sync;
    Some(format!("On {wan}, {remote} reaches the target {pace}{traffic}{lan}."))
}

/// `, with 11.9× fewer WAN bytes`, up to the target where it was met.
fn traffic(best: &ComparedRun, bsp: &ComparedRun) -> String {
    let bytes = |run: &ComparedRun| {
        run.row.summary.wan_bytes_to_target.unwrap_or(run.row.summary.wan_bytes)
    };
    let (own, theirs) = (bytes(best) as f64, bytes(bsp) as f64);
    match own > 0.0 && theirs > 0.0 {
        false => String::new(),
        true if is_even(theirs / own) => ", with as many WAN bytes".into(),
        true if own < theirs => format!(", with {} fewer WAN bytes", numbers::times(theirs / own)),
        true => format!(", with {} more WAN bytes", numbers::times(own / theirs)),
    }
}

/// Whether a ratio is shown as that of equal figures.
pub(crate) fn is_even(ratio: f64) -> bool {
    numbers::times(ratio) == numbers::times(1.0)
}

/// That times on a WAN are not compared with the LAN, whose machines are others.
fn other_machines(comparison: &Comparison, wan: &str) -> Option<String> {
    let lan = comparison.lan_baseline()?.row.summary.workers;
    let own = comparison.on(wan).next()?.row.summary.workers;
    (own != lan).then(|| {
        format!(
            "{wan} has {own} workers and the LAN has {lan}: times over different machines are not compared."
        )
    })
}

/// `bsp, ssp and asp`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
