//! What a comparison says in sentences: which model is fastest on each WAN, and which runs are the same.

use crate::comparison::{ComparedRun, Comparison, LAN};
use crate::text::numbers;

/// A sentence for each WAN, and one for each set of runs that went alike.
pub(crate) fn verdicts(comparison: &Comparison) -> Vec<String> {
    let wans = comparison.wans();
    let fastest = wans.iter().filter_map(|wan| verdict(comparison, wan));
    let identical = wans.iter().flat_map(|wan| identical(comparison, wan));
    fastest.chain(identical).collect()
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
        || shorter.row.summary.stopped_by == "objective";
    is_whole && !shorter.progress.is_empty() && longer.progress.starts_with(&shorter.progress)
}

/// How the fastest of the other models compares with BSP, in a sentence. `None` where there is nothing to compare.
fn verdict(comparison: &Comparison, wan: &str) -> Option<String> {
    if wan == LAN {
        return None;
    }

    let bsp = comparison.on(wan).find(|run| run.row.summary.remote_sync == "bsp")?;
    let others = comparison.on(wan).filter(|run| run.row.summary.remote_sync != "bsp");
    let best = others.filter(|run| run.row.speedup_vs_bsp.is_some()).max_by(|a, b| {
        a.row.speedup_vs_bsp.partial_cmp(&b.row.speedup_vs_bsp).unwrap_or(std::cmp::Ordering::Equal)
    })?;

    let speedup = best.row.speedup_vs_bsp?;
    let pace = if speedup >= 1.0 {
        format!("{} sooner", numbers::times(speedup))
    } else {
        format!("{} later", numbers::times(1.0 / speedup))
    };

    let bytes = |run: &ComparedRun| {
        run.row.summary.wan_bytes_to_target.unwrap_or(run.row.summary.wan_bytes)
    };
    let (own, theirs) = (bytes(best) as f64, bytes(bsp) as f64);
    let traffic = match (own > 0.0 && theirs > 0.0, own <= theirs) {
        (false, _) => String::new(),
        (true, true) => format!(", with {} fewer WAN bytes", numbers::times(theirs / own)),
        (true, false) => format!(", with {} more WAN bytes", numbers::times(own / theirs)),
    };

    let lan = best.row.times_lan.map_or(String::new(), |times| {
        format!("; that is {} the time that BSP takes on the LAN", numbers::times(times))
    });

    let remote = &best.row.summary.remote_sync;
    Some(format!("On {wan}, {remote} reaches the target {pace} than bsp{traffic}{lan}."))
}

/// `bsp, ssp and asp`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
