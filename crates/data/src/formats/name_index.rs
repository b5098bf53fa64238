//! Names while they are read, numbered by their first occurrence.

#![allow(
    clippy::disallowed_types,
    reason = "what is looked up for every row is sorted before it is used"
)]

use std::collections::HashMap;

use crate::formats::table::NameColumn;
use gaia_core::application::{Names, usual_number};

/// The users, items or classes that have been read so far.
///
/// All are numbers until one is text. Then all are text, the numbers as they are usually written.
#[derive(Default)]
pub(crate) struct NameIndex {
    numbers: HashMap<u64, u32>,
    /// The number that was met last, and its place: files are often sorted by user.
    last: Option<(u64, u32)>,
    /// What numbers and text have become, once there is text.
    texts: Option<HashMap<String, u32>>,
}

impl NameIndex {
    /// The place of a number in the order of first occurrence.
    pub(crate) fn number(&mut self, number: u64) -> u32 {
        if self.texts.is_some() {
            return self.text(&number.to_string());
        }
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

    /// The place of a text in the order of first occurrence.
    pub(crate) fn text(&mut self, text: &str) -> u32 {
        let texts = self.texts.get_or_insert_with(|| {
            let numbers = std::mem::take(&mut self.numbers).into_iter();
            numbers.map(|(number, place)| (number.to_string(), place)).collect()
        });
        if let Some(place) = texts.get(text) {
            return *place;
        }
        let next = texts.len() as u32;
        texts.insert(text.to_owned(), next);
        next
    }

    /// The place of a field of a format without types: a number if it is written as numbers usually are.
    fn untyped(&mut self, field: &str) -> u32 {
        match usual_number(field) {
            Some(number) => self.number(number),
            None => self.text(field),
        }
    }

    /// The places of the names of a column in the order of first occurrence.
    pub(crate) fn places(&mut self, column: &NameColumn) -> Vec<u32> {
        // A column of names is checked to be text when it is read.
        let text = String::from_utf8_lossy;
        match column {
            NameColumn::Numbers(numbers) => {
                numbers.iter().map(|number| self.number(*number)).collect()
            }
            NameColumn::Text(names) => names.iter().map(|name| self.text(&text(name))).collect(),
            NameColumn::Untyped(names) => {
                names.iter().map(|name| self.untyped(&text(name))).collect()
            }
        }
    }

    /// The names in ascending order, and for each name, in the order of first occurrence, its place among them.
    pub(crate) fn into_names(self) -> (Names, Vec<u32>) {
        match self.texts {
            Some(texts) => {
                let (texts, places) = ascending(texts);
                (Names::Text(texts), places)
            }
            None => {
                let (numbers, places) = ascending(self.numbers);
                (Names::Numbers(numbers), places)
            }
        }
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
pub(crate) fn is_sound(names: &Names) -> bool {
    let is_short = match names {
        Names::Numbers(_) => true,
        Names::Text(texts) => texts.iter().all(|text| text.len() <= NAME_BYTES_MAX),
    };
    is_short && names.is_ascending()
}

/// Bytes of one name.
pub(crate) const NAME_BYTES_MAX: usize = 1 << 10;

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

    #[test]
    fn numbers_stay_numbers_until_a_name_is_text() {
        let mut index = NameIndex::default();
        assert_eq!(["10", "9", "0"].map(|field| index.untyped(field)), [0, 1, 2]);
        assert!(index.texts.is_none());

        assert_eq!(["09", "9", "+9", ""].map(|field| index.untyped(field)), [3, 1, 4, 5]);
        assert_eq!(index.number(10), 0);
        let (names, places) = index.into_names();
        let expected = ["", "+9", "0", "09", "10", "9"].map(str::to_owned).to_vec();
        assert_eq!((names, places), (Names::Text(expected), vec![4, 5, 2, 3, 1, 0]));
    }
}
