//! Which candidate is chosen, and why.

use gaia_report::figures;
use gaia_report::plan::{Choice, PlanRow, Verdict};

/// A row, and the `[sync.remote]` block of its candidate.
pub(crate) struct Choosable<'a> {
    pub(crate) row: &'a PlanRow,
    pub(crate) toml: &'a str,
}

/// The candidate that is first at the target. Among those that are about as fast, the one with the least cost, if there
/// are prices, or else with the fewest bytes.
///
/// Candidates that reached the target come before those that were extrapolated, and these before the others, of which
/// the one with the lowest objective is chosen. `budget` is what each was simulated for, in words.
pub(crate) fn choose(candidates: &[Choosable<'_>], budget: &str) -> Option<Choice> {
    let with = |verdict: Verdict| {
        let all = candidates.iter().filter(move |candidate| candidate.row.verdict == verdict);
        all.collect::<Vec<_>>()
    };
    let (reached, extrapolated, others) =
        (with(Verdict::Reached), with(Verdict::Extrapolated), with(Verdict::NotReached));

    if !reached.is_empty() {
        return Some(first_at_target(&reached, ""));
    }
    if !extrapolated.is_empty() {
        let doubt = format!(" No candidate was there within {budget}, so this is extrapolated.");
        return Some(first_at_target(&extrapolated, &doubt));
    }
    let best =
        others.iter().min_by(|a, b| a.row.held_objective.total_cmp(&b.row.held_objective))?;
    let objective = figures::objective(best.row.held_objective);
    let reason = format!(
        "No candidate is at the target within {budget}; its objective is the lowest then, {objective}."
    );
    Some(chosen(best, reason))
}

fn first_at_target(candidates: &[&Choosable<'_>], doubt: &str) -> Choice {
    let time = |candidate: &Choosable<'_>| candidate.row.time_to_target_s.unwrap_or(f64::INFINITY);
    let cost = |candidate: &Choosable<'_>| candidate.row.cost_usd.unwrap_or(0.0);
    let bytes = |candidate: &Choosable<'_>| candidate.row.wan_bytes_to_target.unwrap_or(u64::MAX);

    let least = candidates.iter().map(|candidate| time(candidate)).fold(f64::INFINITY, f64::min);
    let as_fast = candidates.iter().filter(|candidate| time(candidate) <= AS_FAST * least);
    let as_fast: Vec<&Choosable<'_>> = as_fast.copied().collect();
    let best = as_fast
        .iter()
        .min_by(|a, b| {
            let by_time = || time(a).total_cmp(&time(b));
            cost(a).total_cmp(&cost(b)).then_with(|| bytes(a).cmp(&bytes(b))).then_with(by_time)
        })
        .expect("the fastest is among them");

    let mut reason = format!(
        "It is predicted to be at the target after {}, with {} over the WAN",
        figures::seconds(time(best)),
        figures::bytes(bytes(best)),
    );
    if let Some(fastest) = as_fast.iter().find(|candidate| time(candidate) < time(best)) {
        let (its, other) = (figures::dollars(cost(best)), figures::dollars(cost(fastest)));
        let saved = if its != other {
            format!("{its} instead of {other}")
        } else {
            format!("where {} sends {}", fastest.row.candidate, figures::bytes(bytes(fastest)))
        };
        reason += &format!(": within {:.0} % of the fastest, {saved}.", 100.0 * (AS_FAST - 1.0));
    } else {
        let slower = candidates.iter().filter(|candidate| time(candidate) > time(best));
        let next = slower.min_by(|a, b| time(a).total_cmp(&time(b)));
        reason += &next.map_or_else(
            || ".".into(),
            |next| {
                let times = figures::times(time(next) / time(best));
                format!(
                    ": the first of all. The next, {}, takes {times} as long.",
                    next.row.candidate
                )
            },
        );
    }
    chosen(best, reason + doubt)
}

fn chosen(candidate: &Choosable<'_>, reason: String) -> Choice {
    let Choosable { row, toml } = candidate;
    Choice { candidate: row.candidate.clone(), reason, toml: (*toml).to_owned() }
}

/// How much later than the fastest a candidate may be at the target and count as fast. One seed says no more.
const AS_FAST: f64 = 1.05;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row of a candidate that was at the target, or is extrapolated to be, after so long.
    pub(crate) fn row(name: &str, verdict: Verdict, time: f64, bytes: u64, cost: f64) -> PlanRow {
        let is_timed = matches!(verdict, Verdict::Reached | Verdict::Extrapolated);
        PlanRow {
            candidate: name.into(),
            is_own: false,
            settings: Vec::new(),
            verdict,
            time_to_target_s: is_timed.then_some(time),
            clocks_to_target: is_timed.then_some(1),
            wan_bytes_to_target: is_timed.then_some(bytes),
            cost_usd: is_timed.then_some(cost),
            memory_bytes: 0,
            simulated_clocks: 1,
            simulated_s: 1.0,
            simulated_wan_bytes: 1,
            held_objective: time,
        }
    }

    #[track_caller]
    fn check(rows: &[PlanRow], expected: &str, because: &str) {
        let all: Vec<Choosable<'_>> = rows.iter().map(|row| Choosable { row, toml: "" }).collect();
        let choice = choose(&all, "200 clocks").unwrap();
        assert_eq!(choice.candidate, expected, "{choice:?}");
        assert!(choice.reason.contains(because), "{choice:?}");
    }

    #[test]
    fn the_fastest_is_chosen_and_of_those_about_as_fast_the_cheapest() {
        let (reached, extrapolated) = (Verdict::Reached, Verdict::Extrapolated);
        let fast = row("fast", reached.clone(), 10.0, 5_000, 0.0);
        let lean = row("lean", reached.clone(), 10.4, 1_000, 0.0);
        let slow = row("slow", reached.clone(), 20.0, 10, 0.0);
        check(&[slow.clone(), fast.clone()], "fast", "takes 2.00× as long");
        check(&[fast.clone(), lean, slow], "lean", "where fast sends 5.00 kB");
        let cheap = row("cheap", reached, 10.4, 9_000, 1.0);
        let dear = row("dear", Verdict::Reached, 10.0, 1_000, 2.0);
        check(&[dear, cheap], "cheap", "instead of");
        let guess = row("guess", extrapolated, 1.0, 1, 0.0);
        check(&[guess.clone(), fast], "fast", "after 10.0 s");
        check(&[guess], "guess", "extrapolated");
    }

    #[test]
    fn without_a_target_in_sight_the_lowest_objective_is_chosen_and_diverged_runs_never() {
        let low = row("low", Verdict::NotReached, 0.5, 0, 0.0);
        let high = row("high", Verdict::NotReached, 0.9, 0, 0.0);
        let gone = row("gone", Verdict::Diverged, 0.1, 0, 0.0);
        check(&[gone.clone(), high, low], "low", "within 200 clocks");
        assert_eq!(choose(&[Choosable { row: &gone, toml: "" }], "200 clocks"), None);
    }
}
