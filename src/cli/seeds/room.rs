//! How many runs go on at once.

use gaia_config::{DriverKind, Plan};

/// How many seeds go on at once, and how many runs of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) seeds: usize,
    /// Runs of one seed at once.
    pub(super) inside: usize,
    /// Whether memory allows fewer runs than there are processors for.
    pub(super) is_short_of_memory: bool,
}

/// What bounds the runs at once, in counts and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) processors: usize,
    pub(super) seeds: usize,
    /// Runs of a seed that may go on at once.
    pub(super) inside: usize,
    /// What the data of a seed takes.
    pub(super) data: u64,
    /// What the parameters of a run take.
    pub(super) model: u64,
    /// Bytes that are free, those of the first seed's data among them. `None` where the system does not say.
    pub(super) free: Option<u64>,
}

impl Room {
    /// One run after the other.
    pub(super) const ONE: Self = Self { seeds: 1, inside: 1, is_short_of_memory: false };

    /// As many seeds as there are processors, and where those are more, several runs of a seed; less where memory
    /// does not hold them.
    pub(super) fn within(bounds: Bounds) -> Self {
        let Bounds { processors, seeds, inside, data, model, free } = bounds;
        let fitting = |bytes: u64, each: u64| match bytes.checked_div(each) {
            Some(fitting) => usize::try_from(fitting).unwrap_or(usize::MAX).max(1),
            None => usize::MAX,
        };
        let wanted = processors.min(seeds).max(1);
        let wanted_inside = (processors / wanted).clamp(1, inside.max(1));
        let Some(free) = free else {
            return Self { seeds: wanted, inside: wanted_inside, is_short_of_memory: false };
        };

        let at_once = wanted.min(fitting(free, data + model));
        let of_each = (free / at_once as u64).saturating_sub(data);
        let wanted_inside = (processors / at_once).clamp(1, inside.max(1));
        let own = wanted_inside.min(fitting(of_each, model));
        let is_short_of_memory = at_once < wanted || own < wanted_inside;
        Self { seeds: at_once, inside: own, is_short_of_memory }
    }
}

/// Why runs of this plan go on one at a time. `None` where they need not.
pub(super) fn why_one_at_a_time(plan: &Plan) -> Option<&'static str> {
    match plan.driver {
        DriverKind::Emulated | DriverKind::Real => {
            Some("runs of this driver take real time, and would slow each other")
        }
        DriverKind::Simulated if plan.external().is_some() => Some("a script is one process"),
        DriverKind::Simulated => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bounds: Bounds, seeds: usize, inside: usize, is_short_of_memory: bool) {
        assert_eq!(Room::within(bounds), Room { seeds, inside, is_short_of_memory }, "{bounds:?}");
    }

    #[test]
    fn runs_share_the_processors_and_the_memory() {
        let bounds =
            Bounds { processors: 8, seeds: 3, inside: 5, data: 10, model: 10, free: Some(1_000) };
        check(bounds, 3, 2, false);
        check(Bounds { processors: 2, ..bounds }, 2, 1, false);
        check(Bounds { seeds: 1, ..bounds }, 1, 5, false);
        check(Bounds { inside: 1, ..bounds }, 3, 1, false);
        check(Bounds { free: Some(60), ..bounds }, 3, 1, true);
        check(Bounds { free: Some(40), ..bounds }, 2, 1, true);
        check(Bounds { free: Some(0), ..bounds }, 1, 1, true);
        check(Bounds { free: None, ..bounds }, 3, 2, false);
        check(Bounds { data: 0, model: 0, ..bounds }, 3, 2, false);
    }
}
