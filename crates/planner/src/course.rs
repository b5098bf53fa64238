//! The course of an objective: where it crosses a target, what it holds, where it leads.

use gaia_core::coordinator::{Held, holds_target};
use gaia_telemetry::Progress;

/// The evaluations of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course<'a>(pub(crate) &'a [Progress]);

/// When and at what cost a target is met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Crossing {
    pub(crate) time_s: f64,
    pub(crate) clocks: u64,
    pub(crate) wan_bytes: u64,
}

impl Course<'_> {
    /// The mean objective of so many evaluations up to this one. `None` while there are fewer.
    fn mean_at(&self, at: usize, count: Held) -> Option<f64> {
        count.mean(self.0[..=at].iter().rev().map(|progress| progress.objective))
    }

    /// The mean objective of the evaluations up to this one, at most three. A single lucky evaluation changes it little.
    fn held_at(&self, at: usize) -> f64 {
        let found = HELD.0.min(at as u64 + 1);
        self.mean_at(at, Held(found)).unwrap_or(f64::NAN)
    }

    /// The mean objective of the last evaluations. Not a number without evaluations.
    pub(crate) fn held(&self) -> f64 {
        self.0.len().checked_sub(1).map_or(f64::NAN, |last| self.held_at(last))
    }

    /// Whether the model after the drain, which has this `objective`, is about what the last evaluations of copies are. Where it
    /// is not, copies have met a target on their own, before changes of others arrived.
    pub(crate) fn is_held_by(&self, objective: f64) -> bool {
        let evaluated = self.0.iter().map(|progress| progress.objective);
        self.0.is_empty() || holds_target(self.held(), evaluated, objective)
    }

    /// The first evaluation with which the mean of as many of the last ones as `held` says meets the target, as a run with that
    /// target stops.
    pub(crate) fn crossing(&self, target: f64, held: Held) -> Option<Crossing> {
        let meets = |at: &usize| self.mean_at(*at, held).is_some_and(|mean| mean <= target);
        let at = (0..self.0.len()).find(meets)?;
        let Progress { time_s, clock, wan_bytes, .. } = self.0[at];
        Some(Crossing { time_s, clocks: clock, wan_bytes })
    }

    /// Where the objective would meet the target if it went on as in its second half: the geometric mean of where a power of
    /// the clock and an exponential of the clock would meet it, between which courses of training lie. `None` where the
    /// objective does not fall there, or would need over [`FAR`] times the clocks.
    pub(crate) fn extrapolated(&self, target: f64) -> Option<Crossing> {
        let last = self.0.len().checked_sub(LEAST)? + LEAST - 1;
        let half = last.div_ceil(2);
        let (early, late) = (self.held_at(half), self.held_at(last));
        if !(target > 0.0 && late > 0.0 && late < early) {
            return None;
        }

        let end = &self.0[last];
        let (clocks, before) = (end.clock as f64, self.0[half].clock.max(1) as f64);
        let power = (early / late).ln() / (clocks / before).ln();
        let as_power = (late / target).powf(1.0 / power);
        let rate = (early / late).ln() / (clocks - before);
        let as_exponential = 1.0 + (late / target).ln() / rate / clocks;
        let factor = (as_power * as_exponential).sqrt();
        (factor.is_finite() && (1.0..=FAR).contains(&factor)).then(|| Crossing {
            time_s: end.time_s * factor,
            clocks: (clocks * factor).ceil() as u64,
            wan_bytes: (end.wan_bytes as f64 * factor) as u64,
        })
    }
}

/// An objective that the best course holds, with room for others that are nearly there: 2 % of the way from where training
/// begins. That is the worst first evaluation, but never above the initial model, so that a candidate which goes astray leaves the
/// target near the best. Where `untrained`, the objective of the initial model, is not known, the best first evaluation stands for
/// it. Not a number where no candidate trained.
pub(crate) fn near_the_best(courses: &[Course<'_>], untrained: Option<f64>) -> f64 {
    let first = || courses.iter().filter_map(|course| course.0.first()).map(|at| at.objective);
    let best = courses.iter().map(Course::held).fold(f64::INFINITY, f64::min);
    if !best.is_finite() {
        return f64::NAN;
    }
    let most = untrained.unwrap_or_else(|| first().fold(f64::INFINITY, f64::min));
    let start = first().fold(best, f64::max).min(most).max(best);
    best + ROOM * (start - best)
}

/// The evaluations whose mean counts where the run has no rule for it.
pub(crate) const HELD: Held = Held(3);
/// The fewest evaluations of a course that is extrapolated: each of its halves has a mean of its own.
const LEAST: usize = 6;
/// How many times its clocks a simulation is extrapolated at most.
const FAR: f64 = 10.0;
/// The share of the way to the best objective that others may lack.
const ROOM: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    fn course(objectives: &[f64]) -> Vec<Progress> {
        let at = |(at, objective): (usize, &f64)| Progress {
            time_s: (at + 1) as f64 * 2.0,
            clock: at as u64 + 1,
            objective: *objective,
            objective_mean: *objective,
            metric: 0.0,
            wan_bytes: (at as u64 + 1) * 100,
            data_centers: Vec::new(),
        };
        objectives.iter().enumerate().map(at).collect()
    }

    #[test]
    fn a_target_is_held_once_as_many_evaluations_are_there_on_the_mean() {
        let evaluations = course(&[3.0, 1.0, 3.0, 0.9, 1.0, 1.0]);
        let course = Course(&evaluations);
        assert_eq!(course.crossing(1.0, Held(1)).unwrap().clocks, 2);
        assert_eq!(course.crossing(1.0, Held(2)).unwrap().clocks, 5);
        assert_eq!(
            course.crossing(1.0, HELD).unwrap(),
            Crossing { time_s: 12.0, clocks: 6, wan_bytes: 600 }
        );
        assert_eq!(course.crossing(0.5, HELD), None);
        assert_eq!(course.crossing(9.0, Held(7)), None, "there are six");
    }

    #[test]
    fn where_no_candidate_has_trained_there_is_no_target_and_nobody_is_there() {
        assert!(near_the_best(&[], Some(1.386)).is_nan());
        assert!(near_the_best(&[Course(&[])], None).is_nan());
        let evaluations = course(&[3.0; 8]);
        assert_eq!(Course(&evaluations).crossing(f64::NAN, HELD), None);
        assert_eq!(Course(&evaluations).extrapolated(f64::NAN), None);
    }

    #[test]
    fn a_model_that_changes_under_way_have_spoilt_is_not_what_copies_were() {
        let evaluations = course(&[2.7, 1.0, 0.6, 0.6, 0.6]);
        assert!(Course(&evaluations).is_held_by(0.65) && Course(&evaluations).is_held_by(0.3));
        assert!(!Course(&evaluations).is_held_by(0.8) && !Course(&evaluations).is_held_by(6.7));
        assert!(Course(&[]).is_held_by(6.7));
    }

    #[test]
    fn a_candidate_that_goes_astray_leaves_the_target_near_the_best() {
        let [good, slow, astray] = [[1.2, 0.05, 0.05, 0.05], [1.3, 1.0, 0.9, 0.8], [48.0; 4]]
            .map(|objectives| course(&objectives));
        let check = |courses: &[&[Progress]], untrained: Option<f64>, start: f64| {
            let courses: Vec<Course<'_>> = courses.iter().copied().map(Course).collect();
            let found = near_the_best(&courses, untrained);
            let expect = 0.05 + 0.02 * (start - 0.05);
            assert!((found - expect).abs() < 1e-9, "{found}, expected {expect}");
        };
        check(&[&good, &slow], Some(1.386), 1.3);
        check(&[&good, &slow, &astray], Some(1.386), 1.386);
        check(&[&good, &slow, &astray], None, 1.2);
        check(&[&good, &slow], Some(f64::NAN), 1.3);
        check(&[&good, &slow], Some(0.01), 0.05);
    }

    #[test]
    fn a_course_goes_on_between_a_power_and_an_exponential_of_the_clock() {
        let of = |objective: fn(f64) -> f64| {
            course(&(1..=40).map(|clock| objective(f64::from(clock))).collect::<Vec<_>>())
        };
        // One needs 80 clocks, and the other would at the rate of its second half.
        let (power, exponential) = (of(|clock| 1.0 / clock), of(|clock| (-clock / 29.0).exp()));
        let found = Course(&power).extrapolated(1.0 / 80.0).unwrap();
        assert!((65..80).contains(&found.clocks), "{found:?}");
        let found = Course(&exponential).extrapolated((-80.0_f64 / 29.0).exp()).unwrap();
        assert!((80..125).contains(&found.clocks), "{found:?}");
        assert_eq!(Course(&power).extrapolated(1.0 / 20_000.0), None, "too far");
        assert_eq!(Course(&course(&[1.0; 40])).extrapolated(0.5), None, "does not fall");
        assert_eq!(Course(&course(&[1.0, 0.5])).extrapolated(0.4), None, "too short");
    }
}
