//! What runs over several seeds say in sentences, and which differences are no larger than the noise.
//!
//! Runs of one seed are compared with each other: they share the initial model and the data. A difference is more
//! than noise where it has the same sign with every seed. If a coin decided, that would be so with N seeds once in
//! 2^(N-1) times.

use std::cmp::Ordering;

use super::{SeedCell, SeededComparison, Spread};
use crate::comparison::{CompareRow, LAN};
use crate::text::numbers;
use crate::text::phrases::range;
use crate::verdicts::{is_even, listed};

/// A sentence or two for each WAN with BSP, or one that says why times are not compared; without BSP one for each cell.
pub(crate) fn seed_verdicts(seeds: &SeededComparison) -> Vec<String> {
    let cells = seeds.cells();
    let is_comparison = cells.iter().any(|cell| cell.remote() == BSP && cell.wan() != LAN);
    let why_not = seeds.comparisons().iter().find_map(|(_, one)| one.why_not_compared());
    let mut sentences: Vec<String> = match (is_comparison, why_not) {
        (true, Some(why)) => vec![why.into()],
        (true, None) => seeds.wans().iter().flat_map(|wan| on_wan(&cells, wan)).collect(),
        (false, _) => {
            cells.iter().filter(|cell| cells.len() == 1 || cell.wan() != LAN).map(alone).collect()
        }
    };
    if seeds.seeds().len() == 1 {
        sentences.push("One seed does not show how large the noise is.".into());
    }
    sentences
}

/// How the fastest of the other models compares with BSP, and which are as fast as it.
fn on_wan(cells: &[SeedCell<'_>], wan: &str) -> Vec<String> {
    let on = || cells.iter().filter(|cell| cell.wan() == wan && wan != LAN);
    let Some(bsp) = on().find(|cell| cell.remote() == BSP) else { return Vec::new() };
    let others = || on().filter(|cell| cell.remote() != BSP && cell.reached() > 0);
    let by_pace = |a: &&SeedCell<'_>, b: &&SeedCell<'_>| {
        let paces = pace(a, bsp).total_cmp(&pace(b, bsp));
        paces.then_with(|| median_time(a).total_cmp(&median_time(b)))
    };
    let Some(best) = others().min_by(by_pace) else { return Vec::new() };

    if best.paired(bsp).next().is_none() {
        return Vec::new();
    }
    let mut sentences = vec![format!("On {wan}, {}.", against(best, bsp))];
    let as_fast: Vec<&str> = others()
        .filter(|cell| !std::ptr::eq(*cell, best) && Paired::of(cell, best).is_noise())
        .map(SeedCell::remote)
        .collect();
    if !as_fast.is_empty() {
        let (names, verb) = (listed(&as_fast), if as_fast.len() == 1 { "is" } else { "are" });
        let best = best.remote();
        sentences.push(format!("On {wan}, {names} {verb} as fast as {best} within the noise."));
    }
    sentences
}

/// The time of a model relative to BSP's in the median, where `never` is later than any.
fn pace(cell: &SeedCell<'_>, bsp: &SeedCell<'_>) -> f64 {
    let ratios = cell.paired(bsp).map(|(own, bsp)| {
        let time = |row: &CompareRow| row.summary.time_to_target_s;
        time(own).map(|own| time(bsp).map_or(0.0, |bsp| own / bsp))
    });
    Spread::of(ratios).and_then(|spread| spread.median).unwrap_or(f64::INFINITY)
}

/// Seconds to the target in the median; infinite where that is never.
fn median_time(cell: &SeedCell<'_>) -> f64 {
    let time = cell.spread_to_target(|summary| summary.time_to_target_s);
    time.median.unwrap_or(f64::INFINITY)
}

/// `asp reaches the target 3.10× sooner than bsp (2.90× to 3.42× over 5 seeds), with …`.
fn against(best: &SeedCell<'_>, bsp: &SeedCell<'_>) -> String {
    let paired = Paired::of(best, bsp);
    let remote = best.remote();
    let speedup = best.spread_of_ratios(|row| row.speedup_vs_bsp);
    let seeds = numbers::counted(paired.all(), "seed");

    // A ratio needs that both reach the target.
    let ratios = best.runs.iter().filter(|(_, run)| run.row.speedup_vs_bsp.is_some()).count();
    let ratios = numbers::counted(ratios, "seed");

    let mut said = match (paired.is_noise(), speedup) {
        _ if bsp.reached() == 0 => {
            let (reached, median) = (best.reached(), median_time(best));
            let after = match median.is_finite() {
                true => format!(" after {} in the median", numbers::seconds(median)),
                false => String::new(),
            };
            format!(
                "{remote} reaches the target with {reached} of {seeds}{after}, and bsp with none"
            )
        }
        (true, speedup) => {
            let median = speedup.and_then(|spread| spread.median);
            let median = median.map_or_else(String::new, |median| {
                format!(" ({} its speed in the median)", numbers::times(median))
            });
            format!(
                "{remote} and bsp reach the target equally fast within the noise: {remote} is sooner with {} of {seeds}{median}",
                paired.sooner
            )
        }
        (false, Some(speedup)) => {
            let (ratio, way) = match paired.sooner > 0 {
                true => (speedup, "sooner"),
                false => (inverse(speedup), "later"),
            };
            let pace = match ratio.median {
                Some(median) if is_even(median) => "as soon as".to_owned(),
                median => format!("{} {way} than", numbers::shown(median, numbers::times)),
            };
            let over = range(&ratio, numbers::NONE, numbers::times);
            format!("{remote} reaches the target {pace} bsp ({over} over {ratios})")
        }
        (false, None) => {
            format!("{remote} reaches the target, and bsp does not, over {seeds}")
        }
    };

    said += &traffic(best, bsp);
    if let Some(median) = best.spread_of_ratios(|row| row.times_lan).and_then(|lan| lan.median) {
        let times = numbers::times(median);
        said += &format!("; that is {times} the time that BSP takes on the LAN");
    }
    let missed = best.runs.len() - best.reached();
    if missed > 0 {
        said += &format!("; {remote} does not reach it with {missed} of {seeds}");
    }
    said
}

fn inverse(Spread { median, low, high }: Spread) -> Spread {
    let inverse = |value: Option<f64>| value.map(|value| 1.0 / value);
    Spread { median: inverse(median), low: inverse(high), high: inverse(low) }
}

/// `, with 11.9× fewer WAN bytes`, in the median over the seeds.
fn traffic(best: &SeedCell<'_>, bsp: &SeedCell<'_>) -> String {
    let bytes = |row: &CompareRow| {
        let summary = &row.summary;
        summary.wan_bytes_to_target.unwrap_or(summary.wan_bytes) as f64
    };
    let ratios = best.paired(bsp).map(|(own, bsp)| (bytes(own), bytes(bsp)));
    let ratios = ratios.filter(|(own, bsp)| *own > 0.0 && *bsp > 0.0);
    let ratios = Spread::of(ratios.map(|(own, bsp)| Some(bsp / own)));
    let Some(Spread { median: Some(median), low: Some(low), high: Some(high) }) = ratios else {
        return String::new();
    };
    if low < 1.0 && high > 1.0 {
        ", with as many WAN bytes within the noise".into()
    } else if is_even(median) {
        ", with as many WAN bytes".into()
    } else if median > 1.0 {
        format!(", with {} fewer WAN bytes", numbers::times(median))
    } else {
        format!(", with {} more WAN bytes", numbers::times(1.0 / median))
    }
}

/// What one model does over the seeds, where there is nothing to compare it with.
fn alone(cell: &SeedCell<'_>) -> String {
    let (remote, wan) = (cell.remote(), cell.wan());
    let seeds = numbers::counted(cell.runs.len(), "seed");
    let (reached, all) = (cell.reached(), cell.runs.len());
    let meets = match cell.first().target_objective {
        Some(_) => "reaches the target",
        None => "meets its stop rule",
    };
    if reached == 0 {
        return format!("On {wan}, {remote} {meets} with none of {seeds}.");
    }
    let time = cell.spread_to_target(|summary| summary.time_to_target_s);
    let median = time.median.map_or_else(|| "never".into(), numbers::seconds);
    if all == 1 {
        return format!("On {wan}, {remote} {meets} after {median}.");
    }
    let over = range(&time, "never", numbers::seconds);
    format!(
        "On {wan}, {remote} {meets} with {reached} of {seeds}, after {median} in the median ({over})."
    )
}

/// With how many seeds one model reaches the target sooner than another, and with how many later.
struct Paired {
    sooner: usize,
    later: usize,
    equal: usize,
}

impl Paired {
    fn of(one: &SeedCell<'_>, other: &SeedCell<'_>) -> Self {
        let mut paired = Self { sooner: 0, later: 0, equal: 0 };
        for (own, there) in one.paired(other) {
            let time = |row: &CompareRow| row.summary.time_to_target_s.unwrap_or(f64::INFINITY);
            match time(own).total_cmp(&time(there)) {
                Ordering::Less => paired.sooner += 1,
                Ordering::Greater => paired.later += 1,
                Ordering::Equal => paired.equal += 1,
            }
        }
        paired
    }

    fn all(&self) -> usize {
        self.sooner + self.later + self.equal
    }

    fn is_noise(&self) -> bool {
        self.sooner < self.all() && self.later < self.all()
    }
}

const BSP: &str = "bsp";
