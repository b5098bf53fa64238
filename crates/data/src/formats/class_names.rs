//! The names of classes: those of one data center, and of all.

use std::collections::BTreeSet;

use gaia_core::application::{Name, Names};

/// The names of the classes of all data centers, ascending. They are numbers where all are.
///
/// A data center that lacks a class may have numbers where another one has text: labels of +1 alone, and labels of −1 too.
pub(crate) fn union<'a>(lists: impl Iterator<Item = &'a Names>) -> Names {
    let lists: Vec<&Names> = lists.collect();
    let numbers: Option<Vec<&Vec<u64>>> = lists
        .iter()
        .map(|names| match names {
            Names::Numbers(numbers) => Some(numbers),
            Names::Text(_) => None,
        })
        .collect();
    match numbers {
        Some(numbers) => {
            let all: BTreeSet<u64> = numbers.into_iter().flatten().copied().collect();
            Names::Numbers(all.into_iter().collect())
        }
        None => {
            let all: BTreeSet<String> =
                lists.into_iter().flat_map(each).map(|name| name.to_string()).collect();
            Names::Text(all.into_iter().collect())
        }
    }
}

/// The place that each name of a data center has among the names of all, or [`UNKNOWN`].
pub(crate) fn places(own: &Names, all: &Names) -> Vec<u32> {
    each(own).map(|name| all.place(name).map_or(UNKNOWN, |place| place as u32)).collect()
}

/// The numbers of classes without names, as names.
pub(crate) fn numbered(classes: usize) -> Names {
    Names::Numbers((0..classes as u64).collect())
}

/// The names in their order, as many as fit in a message.
pub(crate) fn listed(names: &Names) -> String {
    let first: Vec<String> =
        each(names).take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(NAMES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

fn each(names: &Names) -> impl Iterator<Item = Name<'_>> {
    (0..names.len()).filter_map(|place| names.get(place))
}

/// The place of a class that is not among those of all.
pub(crate) const UNKNOWN: u32 = u32::MAX;

const NAMES_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_the_same_place_whichever_classes_a_data_center_has() {
        let numbers = Names::Numbers(vec![1, 10]);
        let more = Names::Numbers(vec![0, 2, 10]);
        let text = Names::Text(vec!["-1".into(), "1".into()]);

        let all = union([&numbers, &more].into_iter());
        assert_eq!(all, Names::Numbers(vec![0, 1, 2, 10]));
        assert_eq!((places(&numbers, &all), places(&more, &all)), (vec![1, 3], vec![0, 2, 3]));

        let all = union([&numbers, &text].into_iter());
        assert_eq!(all, Names::Text(["-1", "1", "10"].map(str::to_owned).to_vec()));
        assert_eq!((places(&numbers, &all), places(&text, &all)), (vec![1, 2], vec![0, 1]));
        assert_eq!(listed(&all), "`-1`, `1`, `10`");
    }
}
