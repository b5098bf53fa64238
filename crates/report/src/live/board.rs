//! The latest figures of each data center, and the rates computed from them.

use std::collections::BTreeMap;

use gaia_telemetry::{DcProgress, Progress};

/// What the live view knows of a run before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct LivePlan {
    /// The headline.
    pub title: String,
    /// The objective that ends the run, where it has one.
    pub target_objective: Option<f64>,
    /// The name of the held-out metric.
    pub metric: String,
    /// In the order of the topology.
    pub data_centers: Vec<DcPlan>,
}

/// A data center of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DcPlan {
    /// Its name in the topology, by which records name it.
    pub name: String,
    /// How many workers it has: blocked time is a share of theirs.
    pub workers: usize,
}

/// The state of a run as it is shown.
pub(super) struct Board {
    pub(super) plan: LivePlan,
    pub(super) time_s: f64,
    pub(super) wan_bytes: u64,
    pub(super) evaluation: Option<Progress>,
    pub(super) data_centers: Vec<DcBoard>,
    /// The worker that does the work of each lost worker.
    pub(super) taken_over: BTreeMap<String, String>,
    /// When rates were last computed, in seconds of the run, and the bytes that each data center had sent by then.
    rates_at: (f64, Vec<u64>),
}

/// One data center's line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DcBoard {
    /// Whether it is not a member of the run.
    pub(super) absent: bool,
    pub(super) clock: u64,
    pub(super) objective: Option<f64>,
    /// Bits per second to other data centers, over the last second of the run or more.
    pub(super) wan_rate: Option<f64>,
    /// The share of its workers' time between the last two evaluations in which reads were held back.
    pub(super) blocked_share: Option<f64>,
}

impl Board {
    pub(super) fn new(plan: LivePlan) -> Self {
        let data_centers = vec![DcBoard::default(); plan.data_centers.len()];
        let rates_at = (0.0, vec![0; plan.data_centers.len()]);
        let (evaluation, taken_over) = (None, BTreeMap::new());
        Self { plan, time_s: 0.0, wan_bytes: 0, evaluation, data_centers, taken_over, rates_at }
    }

    pub(super) fn on_progress(&mut self, progress: &Progress) {
        let plans = self.plan.data_centers.iter();
        let judged: Vec<Option<&DcProgress>> = plans.map(|plan| of(progress, &plan.name)).collect();
        let clocks: Vec<Option<u64>> = judged.iter().map(|dc| dc.map(|dc| dc.clock)).collect();
        let sent = judged.iter().zip(&self.rates_at.1);
        let sent: Vec<u64> =
            sent.map(|(dc, before)| dc.map_or(*before, |dc| dc.wan_sent_bytes)).collect();

        self.on_tick(progress.time_s, &clocks, &sent);
        self.wan_bytes = progress.wan_bytes;

        let boards = self.data_centers.iter_mut().zip(&self.plan.data_centers);
        for ((board, plan), dc) in boards.zip(judged) {
            let before = self.evaluation.as_ref();
            let before = before.and_then(|last| Some((last.time_s, of(last, &plan.name)?)));
            board.objective = dc.map(|dc| dc.objective);
            board.blocked_share =
                dc.and_then(|dc| blocked_share(before, (progress.time_s, dc), plan.workers));
        }

        self.evaluation = Some(progress.clone());
    }

    pub(super) fn on_tick(&mut self, time_s: f64, clocks: &[Option<u64>], wan_sent_bytes: &[u64]) {
        self.time_s = time_s;
        // Servers report what they have sent, and any of them may claim any number.
        let sent = wan_sent_bytes.iter().copied().fold(0, u64::saturating_add);
        self.wan_bytes = sent.max(self.wan_bytes);
        for (board, clock) in self.data_centers.iter_mut().zip(clocks) {
            board.absent = clock.is_none();
            board.clock = clock.unwrap_or(board.clock);
        }
        let elapsed = time_s - self.rates_at.0;
        let unknown = self.data_centers.iter().all(|dc| dc.wan_rate.is_none());
        if elapsed >= RATE_WINDOW_S || (unknown && elapsed > 0.0) {
            let before = &self.rates_at.1;
            for ((board, sent), before) in
                self.data_centers.iter_mut().zip(wan_sent_bytes).zip(before)
            {
                board.wan_rate = Some(sent.saturating_sub(*before) as f64 * 8.0 / elapsed);
            }
            self.rates_at = (time_s, wan_sent_bytes.to_vec());
        }
    }

    pub(super) fn on_taken_over(&mut self, lost: &str, by: &str) {
        self.taken_over.insert(lost.into(), by.into());
    }

    pub(super) fn on_given_back(&mut self, lost: &str) {
        self.taken_over.remove(lost);
    }

    /// The members furthest behind and furthest ahead, by position.
    pub(super) fn slowest_and_fastest(&self) -> Option<(usize, usize)> {
        let clock = |at: &usize| self.data_centers[*at].clock;
        let all = (0..self.data_centers.len()).filter(|at| !self.data_centers[*at].absent);
        let slowest = all.clone().min_by_key(clock)?;
        let fastest = all.rev().max_by_key(clock)?;
        Some((slowest, fastest))
    }
}

/// A data center's record in an evaluation. `None` where its copy was not evaluated.
fn of<'p>(progress: &'p Progress, name: &str) -> Option<&'p DcProgress> {
    progress.data_centers.iter().find(|dc| dc.name == name)
}

fn blocked_share(
    before: Option<(f64, &DcProgress)>,
    (time_s, dc): (f64, &DcProgress),
    workers: usize,
) -> Option<f64> {
    let (time_before, blocked_before) = before.map_or((0.0, 0.0), |(at, dc)| (at, dc.blocked_s));
    let worker_seconds = (time_s - time_before) * workers as f64;
    (worker_seconds > 0.0)
        .then(|| ((dc.blocked_s - blocked_before) / worker_seconds).clamp(0.0, 1.0))
}

const RATE_WINDOW_S: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_servers_claim_to_have_sent_is_added_up() {
        let plan = |name: &str| DcPlan { name: name.into(), workers: 1 };
        let mut board = Board::new(LivePlan {
            title: String::new(),
            target_objective: None,
            metric: "rmse".into(),
            data_centers: ["north", "south"].map(plan).into(),
        });
        board.on_tick(1.0, &[Some(1), Some(1)], &[3, 4]);
        assert_eq!(board.wan_bytes, 7);
        board.on_tick(2.0, &[Some(2), Some(2)], &[u64::MAX, 4]);
        assert_eq!(board.wan_bytes, u64::MAX);
    }
}
