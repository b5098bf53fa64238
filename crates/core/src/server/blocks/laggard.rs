//! Whether all mirrors have done something, asked after every frame.

use std::collections::BTreeMap;

use crate::types::DcId;

/// The mirror that had not done it when asked last.
///
/// It is looked at first, and the others after it in a circle, so that to ask after each frame of many mirrors takes
/// constant time for each.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Laggard(DcId);

impl Default for Laggard {
    fn default() -> Self {
        Self(DcId(0))
    }
}

impl Laggard {
    /// Whether all mirrors are `done`.
    pub(in crate::server) fn all<T>(
        &mut self,
        mirrors: &BTreeMap<DcId, T>,
        done: impl Fn(&T) -> bool,
    ) -> bool {
        let mut circle = mirrors.range(self.0..).chain(mirrors.range(..self.0));
        match circle.find(|(_, mirror)| !done(mirror)) {
            Some((dc, _)) => {
                self.0 = *dc;
                false
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn all_are_asked_for_in_linear_time_and_may_fall_back() {
        let mut mirrors: BTreeMap<DcId, bool> = (0..1000).map(|dc| (DcId(dc), false)).collect();
        let (mut laggard, looks) = (Laggard::default(), Cell::new(0));
        let mut all = |mirrors: &BTreeMap<DcId, bool>| {
            laggard.all(mirrors, |done| {
                looks.set(looks.get() + 1);
                *done
            })
        };
        for dc in (0..1000).map(|step| DcId((step + 500) % 1000)) {
            assert!(!all(&mirrors));
            mirrors.insert(dc, true);
        }
        assert!(all(&mirrors));
        assert!(looks.get() <= 4000, "{}", looks.get());

        mirrors.insert(DcId(3), false);
        assert!(!all(&mirrors));
    }
}
