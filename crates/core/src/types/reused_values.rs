//! Memory of values that were given to others, for the next ones.

use super::SharedValues;

/// Remembers values that it has given, and takes their memory again once nobody else holds them. Fresh memory has to be
/// given by the system page by page, which takes longer than to write to it.
#[derive(Debug, Default)]
pub struct ReusedValues {
    given: Vec<SharedValues>,
}

impl ReusedValues {
    /// An empty vector with room for `count` values: of memory that was given before, if some is free that is large enough and
    /// not much larger.
    pub fn take(&mut self, count: usize) -> Vec<f32> {
        let mut values = self.free(count).unwrap_or_else(|| Vec::with_capacity(count));
        values.clear();
        values
    }

    /// As [`Self::take`], `count` values for a caller that writes all of them: they may be those that were given before.
    pub fn take_stale(&mut self, count: usize) -> Vec<f32> {
        // Pages that nobody writes take no memory.
        let mut values = self.free(count).unwrap_or_else(|| vec![0.0; count]);
        values.resize(count, 0.0);
        values
    }

    /// The largest memory that was given before and nobody else holds any more, with what it holds. Empty if there is none.
    pub fn take_largest(&mut self) -> Vec<f32> {
        let free = self.given.iter().enumerate().filter(|(_, given)| !given.is_shared());
        let largest = free.max_by_key(|(_, given)| given.len()).map(|(at, _)| at);
        let taken = largest.and_then(|at| self.given.swap_remove(at).reclaim());
        taken.unwrap_or_default()
    }

    /// What was given before and nobody else holds any more, if it is large enough for `count` values and not much larger.
    fn free(&mut self, count: usize) -> Option<Vec<f32>> {
        let fits = |capacity: usize| (count..=count.saturating_mul(2)).contains(&capacity);
        let mut free = None;
        let is_free = |given: &mut SharedValues| {
            free = given.reclaim_if(fits);
            free.is_some()
        };
        if let Some(at) = self.given.iter_mut().position(is_free) {
            self.given.swap_remove(at);
        }
        free
    }

    /// Gives values to others.
    pub fn give(&mut self, values: Vec<f32>) -> SharedValues {
        let values = SharedValues::from(values);
        self.remember(values.clone());
        values
    }

    /// Remembers values that others hold as well.
    pub fn remember(&mut self, values: SharedValues) {
        self.given.push(values);
        if self.given.len() > GIVEN_MAX {
            let sizes = self.given.iter().map(|given| given.len()).enumerate();
            let least = sizes.min_by_key(|(_, len)| *len).map_or(0, |(at, _)| at);
            self.given.swap_remove(least);
        }
    }
}

/// Of more values the least are not remembered, and give their memory back to the system.
const GIVEN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn given(reused: &mut ReusedValues, count: usize) -> SharedValues {
        let mut values = reused.take(count);
        assert!(values.is_empty());
        values.resize(count, 1.0);
        reused.give(values)
    }

    #[test]
    fn memory_is_used_again_once_the_others_have_dropped_it() {
        let mut reused = ReusedValues::default();
        let held = given(&mut reused, 100);
        let also_held = held.clone();
        let other = given(&mut reused, 100);
        assert_ne!(other.as_ptr(), held.as_ptr());

        let address = held.as_ptr();
        drop(held);
        assert_ne!(given(&mut reused, 100).as_ptr(), address, "somebody holds it");
        drop(also_held);
        for count in [10, 49, 101] {
            assert_ne!(given(&mut reused, count).as_ptr(), address, "it has another size");
        }
        assert_eq!(given(&mut reused, 90).as_ptr(), address);
    }

    #[test]
    fn who_writes_all_values_may_find_those_of_before() {
        let mut reused = ReusedValues::default();
        assert_eq!(reused.take_stale(3), [0.0; 3]);
        let address = given(&mut reused, 100).as_ptr();
        let stale = reused.take_stale(90);
        assert_eq!((stale.as_ptr(), stale), (address, vec![1.0; 90]));

        let mut short = Vec::with_capacity(50);
        short.push(1.0);
        drop(reused.give(short));
        assert_eq!(reused.take_stale(40).len(), 40);
    }

    #[test]
    fn the_largest_memory_that_is_free_is_taken_first() {
        let mut reused = ReusedValues::default();
        assert_eq!(reused.take_largest(), []);
        let held: Vec<SharedValues> = [10, 40, 20].map(|count| given(&mut reused, count)).into();
        let part = held[1].part(3..4);
        drop(held);
        let found = [(); 3].map(|()| reused.take_largest().len());
        assert_eq!(found, [20, 10, 0], "a part holds the whole");
        drop(part);
        assert_eq!(reused.take_largest(), [1.0; 40]);
    }

    #[test]
    fn of_many_the_least_are_forgotten() {
        let mut reused = ReusedValues::default();
        let large = given(&mut reused, 1000);
        let small: Vec<SharedValues> = (0..2 * GIVEN_MAX).map(|_| given(&mut reused, 3)).collect();
        let address = large.as_ptr();
        drop((large, small));
        assert_eq!(given(&mut reused, 1000).as_ptr(), address);
        assert!(reused.given.len() <= GIVEN_MAX);
    }
}
