//! What data centers have measured of copies that traveled to them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Lost;
use gaia_core::node::Probed;
use gaia_core::sync::CopiesDue;
use gaia_core::types::{Clock, DcId};

/// The measurements of copies that were taken about the same clock, by the copies' number, until all data centers have
/// measured one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Traveled(BTreeMap<u64, BTreeMap<DcId, Probed>>);

impl Traveled {
    /// Adds the measurement of a copy at a data center. Once all `data_centers` have measured one of about that clock: what
    /// copies lose, with the latest clock of them.
    ///
    /// Each data center measures the copy of another one, so that all together measure each copy once. Some of them alone say
    /// little: a copy that is worse everywhere, at home, too, would seem to lose.
    pub(super) fn add(
        &mut self,
        at: DcId,
        probed: Probed,
        data_centers: usize,
    ) -> Option<(Clock, Lost)> {
        let number = CopiesDue::Doubling.number(probed.clock);
        let look = self.0.entry(number).or_default();
        look.insert(at, probed);
        if look.len() < data_centers {
            return None;
        }

        // A measurement that is missing of an earlier number was lost with a process, or its copy was overtaken.
        let look = self.0.remove(&number)?;
        self.0 = self.0.split_off(&number);
        let clock = look.values().map(|probed| probed.clock).max()?;
        let lost: f64 = look.values().map(|probed| probed.away - probed.home).sum();
        let untrained: f64 = look.values().map(|probed| probed.untrained).sum();
        Some((clock, Lost::of(lost, untrained)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(clock: u64, away: f64, home: f64) -> Probed {
        Probed { of: DcId(0), clock: Clock(clock), away, home, untrained: 2.0 }
    }

    #[test]
    fn copies_are_judged_once_all_data_centers_have_measured_one() {
        let mut traveled = Traveled::default();
        assert_eq!(traveled.add(DcId(0), probed(10, 1.5, 1.0), 3), None);
        assert_eq!(traveled.add(DcId(0), probed(10, 1.5, 1.0), 3), None, "the same again");
        assert_eq!(traveled.add(DcId(1), probed(20, 9.0, 1.0), 3), None, "another copy");
        assert_eq!(traveled.add(DcId(1), probed(11, 1.5, 1.0), 3), None);
        let found = traveled.add(DcId(2), probed(10, 0.8, 1.0), 3);
        assert_eq!(found.map(|(clock, _)| clock), Some(Clock(11)));
        let Some((_, Lost(lost))) = found else { panic!("all have measured") };
        assert!((lost - 0.8 / 6.0).abs() < 1e-12, "{lost}");
    }

    #[test]
    fn copies_of_an_earlier_clock_that_are_not_all_measured_are_forgotten() {
        let mut traveled = Traveled::default();
        traveled.add(DcId(0), probed(10, 9.0, 1.0), 2);
        for dc in 0..2 {
            traveled.add(DcId(dc), probed(20, 1.0, 1.0), 2);
        }
        assert!(traveled.0.is_empty());
    }

    #[test]
    fn a_copy_without_a_loss_has_lost_everything() {
        let mut traveled = Traveled::default();
        let found = traveled.add(DcId(0), probed(10, f64::NAN, 1.0), 1);
        assert_eq!(found, Some((Clock(10), Lost(1.0))));
    }
}
