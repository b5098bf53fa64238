//! The names that data gives to the rows of a table or to classes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The names of the users, items, words or classes of a model, one for each row or class, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Names {
    /// Whole numbers, such as the identifiers of users in a file of ratings.
    Numbers(Vec<u64>),
    /// Text, such as words or the names of classes.
    Text(Vec<String>),
}

/// One name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name<'a> {
    /// A whole number.
    Number(u64),
    /// Text.
    Text(&'a str),
}

impl Names {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Text(texts) => texts.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name at a place, if there are so many.
    pub fn get(&self, place: usize) -> Option<Name<'_>> {
        match self {
            Self::Numbers(numbers) => numbers.get(place).copied().map(Name::Number),
            Self::Text(texts) => texts.get(place).map(|text| Name::Text(text)),
        }
    }

    /// The place of a name among names in ascending order. `None` where it is not one of them. A number and the text that it is
    /// usually written as are the same name: the identifiers of a file are numbers until one of them is not.
    pub fn place(&self, name: Name<'_>) -> Option<usize> {
        match (self, name) {
            (Self::Numbers(numbers), Name::Number(number)) => numbers.binary_search(&number).ok(),
            (Self::Numbers(_), Name::Text(text)) => self.place(Name::Number(usual_number(text)?)),
            (Self::Text(texts), Name::Text(text)) => {
                texts.binary_search_by(|other| other.as_str().cmp(text)).ok()
            }
            (Self::Text(_), Name::Number(number)) => self.place(Name::Text(&number.to_string())),
        }
    }

    /// Whether names are in ascending order and no two are the same.
    pub fn is_ascending(&self) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.is_sorted_by(|a, b| a < b),
            Self::Text(texts) => texts.is_sorted_by(|a, b| a < b),
        }
    }
}

/// The whole number that a text is, without a sign or leading zeros: as numbers are usually written.
pub fn usual_number(text: &str) -> Option<u64> {
    let is_usual = text == "0" || text.starts_with(|first| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| is_usual)
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_at_their_place() {
        let numbers = Names::Numbers(vec![2, 5, u64::MAX]);
        let texts = Names::Text(vec!["a".into(), "b c".into()]);
        for names in [&numbers, &texts] {
            assert!(names.is_ascending() && !names.is_empty());
            for place in 0..names.len() {
                assert_eq!(names.get(place).and_then(|name| names.place(name)), Some(place));
            }
            assert_eq!(names.get(names.len()), None);
        }
        assert_eq!(numbers.place(Name::Number(3)), None);
        assert!(!Names::Numbers(vec![1, 1]).is_ascending());
        assert_eq!(texts.get(1).map(|name| name.to_string()).as_deref(), Some("b c"));
    }

    #[test]
    fn a_number_is_the_text_that_it_is_usually_written_as() {
        let numbers = Names::Numbers(vec![0, 2, 10]);
        let texts = Names::Text(["0", "02", "10", "a"].map(str::to_owned).to_vec());
        let in_numbers =
            ["2", "10", "02", "+2", "", "a"].map(|text| numbers.place(Name::Text(text)));
        assert_eq!(in_numbers, [Some(1), Some(2), None, None, None, None]);
        let in_texts = [0, 2, 10].map(|number| texts.place(Name::Number(number)));
        assert_eq!(in_texts, [Some(0), None, Some(2)]);
    }
}
