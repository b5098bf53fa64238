//! Who gets which example of a set that is read once, in the order in which it comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::RngExt;
use rand::seq::SliceRandom;

use gaia_core::types::{Random, Seed};
use gaia_ml::config::Split;

/// How the examples of a home are held out and dealt to its workers: by the same rules as in memory
/// (those of `homes/`), and with the same numbers of examples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dealing {
    /// All examples.
    pub(crate) examples: usize,
    /// How many of them are held out.
    pub(crate) held_out: usize,
    pub(crate) split: Split,
    /// The share of the training examples that `split` decides.
    pub(crate) skew: f64,
    /// At least 1.
    pub(crate) workers: usize,
    pub(crate) seed: Seed,
}

/// Who gets an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    HeldOut,
    Worker(usize),
}

/// Deals examples one by one.
pub(super) struct Dealer {
    kinds: Kinds,
    by_group: ByGroup,
    even: Rounds,
}

/// What becomes of an example, whatever its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    HeldOut,
    /// Its group decides.
    Skewed,
    Even,
}

/// Draws the kind of each example in turn.
struct Kinds {
    held_out: Selection,
    skewed: Selection,
}

/// Chooses a number of examples, all choices equally likely, while they pass by (Knuth, The Art of Computer Programming,
/// volume 2, section 3.4.2, algorithm S).
struct Selection {
    left: usize,
    wanted: usize,
    random: Random,
}

/// Where groups decide, who gets an example of a group.
enum ByGroup {
    /// Of each group its worker.
    Whole(Vec<usize>),
    /// Examples sorted by group are cut: of each group the place of its next example, and the number of all examples.
    Cut { next: Vec<usize>, all: usize, workers: usize },
}

/// Gives one example to each worker, in an order drawn anew, again and again.
struct Rounds {
    order: Vec<usize>,
    dealt: usize,
    random: Random,
}

impl Dealing {
    /// How many training examples their groups decide on.
    fn skewed(&self) -> usize {
        skewed_count(self.split, self.skew, self.examples - self.held_out)
    }

    fn kinds(&self) -> Kinds {
        let train = self.examples - self.held_out;
        Kinds {
            held_out: Selection::new(self.examples, self.held_out, self.seed.child("held out")),
            skewed: Selection::new(train, self.skewed(), self.seed.child("order")),
        }
    }

    /// Counts the examples that their groups decide on, by group, so that [`Self::dealer`] can know them. `None` where there
    /// are none to count.
    pub(super) fn census(&self) -> Option<Census> {
        (self.skewed() > 0).then(|| Census { kinds: self.kinds(), counts: Vec::new() })
    }

    /// Deals the examples. `census` has seen all of them.
    pub(super) fn dealer(&self, census: Option<Census>) -> Dealer {
        let counts = census.map_or_else(Vec::new, |census| census.counts);
        let groups = self.seed.child("groups");
        let by_group = match self.split {
            Split::ByLabel => ByGroup::cut(&counts, self.workers, groups),
            Split::Even | Split::ByUser => ByGroup::whole(&counts, self.workers, groups),
        };
        let (order, random) = ((0..self.workers).collect(), self.seed.child("rounds").random());
        let even = Rounds { order, dealt: self.workers, random };
        Dealer { kinds: self.kinds(), by_group, even }
    }
}

/// Counts by group.
pub(super) struct Census {
    kinds: Kinds,
    counts: Vec<usize>,
}

impl Census {
    /// Sees the next example.
    pub(super) fn see(&mut self, group: u32) {
        if self.kinds.next() == Kind::Skewed {
            let group = group as usize;
            self.counts.resize(self.counts.len().max(group + 1), 0);
            self.counts[group] += 1;
        }
    }
}

impl Dealer {
    /// Who gets the next example.
    pub(super) fn next(&mut self, group: u32) -> Receiver {
        match self.kinds.next() {
            Kind::HeldOut => Receiver::HeldOut,
            Kind::Skewed => Receiver::Worker(self.by_group.next(group as usize)),
            Kind::Even => Receiver::Worker(self.even.next()),
        }
    }
}

impl Kinds {
    fn next(&mut self) -> Kind {
        if self.held_out.next() {
            Kind::HeldOut
        } else if self.skewed.next() {
            Kind::Skewed
        } else {
            Kind::Even
        }
    }
}

impl Selection {
    fn new(all: usize, wanted: usize, seed: Seed) -> Self {
        Self { left: all, wanted, random: seed.random() }
    }

    /// Whether the next one is chosen.
    fn next(&mut self) -> bool {
        let is_chosen =
            self.wanted > 0 && self.random.random_range(0..self.left.max(1)) < self.wanted;
        self.left = self.left.saturating_sub(1);
        self.wanted -= usize::from(is_chosen);
        is_chosen
    }
}

impl ByGroup {
    /// Each group to one worker: the largest first, to the worker that has the fewest examples.
    fn whole(counts: &[usize], workers: usize, seed: Seed) -> Self {
        let mut groups: Vec<usize> = (0..counts.len()).filter(|&group| counts[group] > 0).collect();
        groups.shuffle(&mut seed.random());
        groups.sort_by_key(|&group| Reverse(counts[group]));
        let sizes = groups.iter().map(|&group| counts[group]);
        let mut worker_of = vec![0; counts.len()];
        for (&group, worker) in groups.iter().zip(least_loaded(sizes, workers)) {
            worker_of[group] = worker;
        }
        Self::Whole(worker_of)
    }

    /// Examples sorted by group, groups in a random order, cut into as many even runs as there are workers.
    fn cut(counts: &[usize], workers: usize, seed: Seed) -> Self {
        let mut groups: Vec<usize> = (0..counts.len()).collect();
        groups.shuffle(&mut seed.random());
        let (mut next, mut all) = (vec![0; counts.len()], 0);
        for group in groups {
            next[group] = all;
            all += counts[group];
        }
        Self::Cut { next, all, workers }
    }

    fn next(&mut self, group: usize) -> usize {
        match self {
            Self::Whole(workers) => workers[group],
            Self::Cut { next, all, workers } => {
                let place = next[group];
                next[group] += 1;
                (place as u128 * *workers as u128 / *all as u128) as usize
            }
        }
    }
}

impl Rounds {
    fn next(&mut self) -> usize {
        if self.dealt == self.order.len() {
            self.order.shuffle(&mut self.random);
            self.dealt = 0;
        }
        self.dealt += 1;
        self.order[self.dealt - 1]
    }
}

/// How many of some examples `split` decides on, of which that is the share `skew`, 0 to 1.
pub(crate) fn skewed_count(split: Split, skew: f64, examples: usize) -> usize {
    match split {
        Split::Even => 0,
        Split::ByUser | Split::ByLabel => ((examples as f64 * skew).round() as usize).min(examples),
    }
}

/// Of groups of these sizes, in this order, the worker of each: the one that has the fewest examples then.
pub(crate) fn least_loaded(
    sizes: impl Iterator<Item = usize>,
    workers: usize,
) -> impl Iterator<Item = usize> {
    let mut least: BinaryHeap<Reverse<(usize, usize)>> =
        (0..workers).map(|worker| Reverse((0, worker))).collect();
    sizes.map_while(move |size| {
        let Reverse((held, worker)) = least.pop()?;
        least.push(Reverse((held + size, worker)));
        Some(worker)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(dealing: Dealing, groups: &[u32]) -> Vec<Receiver> {
        let mut census = dealing.census();
        if let Some(census) = &mut census {
            groups.iter().for_each(|group| census.see(*group));
        }
        let mut dealer = dealing.dealer(census);
        groups.iter().map(|group| dealer.next(*group)).collect()
    }

    fn counts(dealt: &[Receiver], workers: usize) -> Vec<usize> {
        let of = |worker| dealt.iter().filter(|to| **to == Receiver::Worker(worker)).count();
        (0..workers).map(of).collect()
    }

    #[test]
    fn workers_get_as_many_as_in_memory_and_what_is_held_out_is_exact() {
        for (split, skew) in [
            (Split::Even, 1.0),
            (Split::ByLabel, 1.0),
            (Split::ByLabel, 0.3),
            (Split::ByLabel, 0.0),
        ] {
            let (examples, held_out, workers, seed) = (1000, 103, 7, Seed(3));
            let dealing = Dealing { examples, held_out, split, skew, workers, seed };
            let groups: Vec<u32> = (0..1000).map(|at| at * at % 10).collect();
            let dealt = dealt(dealing, &groups);
            assert_eq!(dealt.iter().filter(|to| **to == Receiver::HeldOut).count(), 103);
            let counts = counts(&dealt, workers);
            assert_eq!(counts.iter().sum::<usize>(), 897);
            assert!(counts.iter().all(|count| (127..=130).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn a_group_stays_whole_by_user_and_is_cut_in_few_by_label() {
        let groups: Vec<u32> = (0..3000).map(|at| at % 30).collect();
        let of_groups = |split| {
            let (examples, held_out, skew, workers, seed) = (3000, 0, 1.0, 5, Seed(1));
            let dealt = dealt(Dealing { examples, held_out, split, skew, workers, seed }, &groups);
            let workers_of = |group: u32| {
                let own = dealt.iter().zip(&groups).filter(|(_, other)| **other == group);
                own.map(|(to, _)| format!("{to:?}")).collect::<std::collections::BTreeSet<_>>()
            };
            (0..30).map(|group| workers_of(group).len()).collect::<Vec<_>>()
        };
        assert_eq!(of_groups(Split::ByUser), [1; 30]);
        assert!(of_groups(Split::ByLabel).iter().all(|workers| *workers <= 2));
        assert!(of_groups(Split::Even).iter().all(|workers| *workers == 5));
    }

    #[test]
    fn a_selection_takes_as_many_as_wanted_and_each_as_often_as_others() {
        let mut taken = [0; 10];
        for seed in 0..2000 {
            let mut selection = Selection::new(10, 3, Seed(seed));
            let chosen: Vec<usize> = (0..10).filter(|_| selection.next()).collect();
            assert_eq!(chosen.len(), 3);
            chosen.into_iter().for_each(|at| taken[at] += 1);
        }
        assert!(taken.iter().all(|count| (500..700).contains(count)), "{taken:?}");
    }
}
