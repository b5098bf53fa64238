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
        let fits = |capacity: usize| (count..=count.saturating_mul(2)).contains(&capacity);
        let mut free = None;
        let is_free = |given: &mut SharedValues| {
            free = given.reclaim_if(fits);
            free.is_some()
        };
        if let Some(at) = self.given.iter_mut().position(is_free) {
            self.given.swap_remove(at);
        }
        let mut values = free.unwrap_or_else(|| Vec::with_capacity(count));
        values.clear();
        values
    }

    /// Gives values to others.
    pub fn give(&mut self, values: Vec<f32>) -> SharedValues {
        let values = SharedValues::from(values);
        self.given.push(values.clone());
        if self.given.len() > GIVEN_MAX {
            let sizes = self.given.iter().map(|given| given.len()).enumerate();
            let least = sizes.min_by_key(|(_, len)| *len).map_or(0, |(at, _)| at);
            self.given.swap_remove(least);
        }
        values
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
