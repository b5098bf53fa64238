//! The outbox of a link: the updates that have not been sent. It is the only queue that may grow, and the model's size
//! bounds it.
//!
//! A server keeps the sum of all its updates, the *source*. Each outbox keeps the sum of what was sent on its link,
//! *shared*. The residual is their difference and is not stored. So a local update is one addition, however many links
//! there are, and an unsent residual merges with the next update. Law: per origin, link and parameter, sent + residual
//! = source, up to rounding.

mod ranked;
mod sweep;

pub use ranked::{Ranked, Residuals};
pub use sweep::Sweep;

use crate::codec::{Changes, fills_holes, quantise};
use crate::persist;
use crate::significance::{Scratch, Take};
use crate::simd::{PLACES_AHEAD, prefetch_at, prefetch_of};
use crate::store::Touched;
use crate::sync::ValueFormat;
use crate::types::{Clock, Paged};

/// Updates cut from an outbox for one frame.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Strictly ascending parameters of the shard.
    pub indexes: Vec<u32>,
    /// The change of each parameter, rounded to what the receiver decodes.
    pub values: Vec<f32>,
}

/// How many updates a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The most updates of a frame.
    pub frame: usize,
    /// The updates that leave in one clock, about. Their order does not matter.
    pub clock: usize,
}

/// The unsent updates of one link, in the order in which they are sent.
#[derive(Clone, Debug)]
pub enum Outbox {
    /// Marked parameters, in the order of the shard. For TAP and ASP's `paper` policy.
    Sweep(Sweep),
    /// Parameters ranked by significance. For ASP's `link` policy.
    Ranked(Ranked),
}

impl Batch {
    /// Removes all updates.
    pub fn clear(&mut self) {
        self.indexes.clear();
        self.values.clear();
    }

    /// Whether the batch has no update.
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Replaces its values by the residuals of its parameters. [`Self::leave`] then counts them as sent.
    fn read(&mut self, source: &[f32], shared: &Paged) {
        self.values.clear();
        let places = self.indexes.iter().enumerate().map(|(at, index)| {
            if let Some(later) = self.indexes.get(at + PLACES_AHEAD) {
                prefetch_at(source, *later as usize);
                prefetch_shared(shared, *later);
            }
            *index as usize
        });
        match shared.plain() {
            Some(shared) => self.values.extend(places.map(|place| source[place] - shared[place])),
            None => self.values.extend(places.map(|place| source[place] - shared.get(place))),
        }
    }

    /// Removes the parameters that `is_kept` does not keep. It is asked once about each.
    fn retain(&mut self, mut is_kept: impl FnMut(u32) -> bool) {
        let mut kept = 0;
        for at in 0..self.indexes.len() {
            let (index, value) = (self.indexes[at], self.values[at]);
            (self.indexes[kept], self.values[kept]) = (index, value);
            kept += usize::from(is_kept(index));
        }
        self.indexes.truncate(kept);
        self.values.truncate(kept);
    }

    /// Rounds the batch's residuals to `format` and adds them to `shared`. Only the rounding error remains in the
    /// residual.
    ///
    /// If the codec would fill the holes between the indexes with zeros, the residuals of the holes are added to the
    /// batch. They cost nothing there, and the receiver would mistake the zero of an announced parameter for its
    /// update. Returns whether holes were filled.
    fn leave(&mut self, source: &[f32], shared: &mut Paged, format: ValueFormat) -> bool {
        let filled = fills_holes(&self.indexes, format);
        if filled {
            self.fill_holes(source, shared);
        }
        quantise(&mut self.values, format);
        let carried = |place: usize, shared: f32, sent: f32| match format {
            ValueFormat::F32 => source[place],
            _ => shared + sent,
        };
        let sent = self.indexes.iter().map(|index| *index as usize).zip(&self.values);
        match shared.plain_mut() {
            Some(shared) => {
                for (at, (place, sent)) in sent.enumerate() {
                    if let Some(later) = self.indexes.get(at + PLACES_AHEAD) {
                        prefetch_at(shared, *later as usize);
                    }
                    shared[place] = carried(place, shared[place], *sent);
                }
            }
            None => sent.for_each(|(place, sent)| {
                shared.set(place, carried(place, shared.get(place), *sent));
            }),
        }
        filled
    }

    /// Adds all residuals between the first and the last index.
    fn fill_holes(&mut self, source: &[f32], shared: &Paged) {
        let (Some(&first), Some(&last)) = (self.indexes.first(), self.indexes.last()) else {
            return;
        };
        self.indexes.clear();
        self.indexes.extend(first..=last);
        self.read(source, shared);
    }
}

/// Asks for the memory of what was sent of a parameter.
fn prefetch_shared(shared: &Paged, place: u32) {
    shared.find(place as usize).into_iter().for_each(prefetch_of);
}

impl Outbox {
    /// Marks parameters whose source changed in the clock that ends at `clock`.
    ///
    /// # Panics
    /// If the outbox is ranked.
    pub fn mark(&mut self, parameters: &Touched, clock: Clock) {
        match self {
            Self::Sweep(sweep) => sweep.mark(parameters, clock),
            Self::Ranked(_) => unreachable!("a ranking is not marked"),
        }
    }

    /// Ranks the residuals at `clock`.
    ///
    /// # Panics
    /// If the outbox is a sweep.
    pub fn rank(
        &mut self,
        residuals: Residuals<'_>,
        take: Take,
        clock: Clock,
        scratch: &mut Scratch,
    ) {
        match self {
            Self::Ranked(ranked) => ranked.rank(residuals, take, clock, scratch),
            Self::Sweep(_) => unreachable!("a sweep is not ranked"),
        }
    }

    /// As [`Self::rank`], but of what must be sent, the part that is [`Self::ahead`] by at most `first` is still sent before all
    /// others.
    ///
    /// # Panics
    /// If the outbox is a sweep.
    pub fn rank_behind(
        &mut self,
        first: usize,
        residuals: Residuals<'_>,
        take: Take,
        clock: Clock,
        scratch: &mut Scratch,
    ) {
        match self {
            Self::Ranked(ranked) => ranked.rank_behind(first, residuals, take, clock, scratch),
            Self::Sweep(_) => unreachable!("a sweep is not ranked"),
        }
    }

    /// Cuts the updates of one frame into `batch`. They count as sent. Returns by how much the outbox has come forward towards what
    /// was [`Self::ahead`].
    pub fn take(
        &mut self,
        source: &[f32],
        format: ValueFormat,
        room: Room,
        batch: &mut Batch,
        scratch: &mut Scratch,
    ) -> usize {
        match self {
            Self::Sweep(sweep) => sweep.take(source, format, room.frame, batch),
            Self::Ranked(ranked) => ranked.take(source, format, room, batch, scratch),
        }
    }

    /// Marks as announced all parameters that must be sent, except the first `fitting`. Returns those that were not
    /// announced before, ascending.
    pub fn announce(&mut self, fitting: usize, scratch: &mut Scratch) -> Vec<u32> {
        match self {
            Self::Sweep(sweep) => sweep.announce(fitting),
            Self::Ranked(ranked) => ranked.announce(fitting, scratch),
        }
    }

    /// The latest clock of which everything that must be sent was sent. Returned once for each clock.
    pub fn covered(&mut self) -> Option<Clock> {
        match self {
            Self::Sweep(sweep) => sweep.covered(),
            Self::Ranked(ranked) => ranked.covered(),
        }
    }

    /// The number of parameters that are due and not sent.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Sweep(sweep) => sweep.waiting(),
            Self::Ranked(ranked) => ranked.waiting(),
        }
    }

    /// The number of parameters that must be sent and are not: without those of a ranked outbox that are sent only if
    /// the link has room.
    pub fn hard_waiting(&self) -> usize {
        match self {
            Self::Sweep(sweep) => sweep.waiting(),
            Self::Ranked(ranked) => ranked.hard_waiting(),
        }
    }

    /// How far the outbox has to come until all that must be sent at this time was sent: the parameters that a sweep passes,
    /// or those of a ranking. What is marked meanwhile, and what fills holes, does not count.
    pub fn ahead(&self) -> usize {
        match self {
            Self::Sweep(sweep) => sweep.ahead(),
            Self::Ranked(ranked) => ranked.hard_waiting(),
        }
    }

    /// An outbox of the same kind for a link on which `shared` of the source was sent.
    #[must_use]
    pub fn sharing(&self, shared: Paged) -> Self {
        match self {
            Self::Sweep(_) => Self::Sweep(Sweep::sharing(shared)),
            Self::Ranked(_) => Self::Ranked(Ranked::sharing(shared)),
        }
    }

    /// A copy for a link to another mirror, which has received the same updates but no announcement.
    #[must_use]
    pub fn fork(&self) -> Self {
        match self {
            Self::Sweep(sweep) => Self::Sweep(sweep.fork()),
            Self::Ranked(ranked) => Self::Ranked(ranked.fork()),
        }
    }

    /// Adds changes that are not part of the source to the residuals. `leaves` says whether they are sent or stay in
    /// the residual.
    pub fn enqueue(&mut self, changes: Changes<'_>, leaves: bool) {
        match self {
            Self::Sweep(sweep) => sweep.enqueue(changes, leaves),
            Self::Ranked(ranked) => ranked.enqueue(changes),
        }
    }

    /// Stops sending: what is due stays in the residual.
    pub fn close(&mut self) {
        match self {
            Self::Sweep(sweep) => sweep.close(),
            Self::Ranked(ranked) => ranked.close(),
        }
    }

    /// The sum of what was sent on the link, per parameter.
    pub fn shared(&self) -> &Paged {
        match self {
            Self::Sweep(sweep) => sweep.shared(),
            Self::Ranked(ranked) => ranked.shared(),
        }
    }
}

persist! {
    impl Persist<()> for Outbox {
        fn walk(outbox, walk, ()) {
            match outbox {
                Self::Sweep(sweep) => walk.flatten(sweep, ()),
                Self::Ranked(ranked) => walk.flatten(ranked, ()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a link carries of a source, frame by frame, and what it then keeps.
    fn carried(outbox: &mut Outbox, source: &[f32]) -> Vec<f32> {
        let mut sum = vec![0.0; source.len()];
        let mut batch = Batch::default();
        loop {
            let room = Room { frame: 2, clock: 2 };
            outbox.take(source, ValueFormat::F32, room, &mut batch, &mut Scratch::default());
            if batch.is_empty() {
                return sum;
            }
            for (index, value) in batch.indexes.iter().zip(&batch.values) {
                sum[*index as usize] += value;
            }
        }
    }

    fn all(parameters: usize) -> Touched {
        let mut touched = Touched::none(parameters);
        touched.insert_range(0..parameters);
        touched
    }

    #[test]
    fn a_fork_carries_what_its_model_has_yet_to_carry_and_what_is_owed_beside() {
        let mut first = Outbox::Sweep(Sweep::new(4));
        first.mark(&all(4), Clock(1));
        let begun = [1.0, 2.0, 0.0, 0.0];
        assert_eq!(carried(&mut first, &begun), begun);
        let source = [1.0, 5.0, 7.0, 0.0];
        first.mark(&all(4), Clock(2));
        let mut fork = first.fork();
        fork.enqueue(Changes::Sparse { indexes: &[0, 3], values: &[10.0, -4.0] }, true);
        assert_eq!(carried(&mut fork, &source), [10.0, 3.0, 7.0, -4.0]);
        assert_eq!(carried(&mut first, &source), [0.0, 3.0, 7.0, 0.0]);
    }

    #[test]
    fn what_is_owed_after_the_end_of_updates_stays_at_home() {
        let source = [1.0, 2.0];
        let mut outbox = Outbox::Sweep(Sweep::new(2)).sharing(source.to_vec().into());
        outbox.close();
        outbox.enqueue(Changes::Dense { start: 1, values: &[3.0] }, false);
        assert_eq!((outbox.waiting(), outbox.shared().to_vec()), (0, vec![1.0, -1.0]));
    }
}
