//! Users or items of a data center with how many training ratings each has, and their union over all data centers.

use serde::{Deserialize, Serialize};

use crate::error::shown;
use crate::formats::name_index::is_sound;
use gaia_core::application::{Name, Names};

/// Names in ascending order, each with a count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CountedNames {
    pub(crate) names: Names,
    pub(crate) counts: Vec<u64>,
}

impl CountedNames {
    /// Whether what was received from another process can be names and their counts.
    pub(crate) fn is_sound(&self) -> bool {
        is_sound(&self.names) && self.names.len() == self.counts.len()
    }

    /// The sum of all counts. `None` where it is too large for a number.
    pub(crate) fn total(&self) -> Option<u64> {
        self.counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count))
    }

    /// All whole numbers of a range that has every name, both ends included, with the counts of the names.
    pub(crate) fn in_range(&self, [first, last]: [u64; 2]) -> Self {
        let mut counts = vec![0; (last - first) as usize + 1];
        if let Names::Numbers(names) = &self.names {
            for (name, count) in names.iter().zip(&self.counts) {
                counts[(name - first) as usize] = *count;
            }
        }
        Self { names: Names::Numbers((first..=last).collect()), counts }
    }

    /// The first name that is not a whole number of a range, both ends included.
    pub(crate) fn outside(&self, [first, last]: [u64; 2]) -> Option<String> {
        let is_outside = |name: &Name<'_>| match name {
            Name::Number(number) => !(first..=last).contains(number),
            Name::Text(_) => true,
        };
        let mut names = (0..self.names.len()).filter_map(|place| self.names.get(place));
        names.find(is_outside).map(|name| shown(name.to_string().as_bytes()))
    }

    /// The union of names, with the sum of the counts of each.
    ///
    /// # Errors
    /// The place in the list of the first that has numbers where the first of all has text, or text where that has numbers.
    pub(crate) fn union(lists: &[&Self]) -> Result<Self, usize> {
        let Some(first) = lists.first() else {
            return Ok(Self { names: Names::Numbers(Vec::new()), counts: Vec::new() });
        };
        let numbers = |list: &&Self| match &list.names {
            Names::Numbers(numbers) => Some(numbers.clone()),
            Names::Text(_) => None,
        };
        let texts = |list: &&Self| match &list.names {
            Names::Numbers(_) => None,
            Names::Text(texts) => Some(texts.clone()),
        };
        let (names, counts) = match &first.names {
            Names::Numbers(_) => {
                let (names, counts) = merged(lists, numbers)?;
                (Names::Numbers(names), counts)
            }
            Names::Text(_) => {
                let (names, counts) = merged(lists, texts)?;
                (Names::Text(names), counts)
            }
        };
        Ok(Self { names, counts })
    }
}

/// The names of all lists, ascending, and the sum of the counts of each. Otherwise the first list without such names.
fn merged<N: Ord>(
    lists: &[&CountedNames],
    names: impl Fn(&&CountedNames) -> Option<Vec<N>>,
) -> Result<(Vec<N>, Vec<u64>), usize> {
    let mut all: Vec<(N, u64)> = Vec::new();
    for (at, list) in lists.iter().enumerate() {
        let names = names(list).ok_or(at)?;
        all.extend(names.into_iter().zip(list.counts.iter().copied()));
    }
    all.sort_unstable();
    all.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same {
            earlier.1 += later.1;
        }
        is_same
    });
    Ok(all.into_iter().unzip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_union_has_each_name_once_with_all_of_its_counts() {
        let texts = |names: &[&str], counts: &[u64]| CountedNames {
            names: Names::Text(names.iter().map(|name| (*name).to_owned()).collect()),
            counts: counts.to_vec(),
        };
        let numbers = |names: &[u64], counts: &[u64]| CountedNames {
            names: Names::Numbers(names.to_vec()),
            counts: counts.to_vec(),
        };
        let (one, other) = (numbers(&[2, 7], &[1, 2]), numbers(&[1, 7], &[4, 8]));
        assert_eq!(CountedNames::union(&[&one, &other]), Ok(numbers(&[1, 2, 7], &[4, 1, 10])));
        let (text, more) = (texts(&["b"], &[3]), texts(&["a", "b"], &[1, 5]));
        assert_eq!(CountedNames::union(&[&text, &more]), Ok(texts(&["a", "b"], &[1, 8])));
        assert_eq!(CountedNames::union(&[&text, &more, &one]), Err(2));
        assert_eq!(CountedNames::union(&[&one, &text]), Err(1));
    }
}
