//! The statistics that a script keeps while changes of others come late.
//!
//! A running mean moves towards what each worker measures. If all of them moved the shared value, which lacks what others have
//! changed in the last clocks, each would correct the same error again: a variance falls below 0, and with more data centers or
//! longer delays the value swings. So each script goes on from its own statistics and sends their changes, and the shared ones are
//! the mean of all. Evaluations and the model at the end have these.

use std::cell::Cell;
use std::ops::Range;

/// A script's own statistics.
pub(crate) struct OwnStatistics {
    /// Where the script's buffer has them.
    place: Range<usize>,
    /// Those after the latest iteration. Empty before the first one, and where no other worker takes part.
    values: Vec<f32>,
    /// The workers among which the shared ones were divided then.
    holders: usize,
}

impl OwnStatistics {
    /// Those at a place of the script's buffer. `None` where the script sends none.
    pub(crate) fn at(place: Range<usize>) -> Option<Self> {
        (!place.is_empty()).then(|| Self { place, values: Vec::new(), holders: 0 })
    }

    /// Replaces the shared statistics that were read into the script's buffer.
    pub(crate) fn show(&self, buffer: &[Cell<f32>]) {
        for (shown, own) in buffer[self.place.clone()].iter().zip(&self.values) {
            shown.set(*own);
        }
    }

    /// Those from which changes count, where the script's buffer had `read` before they were shown. `None` before the first
    /// iteration.
    ///
    /// Once after the number of workers has changed these are the shared ones: the mean then lacks what a worker that has come has,
    /// or still has what one that is gone had, until each has added how far its own are from it.
    pub(crate) fn before<'now>(
        &'now self,
        holders: usize,
        read: &'now [f32],
    ) -> Option<&'now [f32]> {
        if self.values.is_empty() {
            None
        } else if self.holders == holders {
            Some(&self.values)
        } else {
            Some(&read[self.place.clone()])
        }
    }

    /// Keeps what the script's buffer has after an iteration.
    pub(crate) fn keep(&mut self, buffer: &[Cell<f32>], holders: usize) {
        self.holders = holders;
        self.values.clear();
        if holders > 1 {
            self.values.extend(buffer[self.place.clone()].iter().map(Cell::get));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers that measure these values, and read the changes of others so many clocks late.
    struct Region {
        own: OwnStatistics,
        measured: f32,
        sent: Vec<f32>,
    }

    /// What the statistic that begins with 1 is after some clocks, and the least that a worker has read of it.
    fn shared(
        measured: &[f32],
        delay: usize,
        clocks: usize,
        leaves_at: Option<usize>,
    ) -> (f32, f32) {
        let new = |measured: &f32| {
            let own = OwnStatistics::at(0..1).unwrap();
            Region { own, measured: *measured, sent: Vec::new() }
        };
        let mut regions: Vec<Region> = measured.iter().map(new).collect();
        let (mut least, mut gone) = (1.0_f32, 0.0);
        for clock in 0..clocks {
            if leaves_at == Some(clock) {
                gone = regions.remove(0).sent.iter().sum();
            }
            let holders = regions.len();
            let arrived = clock.saturating_sub(delay);
            let late: Vec<f32> =
                regions.iter().map(|region| region.sent[..arrived].iter().sum()).collect();
            let all_late: f32 = late.iter().sum();
            for (at, region) in regions.iter_mut().enumerate() {
                let read = 1.0 + gone + all_late - late[at] + region.sent.iter().sum::<f32>();
                least = least.min(read);
                let mut buffer = [read];
                let cells = Cell::from_mut(&mut buffer[..]).as_slice_of_cells();
                region.own.show(cells);
                cells[0].set(0.9 * cells[0].get() + 0.1 * region.measured);
                let before = region.own.before(holders, &[read]).map_or(read, |before| before[0]);
                region.sent.push((cells[0].get() - before) / holders as f32);
                region.own.keep(cells, holders);
            }
        }
        let sent: f32 = regions.iter().flat_map(|region| &region.sent).sum();
        (1.0 + gone + sent, least)
    }

    #[test]
    fn a_running_mean_is_the_mean_of_what_is_measured_however_late_changes_come() {
        for (workers, delay) in [(1, 0), (3, 0), (3, 10), (11, 30), (3, 100)] {
            let measured: Vec<f32> =
                (0..workers).map(|worker| 0.02 * (1.0 + worker as f32)).collect();
            let mean = measured.iter().sum::<f32>() / workers as f32;
            let (found, least) = shared(&measured, delay, 400, None);
            assert!((found - mean).abs() < 1e-4, "{workers} workers, {delay} late: {found}");
            assert!(least > 0.0, "{workers} workers, {delay} late: {least}");
        }
    }

    #[test]
    fn what_a_worker_that_has_left_had_measured_leaves_the_mean() {
        let (found, least) = shared(&[0.9, 0.2, 0.1], 10, 600, Some(300));
        assert!((found - 0.15).abs() < 1e-4 && least > 0.0, "{found}");
        // Alone nothing comes late, and the worker goes on from what it reads.
        let (found, _) = shared(&[0.9, 0.2], 10, 600, Some(300));
        assert!((found - 0.2).abs() < 1e-4, "{found}");
    }
}
