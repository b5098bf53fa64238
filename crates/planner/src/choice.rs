//! Which candidate is chosen, and why.

use gaia_report::figures;
use gaia_report::plan::{Choice, PlanRow, Verdict};

/// A row, and the `[sync.remote]` block of its candidate.
pub(crate) struct Choosable<'a> {
    pub(crate) row: &'a PlanRow,
    pub(crate) toml: &'a str,
    /// When it is at what is near the best objective of all candidates, where it is.
    pub(crate) near_best_s: Option<f64>,
}

/// The candidate that is first at the target. Among those that are about as fast, the one with the least cost, if there
/// are prices, or else with the fewest bytes.
///
/// Candidates that reached the target come before those that were extrapolated, and these before the others. Of these it is the
/// first near the best objective of all: after equal clocks the one whose clocks are longest has had most time. Where none is, it is
/// the one with the lowest objective. `budget` is what each was simulated for, in words.
pub(crate) fn choose(candidates: &[Choosable<'_>], budget: &str) -> Option<Choice> {
    let with = |verdict: Verdict| {
        let all = candidates.iter().filter(move |candidate| candidate.row.verdict == verdict);
        all.collect::<Vec<_>>()
    };
    let (reached, extrapolated, others) =
        (with(Verdict::Reached), with(Verdict::Extrapolated), with(Verdict::NotReached));

    if !reached.is_empty() {
        return Some(first_at_target(&reached, &sooner(&reached, &extrapolated)));
    }
    if !extrapolated.is_empty() {
        let doubt = format!(" No candidate was there within {budget}, so this is extrapolated.");
        return Some(first_at_target(&extrapolated, &doubt));
    }
    let near_best = |candidate: &Choosable<'_>| candidate.near_best_s.unwrap_or(f64::INFINITY);
    let best = others.iter().min_by(|a, b| {
        let by_objective = || a.row.held_objective.total_cmp(&b.row.held_objective);
        near_best(a).total_cmp(&near_best(b)).then_with(by_objective)
    })?;
    if let Some(time_s) = best.near_best_s {
        let time = figures::seconds(time_s);
        let reason = format!(
            "No candidate is at the target within {budget}; it is the first near the best objective then, after {time}."
        );
        return Some(chosen(best, reason));
    }
    let objective = figures::objective(best.row.held_objective);
    let reason = format!(
        "No candidate is at the target within {budget}; its objective is the lowest then, {objective}."
    );
    Some(chosen(best, reason))
}

/// Which candidate may be at the target before all that were there, by where its course leads. Empty where none may.
fn sooner(reached: &[&Choosable<'_>], extrapolated: &[&Choosable<'_>]) -> String {
    let earliest = |of: &[&Choosable<'_>]| {
        let timed = of.iter().filter_map(|candidate| {
            Some((candidate.row.time_to_target_s?, candidate.row.candidate.clone()))
        });
        timed.min_by(|(a, _), (b, _)| a.total_cmp(b))
    };
    match (earliest(reached), earliest(extrapolated)) {
        (Some((first, _)), Some((guess, name))) if guess < first => {
            format!(
                " {name} may be there sooner, which is extrapolated: after {}.",
                figures::seconds(guess)
            )
        }
        _ => String::new(),
    }
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
        let others = candidates.iter().filter(|other| !std::ptr::eq(other.row, best.row));
        let next = others.min_by(|a, b| time(a).total_cmp(&time(b)));
        reason += &next.map_or_else(
            || ".".into(),
            |next| {
                let (name, ratio) = (&next.row.candidate, time(next) / time(best));
                if ratio <= AS_FAST {
                    return format!(": one of the first. {name} is about as fast.");
                }
                let times = figures::times(ratio);
                format!(": the first of all. The next, {name}, takes {times} as long.")
            },
        );
    }
    chosen(best, reason + doubt)
}

fn chosen(candidate: &Choosable<'_>, reason: String) -> Choice {
    let Choosable { row, toml, near_best_s: _ } = candidate;
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
        check_near(rows, &vec![None; rows.len()], expected, because);
    }

    #[track_caller]
    fn check_near(rows: &[PlanRow], near: &[Option<f64>], expected: &str, because: &str) {
        let all = rows.iter().zip(near);
        let all =
            all.map(|(row, near_best_s)| Choosable { row, toml: "", near_best_s: *near_best_s });
        let all: Vec<Choosable<'_>> = all.collect();
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
        let twin = row("twin", Verdict::Reached, 10.1, 6_000, 0.0);
        check(&[twin, fast.clone()], "fast", "one of the first. twin is about as fast.");
        check(
            &[guess.clone(), fast],
            "fast",
            "guess may be there sooner, which is extrapolated: after",
        );
        check(&[guess], "guess", "extrapolated");
    }

    #[test]
    fn without_a_target_in_sight_the_lowest_objective_is_chosen_and_diverged_runs_never() {
        let low = row("low", Verdict::NotReached, 0.5, 0, 0.0);
        let high = row("high", Verdict::NotReached, 0.9, 0, 0.0);
        let gone = row("gone", Verdict::Diverged, 0.1, 0, 0.0);
        check(&[gone.clone(), high.clone(), low.clone()], "low", "within 200 clocks");
        // Its clocks are so much shorter that it is near the lowest objective before the one that has it.
        let near = [Some(3.0), Some(90.0)];
        check_near(
            &[high, low],
            &near,
            "high",
            "the first near the best objective then, after 3.0",
        );
        let gone = Choosable { row: &gone, toml: "", near_best_s: None };
        assert_eq!(choose(&[gone], "200 clocks"), None);
    }
}
