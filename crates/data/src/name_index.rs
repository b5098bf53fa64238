//! Names while they are read, numbered by their first occurrence.

#![allow(
    clippy::disallowed_types,
    reason = "what is looked up for every row is sorted before it is used"
)]

use std::collections::HashMap;

use gaia_core::application::Names;

/// The users or the items that have been read so far.
#[derive(Default)]
pub(super) struct NameIndex {
    numbers: HashMap<u64, u32>,
    /// The name that was met last, and its place: files are often sorted by user.
    last: Option<(u64, u32)>,
}

impl NameIndex {
    /// The place of a number in the order of first occurrence.
    pub(super) fn number(&mut self, number: u64) -> u32 {
        if let Some((last, place)) = self.last
            && last == number
        {
            return place;
        }
        let next = self.numbers.len() as u32;
        let place = *self.numbers.entry(number).or_insert(next);
        self.last = Some((number, place));
        place
    }

    /// The names in ascending order, and for each name, in the order of first occurrence, its place among them.
    pub(super) fn into_names(self) -> (Names, Vec<u32>) {
        let (numbers, places) = ascending(self.numbers);
        (Names::Numbers(numbers), places)
    }
}

/// The keys in ascending order, and for each of the values 0, 1, … the place of its key.
fn ascending<N: Ord>(known: HashMap<N, u32>) -> (Vec<N>, Vec<u32>) {
    let mut known: Vec<(N, u32)> = known.into_iter().collect();
    known.sort_unstable();
    let mut places = vec![0; known.len()];
    for (place, (_, first)) in known.iter().enumerate() {
        places[*first as usize] = place as u32;
    }
    (known.into_iter().map(|(name, _)| name).collect(), places)
}

/// Whether there are such names of a data center: in ascending order, and no text too long.
pub(super) fn is_sound(names: &Names) -> bool {
    let is_short = match names {
        Names::Numbers(_) => true,
        Names::Text(texts) => texts.iter().all(|text| text.len() <= NAME_BYTES_MAX),
    };
    is_short && names.is_ascending()
}

/// Bytes of one name.
pub(super) const NAME_BYTES_MAX: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_out_ascending_with_the_places_of_those_that_were_read() {
        let mut index = NameIndex::default();
        let read = [7, 7, u64::MAX, 2, 7].map(|number| index.number(number));
        assert_eq!(read, [0, 0, 1, 2, 0]);
        let (names, places) = index.into_names();
        assert_eq!((names, places), (Names::Numbers(vec![2, 7, u64::MAX]), vec![1, 2, 0]));
    }
}
