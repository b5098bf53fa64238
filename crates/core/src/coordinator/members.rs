//! Which data centers leave together.

use std::collections::BTreeSet;

use crate::types::DcId;

/// The data centers that leave when `dc` does: itself, and those that receive a copy from one that leaves, since their
/// copies are incomplete. `copies` holds a pair of receiver and source for each copy in transfer.
pub(super) fn leave_with(dc: DcId, copies: &[(DcId, DcId)]) -> BTreeSet<DcId> {
    let mut leaving = BTreeSet::from([dc]);
    loop {
        let takers = copies.iter().filter(|(_, from)| leaving.contains(from)).map(|(to, _)| *to);
        let takers: BTreeSet<DcId> = takers.collect();
        if takers.is_subset(&leaving) {
            return leaving;
        }
        leaving.extend(takers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_for_a_copy_from_one_that_leaves_leaves_with_it_and_so_on() {
        let copies = [(4, 3), (2, 1), (3, 1), (6, 5)].map(|(to, from)| (DcId(to), DcId(from)));
        let expected = |dcs: &[u16]| dcs.iter().copied().map(DcId).collect::<BTreeSet<_>>();
        assert_eq!(leave_with(DcId(1), &copies), expected(&[1, 2, 3, 4]));
        assert_eq!(leave_with(DcId(3), &copies), expected(&[3, 4]));
        assert_eq!(leave_with(DcId(2), &copies), expected(&[2]));
    }
}
